"""What runs one key group of a query, whatever its operator: what goes in and comes out, watermark, lateness, clock."""
