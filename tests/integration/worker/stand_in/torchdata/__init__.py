"""As much of torchdata as the hooks touch: see stateful_dataloader."""
