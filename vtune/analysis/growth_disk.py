"""What a run leaves on its disk: checkpoints that take a new name each time, not those that replace each other."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import mean, median

from vtune.analysis.growth_series import step_at
from vtune.analysis.roles import Roles
from vtune.domain.events import Fact
from vtune.domain.record import Measurement

ONE_SEEN = "one checkpoint was seen: whether the next one replaces it is not known"


def with_disk(measured: Measurement, roles: Roles, facts: Sequence[Fact], epoch_steps: float | None) -> Measurement:
    """By the names and sizes of what `torch.save` wrote; null where too few were seen to tell."""
    series: dict[str, list[tuple[float, str, int]]] = defaultdict(list)
    at = step_at(roles)
    for fact in facts:
        path, size = fact.data.get("path"), fact.data.get("bytes")
        if fact.name == "saved" and isinstance(path, str) and isinstance(size, int):
            series[re.sub(r"\d+", "#", path)].append((at(fact.t_s), path, size))
    if not series:
        return measured
    folders = _lasting_folders([[path for _, path, _ in saves] for saves in series.values()])
    if any(len(saves) < 2 and _may_be_renamed(saves[0][1], folders) for saves in series.values()):
        return replace(measured, unknown={**measured.unknown, "disk_bytes_per_epoch": ONE_SEEN})
    total = 0.0
    for saves in series.values():
        if len({path for _, path, _ in saves}) == 1:
            continue
        apart = median(later[0] - earlier[0] for earlier, later in pairwise(saves))
        if epoch_steps is None or apart < 1:
            because = "how many steps an epoch has was not found" if epoch_steps is None else "they came within a step"
            return replace(measured, unknown={**measured.unknown, "disk_bytes_per_epoch": because})
        stays = len({path for _, path, _ in saves}) / len(saves)
        total += stays * mean(size for _, _, size in saves) * epoch_steps / apart
    return replace(measured, disk_bytes_per_epoch=round(total))


def _lasting_folders(series: Sequence[Sequence[str]]) -> set[str]:
    """Those that a second checkpoint went to as well: digits of theirs, as of the trial's own folder, count none."""
    again = [paths for paths in series if len(paths) > 1]
    return {_common_folder(paths) for paths in again}


def _common_folder(paths: Sequence[str]) -> str:
    common = []
    for names in zip(*(path.split("/")[:-1] for path in paths), strict=False):
        if len(set(names)) > 1:
            break
        common.append(names[0])
    return "/".join(common)


def _may_be_renamed(path: str, lasting: Iterable[str]) -> bool:
    """Of one that was saved once: whether the next one may stay beside it."""
    inside = [folder for folder in lasting if path.startswith(folder.rstrip("/") + "/")]
    return re.search(r"\d", path[max(map(len, inside), default=0) :]) is not None
