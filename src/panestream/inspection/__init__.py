"""What a checkpoint or savepoint holds, for people: reduced key group by key group, put together, shown."""
