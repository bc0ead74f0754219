"""What may be turned, and the effects that turn it."""
