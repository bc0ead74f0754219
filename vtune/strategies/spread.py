"""Settings by how far they lie from one another: an order that is spread out, and the nearest of many."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from vtune.strategies.indexed_space import IDLE, Axes, Code

# Points drawn for each of the settings, before what no point fell on is taken in any order.
POINTS_EACH = 3


def spread_out(codes: Sequence[Code], axes: Axes) -> list[Code]:
    """Every one of them once, always in the same order, of which any beginning covers the whole evenly.

    By the additive recurrence of Martin Roberts: the fractional parts of k/g, k/g², …, where g^(d+1) = g + 1.
    """
    sizes = np.array(axes.sizes)
    golden = 1.5
    for _ in range(60):
        golden = (1 + golden) ** (1 / (len(sizes) + 1))
    steps = golden ** -(1.0 + np.arange(len(sizes)))
    points = (0.5 + np.outer(np.arange(POINTS_EACH * len(codes)), steps)) % 1.0
    places = (points * sizes).astype(int)
    if axes.workers is not None:
        none = np.isin(places[:, axes.workers], axes.without_workers)
        places[none[:, None] & np.isin(np.arange(len(sizes)), axes.conditional)] = IDLE
    every = frozenset(codes)
    found = [code for code in dict.fromkeys(map(tuple, places.tolist())) if code in every]
    rest = sorted(every.difference(found))
    random.Random(0).shuffle(rest)
    return found + rest


def nearest(code: Code, among: Sequence[Code], axes: Axes) -> Code:
    """By steps from choice to choice, each as long as its dimension has many; the first of several."""
    own, others = np.array(code), np.array(among)
    steps = np.abs(others - own) / np.maximum(np.array(axes.sizes) - 1, 1)
    # What means nothing on one side is as good there as on the other.
    steps[(others == IDLE) | (own == IDLE)] = 0.0
    return among[int(np.argmin(steps.sum(axis=1)))]
