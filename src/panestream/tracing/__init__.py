"""What happened to each row and each window, recorded; and the answers to "why"."""
