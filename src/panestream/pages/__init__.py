"""What pages and their pictures share: one file with all in it, light and dark, wide and narrow, nothing fetched, nothing run."""
