"""Shaped like torchdata 0.11: its constructor calls no super().__init__, its worker loop is its own."""

from torchdata.stateful_dataloader.stateful_dataloader import StatefulDataLoader

__all__ = ["StatefulDataLoader"]
