"""The full run: what is launched, whether it may be, and what becomes of it."""
