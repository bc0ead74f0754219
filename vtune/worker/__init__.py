"""A trial seen from inside the training process: an injected folder, standard library only."""
