"""Loaders that are not the training's, told by their names."""

from __future__ import annotations

import re

# A key or flag below one of these belongs to another loader than the training's.
OTHER_LOADERS = frozenset(
    ("val", "valid", "validation", "test", "eval", "evaluation", "inference", "infer", "predict", "prediction")
)


def of_another_loader(key: str) -> bool:
    return not OTHER_LOADERS.isdisjoint(re.split(r"[^a-z]+", key.lower()))
