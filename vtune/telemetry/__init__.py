"""Reading host, storage and GPU while a trial runs, from the parent side."""
