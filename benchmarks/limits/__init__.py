"""The limits of panestream with a growing number of keys and of late rows."""
