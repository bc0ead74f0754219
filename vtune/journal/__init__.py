"""What happened: one line a trial, append-only; every path of a study in one class."""
