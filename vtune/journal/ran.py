"""What a trial ran, as its folder remembers it: the study's command may be another one by now."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vtune.domain.knob import Knob
from vtune.foreign.read import read_json
from vtune.journal.paths import TrialPaths
from vtune.knobs.batch import ACCUMULATE_STEPS
from vtune.knobs.flags import Flag, find_flag
from vtune.knobs.registry import KNOBS

# Stands for the trial's own folder, which is another one in each trial.
FOLDER = "{trial}"
_COPY = re.compile(r"(?P<prefix>.*)" + re.escape(FOLDER) + r"/config\.\w+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Ran:
    """Without the trial's own folder in it."""

    command: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]


def read_ran(folder: TrialPaths) -> Ran | None:
    """None where the folder is gone, or what it says is not to be understood."""
    try:
        spec = read_json(folder.spec)
        command, cwd, env = tuple(map(str, spec["command"])), str(spec["cwd"]), dict(spec["env"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return ran(command, cwd, env, trial=folder.root.name) if command else None


def ran(command: Sequence[str], cwd: str, env: Mapping[str, str], *, trial: str) -> Ran:
    """`trial`: the name of its folder. By the end of the path alone: a study may have been moved since."""
    own = re.compile(rf"[^=]*/trials/{re.escape(trial)}(?=/|$)")
    return Ran(
        tuple(own.sub(FOLDER, word) for word in command),
        cwd,
        {name: own.sub(FOLDER, str(value)) for name, value in env.items()},
    )


def same_training(
    one: Sequence[str], other: Sequence[str], turned: Collection[str] = (), knobs: Iterable[Knob] = KNOBS
) -> bool:
    """But for settings: a flag that is a knob is a setting, and so is what a trial's copy of the config changes. Of
    what no loader has, a record tells only what was `turned`: any other such flag makes another training."""
    words, others = (_without_knobs(command, turned, knobs) for command in (one, other))
    return len(words) == len(others) and all(_alike(*pair) for pair in zip(words, others, strict=True))


def _without_knobs(command: Sequence[str], turned: Collection[str], knobs: Iterable[Knob]) -> list[str]:
    left_out: set[int] = set()
    for knob in knobs:
        if knob.loader_option is None and knob is not ACCUMULATE_STEPS and knob.name not in turned:
            continue
        flag = find_flag(knob, tuple(command))
        if isinstance(flag, Flag):
            # `--workers 4` are two words, `--workers=4` is one.
            left_out |= {flag.position} if flag.prefix else {flag.position - 1, flag.position}
    return [word for at, word in enumerate(command) if at not in left_out]


def _alike(one: str, other: str) -> bool:
    copies = [(_COPY.fullmatch(one), other), (_COPY.fullmatch(other), one)]
    return one == other or any(copy is not None and plain.startswith(copy["prefix"]) for copy, plain in copies)
