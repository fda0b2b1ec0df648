"""Hot items of a shop: clicks to try panestream with, a job over them, and a picture of its results. ``make run`` runs it."""
