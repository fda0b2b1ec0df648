"""Recording of events in rows and windows, and answers to "why" questions."""
