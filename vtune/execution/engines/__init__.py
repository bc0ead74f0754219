"""Where the processes of a trial run."""
