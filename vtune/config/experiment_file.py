"""`experiment.yaml` of a study: what was asked, loadable again with --config from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vtune.config.quantities import duration_text, price_text
from vtune.config.trial_config import dump_yaml
from vtune.domain.experiment import GRACE_S, Experiment, PlannedRun
from vtune.domain.secrets import masked_words
from vtune.errors import UsageError
from vtune.files import PRIVATE, write_atomically

HEADER = "# What was asked of this study; written by vtune, and an experiment file like any other.\n"

_PATHS = ("config", "cwd", "protect")
_IN_A_SCRIPT = "put that word into a script or a config of the training"
_HINTS = {
    "command": _IN_A_SCRIPT,
    "resume": _IN_A_SCRIPT,
    "config": "give the file, or its folder, a name in UTF-8",
    "cwd": "give the folder a name in UTF-8, or name a link to it in vtune.cwd",
    "protect": "give the folder a name in UTF-8, or name one above it",
    "env": "set that variable in a script of the training",
}


def write_experiment(experiment: Experiment, target: Path) -> None:
    text = experiment_text(experiment)
    workload = experiment.workload
    words = (*workload.command, *experiment.resume)
    # A study is gone on with from this file: its values stay as they are, for this account alone.
    holds_secrets = bool(workload.env) or masked_words(words) != list(words)
    write_atomically(target, HEADER + text, mode=PRIVATE if holds_secrets else 0o666)


def experiment_text(experiment: Experiment) -> str:
    """Raises UsageError where a value cannot be kept in a file, for example a path that is not UTF-8."""
    section = _section(experiment)
    text = dump_yaml({"vtune": section})
    if text is not None:
        return text
    field = next((name for name, value in section.items() if dump_yaml({name: value}) is None), "command")
    value = section[field]
    parts: list[tuple[str, Any]] = [("", value)]
    if isinstance(value, list):
        parts = [(f"word {number}", part) for number, part in enumerate(value, 1)]
    elif isinstance(value, dict):
        parts = [(f"{name!a}", {name: part}) for name, part in value.items()]
    which, part = next((one for one in parts if dump_yaml({"": one[1]}) is None), parts[0])
    # A word of a command, or a variable's value, may be a secret.
    shown = f"{part!a}" if field in _PATHS else which
    raise UsageError(
        f"vtune.{field} cannot be kept in the study's experiment.yaml: {shown} does not survive YAML",
        hint=_HINTS.get(field, "write it with whole characters (UTF-8)"),
    )


def _section(experiment: Experiment) -> dict[str, Any]:
    workload, window = experiment.workload, experiment.window
    # One that the command names itself is found there again.
    config = None if workload.config_word is not None else workload.config_path
    limits = {"vram": experiment.limits.vram, "ram": experiment.limits.ram, "disk": experiment.writes.disk}
    section: dict[str, Any] = {
        "command": list(workload.command),
        "config": None if config is None else str(config.absolute()),
        "cwd": str(workload.cwd.absolute()),
        "study": experiment.study,
        "env": dict(workload.env),
        "limits": {name: limit.text for name, limit in limits.items() if limit is not None},
        "protect": [str(path) for path in experiment.writes.protect] or None,
        "window": {
            "steps": window.steps,
            "max_steps": window.max_steps,
            "trial_time": duration_text(window.trial_time_s),
            "startup_time": duration_text(window.startup_time_s),
            "hang_time": duration_text(window.hang_time_s),
            **({"validation": True} if window.validation else {}),
            **({} if window.keep_cold else {"keep_cold": False}),
        },
        "run": _stated(experiment.planned_run),
        "machine": {} if experiment.declared_cores is None else {"cores": experiment.declared_cores},
        "resume": list(experiment.resume) or None,
        "launch": {} if experiment.grace_s == GRACE_S else {"grace": duration_text(experiment.grace_s)},
        "price": None if experiment.price is None else price_text(experiment.price),
        "allow": experiment.allow.lower(),
        "knobs": {
            binding.name: {
                **({"key": ".".join(binding.key)} if binding.key is not None else {}),
                **({"flag": binding.flag} if binding.flag is not None else {}),
                **({"values": list(binding.values)} if binding.values else {}),
                **({"numerics": binding.numerics.lower()} if binding.numerics is not None else {}),
            }
            for binding in experiment.knobs
        },
        # Not the settings: what was set for a trial was for that trial, and going on without --set measures the
        # training as it is.
    }
    return {key: value for key, value in section.items() if value not in (None, {})}


def _stated(run: PlannedRun) -> dict[str, int]:
    """Only what the user stated: the rest is found again where it stands, and says so."""
    values = {
        "epochs": run.epochs if (run.epochs_source or "").startswith("vtune.run") else None,
        "iterations_per_epoch": (
            run.iterations_per_epoch if (run.iterations_source or "").startswith("vtune.run") else None
        ),
        "samples_per_epoch": run.samples_per_epoch,
    }
    return {name: value for name, value in values.items() if value is not None}
