"""A training seen from outside alone: who is who in its tree, what its log tells, and what it waits for."""
