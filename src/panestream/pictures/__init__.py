"""Pictures of rows, windows, the watermark and firings."""
