"""A query that runs for hours, is killed and stopped and started again: is it right at the end, and does anything grow?"""
