"""Rows, windows, the watermark and firings as a picture."""
