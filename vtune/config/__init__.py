"""From an experiment file or a command line to an Experiment."""
