"""The demo, ``panestream demo``: made-up clicks of a shop, a job over them, a picture. Nothing else needs it."""
