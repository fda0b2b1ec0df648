"""The window operators: what consumes columns, keeps state and fires windows for one key group."""
