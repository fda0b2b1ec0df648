"""The exchange: rows are packed into payloads for a key group and joined again for its operator. Without Spark."""
