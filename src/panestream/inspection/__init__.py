"""Readable summaries of checkpoints and savepoints: each key group is reduced, and the parts are merged and shown."""
