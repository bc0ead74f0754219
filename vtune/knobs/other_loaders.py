"""Loaders, and other things with workers and batches, that are not the training's, told by their names."""

from __future__ import annotations

import re

# A key or flag below one of these belongs to another loader than the training's, or to no loader at all.
OTHER_LOADERS = frozenset(
    ("val", "valid", "validation", "test", "eval", "evaluation", "evaluator", "inference", "infer", "predict",
     "prediction", "metric", "metrics", "preprocess", "preprocessing", "postprocess", "postprocessing", "prepare",
     "tokenize", "tokenizer", "tokenization", "teacher", "hydra", "launcher", "slurm", "submitit", "sweeper", "export",
     "serve", "server", "serving", "benchmark")
)  # fmt: skip


def of_another_loader(key: str) -> bool:
    return not OTHER_LOADERS.isdisjoint(re.split(r"[^a-z]+", key.lower()))
