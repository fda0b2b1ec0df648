"""The stored state of a key group: payloads, seals, blocks of panes and pages of keys."""
