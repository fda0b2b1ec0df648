"""What rests in a key group's state: payloads, seals, blocks of panes and pages of keys."""
