"""vtune makes training runs fast: short, bounded trials of the real training."""
