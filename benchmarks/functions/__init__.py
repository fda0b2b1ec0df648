"""Windows with user code, a count trigger or an evictor, compared with a hand-written ``transformWithState`` for each."""
