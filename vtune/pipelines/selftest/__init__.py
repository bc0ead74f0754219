"""Trainings and process trees whose truth is known: what `vtune doctor --selftest` measures."""
