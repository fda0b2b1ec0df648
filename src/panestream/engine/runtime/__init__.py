"""The runtime of one key group, common to all operators: input and output, watermark, lateness, clock."""
