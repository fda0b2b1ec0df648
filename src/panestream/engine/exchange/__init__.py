"""What crosses the shuffle: rows packed into payloads for a key group, and put together again for its operator. Without Spark."""
