"""Windows with the user's own code, a count trigger or an evictor: beside ``transformWithState`` written by hand for each."""
