"""torchdata's StatefulDataLoader: its constructor and its multi-process iterator do not call torch's."""

from __future__ import annotations

from types import ModuleType

from _vtune_hooks import loaders


def placed(module: ModuleType) -> None:
    loaders.watch_loader_class(module, "StatefulDataLoader")
    loaders.watch_iterator_class(module, "_StatefulMultiProcessingDataLoaderIter", "_reset", loaders._resetting)
