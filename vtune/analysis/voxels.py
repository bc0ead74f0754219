"""Voxels a second, which compare patches of different sizes: where batches are volumes, all of one size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from vtune.analysis.roles import Roles
from vtune.domain.events import Fact
from vtune.domain.record import Measurement

# Samples, channels, depth, height, width.
DIMENSIONS = 5


def with_voxels(measured: Measurement, roles: Roles, facts: Sequence[Fact]) -> Measurement:
    numbers = roles.train.numbers if roles.train is not None else frozenset()
    shapes = [
        tuple(fact.data.get("shape") or ())
        for fact in facts
        if fact.name == "shape" and fact.pid == roles.pid and fact.data.get("loader") in numbers
    ]
    if measured.samples_per_s is None or not shapes or {len(shape) for shape in shapes} != {DIMENSIONS}:
        return measured
    spaces = {shape[2:] for shape in shapes}
    if len(spaces) > 1:
        because = "the batches' sizes in space vary"
        return replace(measured, unknown={**measured.unknown, "voxels_per_s": because})
    # A data set may give several patches for each sample that the sampler asked for.
    counted = [(batch.leading, batch.samples or batch.leading) for batch in roles.batches if batch.leading]
    if not counted:
        return measured
    patches = sum(leading for leading, _ in counted) / sum(samples for _, samples in counted)
    return replace(measured, voxels_per_s=measured.samples_per_s * patches * prod(spaces.pop()))
