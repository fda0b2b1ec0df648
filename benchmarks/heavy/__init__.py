"""What is hot or heavy: how fast, in how much memory, and is the answer right?"""
