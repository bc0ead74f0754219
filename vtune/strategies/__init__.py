"""From the history to the next proposal."""
