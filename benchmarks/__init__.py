"""panestream beside native ``window()`` and beside a hand-written operator per key: same rows, same store, same machine."""
