"""A trial seen from outside: start, watch, stop, say how it ended."""
