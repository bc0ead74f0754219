"""What a search goes by, and what it shows: which settings are worth a trial, which knob mattered, how good the
predictions were."""
