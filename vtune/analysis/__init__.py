"""Measure, diagnose, predict, choose: pure functions over records."""
