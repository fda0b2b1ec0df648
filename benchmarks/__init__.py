"""Compare panestream with native ``window()`` and with a hand-written operator per key: same rows, same store, same machine."""
