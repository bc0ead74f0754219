"""Verdicts over a full run, from its counters, its memory and what its trial promised. Pure, like all analysis."""
