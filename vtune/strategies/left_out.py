"""Which trials neither phases nor a search can rest on: they ran another command, config or code than now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from vtune.config.output import redirected_output
from vtune.config.trial_config import same_values
from vtune.domain.experiment import Experiment
from vtune.domain.record import TrialRecord
from vtune.errors import UsageError
from vtune.foreign.json_text import parse_json
from vtune.foreign.read import read_text
from vtune.foreign.toml_text import parse_toml
from vtune.foreign.yaml_text import load_yaml_quickly
from vtune.journal.code import changed_code
from vtune.journal.paths import StudyPaths, TrialPaths
from vtune.knobs.plan import changes_of, effects_of, gets_copy
from vtune.strategies.relaunch import ANY_LOADER, changed_since
from vtune.strategies.turned import turned

Leaves = dict[tuple[str, ...], Any]
_READERS: Mapping[str, Callable[[str], Any]] = {".json": parse_json, ".toml": parse_toml}


def left_out(records: Sequence[TrialRecord], experiment: Experiment, study: StudyPaths) -> frozenset[int]:
    """Where a trial's folder is gone nobody knows what it ran, and it counts."""
    digests: dict[str, str | None] = {}
    return frozenset(record.trial for record in records if _ran_otherwise(record, experiment, study, digests))


def _ran_otherwise(
    record: TrialRecord, experiment: Experiment, study: StudyPaths, digests: dict[str, str | None]
) -> bool:
    if changed_code(record, digests):
        return True
    try:
        if changed_since(record.trial, turned(record), experiment, study) is not None:
            return True
        return bool(changed_values(record, experiment, study))
    except UsageError:  # a knob that has no way into the training any more: it cannot be launched again
        return True


def changed_values(record: TrialRecord, experiment: Experiment, study: StudyPaths) -> list[str]:
    """Keys of the training's config, dotted, that are otherwise now than in the copy that the trial got."""
    effects = effects_of(turned(record), experiment, ANY_LOADER)
    ran = _copy_of(study.trial(record.trial))
    if ran is None or experiment.workload.config is None or not gets_copy(experiment.workload, effects):
        return []
    changes = changes_of(effects).config
    plain = {path: list(value) if isinstance(value, tuple) else value for path, value in changes.items()}
    wanted = {**dict(_leaves(experiment.workload.config)), **plain}
    # Where the output goes is each trial's own.
    own = redirected_output(experiment.workload, study.trial(record.trial).root.absolute()).changes
    return [
        ".".join(path)
        for path in sorted({*ran, *wanted})
        if path not in own
        and (path not in ran or path not in wanted or not same_values({"": ran[path]}, {"": wanted[path]}))
    ]


def _copy_of(folder: TrialPaths) -> Leaves | None:
    """The config that the trial got, where it got one of its own."""
    for path in sorted(folder.root.glob("config.*")):
        try:
            read = _READERS.get(path.suffix.lower(), load_yaml_quickly)
            tree = read(read_text(path))
        except (OSError, ValueError, yaml.YAMLError):
            return None
        return dict(_leaves(tree)) if isinstance(tree, Mapping) else None
    return None


def _leaves(tree: Mapping[Any, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in tree.items():
        path = (*above, str(key))
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, path)
        else:
            yield path, value
