"""Where a trial's own output goes: into its folder, so that nothing is left elsewhere and no trial finds another's."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Workload
from vtune.knobs.doubts import sure_arguments
from vtune.knobs.keys import KeyPath

OUTPUT = "output"
OUTPUT_NAMES = frozenset(
    (
        "output_dir",
        "output_folder",
        "outdir",
        "out_dir",
        "out_folder",
        "log_dir",
        "logdir",
        "logs_dir",
        "log_folder",
        "logging_dir",
        "tensorboard_dir",
        "tb_dir",
        "tb_log_dir",
        "save_dir",
        "savedir",
        "save_folder",
        "checkpoint_dir",
        "checkpoints_dir",
        "ckpt_dir",
        "snapshot_dir",
        "run_dir",
        "runs_dir",
        "work_dir",
        "workdir",
        "default_root_dir",
        "results_dir",
        "result_dir",
    )
)
# `logging: {dir: …}`: a bare name for a folder counts only below a section that is about output.
OUTPUT_SECTIONS = frozenset(
    ("output", "outputs", "logging", "log", "logs", "checkpoint", "checkpoints", "checkpointing")
)
FOLDER_NAMES = frozenset(("dir", "directory", "folder"))
# What another step wrote and the training reads lives below these.
INPUT_SECTIONS = frozenset(("data", "dataset", "datasets", "preprocess", "preprocessing", "pretrained", "inference"))
CHECKPOINT_NAMES = frozenset(("checkpoint_dir", "checkpoints_dir", "ckpt_dir", "snapshot_dir"))
RESUME_NAMES = frozenset(("resume", "auto_resume", "resume_training", "resume_from_checkpoint"))
# What goes on there is the record of a run and not the run.
TRACKER_SECTIONS = frozenset(
    (
        "wandb", "mlflow", "comet", "comet_ml", "clearml", "neptune", "swanlab", "aim", "tracker", "trackers",
        "tracking", "logger", "loggers",
    )
)  # fmt: skip
OFF = frozenset(("", "0", "no", "n", "off", "false", "none", "null", "never", "~"))
# Of a section of its own: `resume: {enabled: false, path: …}`.
SWITCHES = ("enabled", "enable", "active", "auto")


class Redirection(NamedTuple):
    changes: dict[tuple[str, ...], Scalar]
    command: tuple[str, ...]
    notes: tuple[str, ...]
    # Folders that existed where the training writes without vtune: it may count on them.
    create: tuple[Path, ...]


def redirected_output(workload: Workload, folder: Path) -> Redirection:
    """Points the known output keys and flags into `<folder>/output`. What may be an input is left alone."""
    places = _Places(folder.absolute() / OUTPUT, workload.cwd)
    changes: dict[tuple[str, ...], Scalar] = {}
    command = list(workload.command)
    notes: list[str] = []
    for path, value in _output_keys(workload.config or {}):
        dotted = ".".join(path)
        if path[-1] in CHECKPOINT_NAMES and resumes_by_itself(workload):
            notes.append(f"{dotted} was left at {value}: the training resumes from it")
        else:
            changes[path] = places.instead_of(value, path[-1])
            notes.append(f"{dotted} points into the trial's folder instead of {value}")
    for argument in sure_arguments(workload.command):
        name = argument.name.replace("-", "_").rpartition(".")[2]
        if name not in OUTPUT_NAMES and argument.name != "hydra.run.dir":
            continue
        if name in CHECKPOINT_NAMES and resumes_by_itself(workload):
            notes.append(f"{argument.typed} was left at {argument.value}: the training resumes from it")
        elif argument.value and "{config}" not in argument.value:
            command[argument.position] = argument.prefix + places.instead_of(argument.value, name)
            notes.append(f"{argument.typed} points into the trial's folder instead of {argument.value}")
    return Redirection(changes, tuple(command), tuple(notes), tuple(places.create))


def output_folders(workload: Workload) -> tuple[Path, ...]:
    """Where the training writes, as far as its config and its command tell, each place once."""
    named = [value for _, value in _output_keys(workload.config or {})]
    for argument in sure_arguments(workload.command):
        name = argument.name.replace("-", "_").rpartition(".")[2]
        if (name in OUTPUT_NAMES or argument.name == "hydra.run.dir") and argument.value:
            named.append(argument.value)
    return tuple(dict.fromkeys((workload.cwd / name).resolve() for name in named if "{config}" not in name))


def resumes_by_itself(workload: Workload) -> bool:
    """Its own config or command says that it goes on from what it finds."""
    return resumes_by(workload) is not None


def resumes_by(workload: Workload) -> tuple[str, Any] | None:
    """The key or flag that says so, and its value."""
    config = workload.config or {}
    sections = {f"{key}.": part for key, part in config.items() if str(key).lower() not in TRACKER_SECTIONS}
    for above, part in {"": config, **sections}.items():
        for name in sorted(RESUME_NAMES & part.keys()) if isinstance(part, Mapping) else ():
            if _is_on(part[name]):
                return f"{above}{name}", part[name]
    for word, after in zip(workload.command, (*workload.command[1:], "--"), strict=True):
        flag, equals, value = word.partition("=")
        if word.startswith("-") and flag.lstrip("-").replace("-", "_") in RESUME_NAMES:
            said: Any = value if equals else after if not after.startswith("-") else True
            if _is_on(said):
                return flag, said
    return None


def _is_on(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_is_on(value[name]) for name in SWITCHES if name in value) and any(map(_is_on, value.values()))
    return value.strip().lower() not in OFF if isinstance(value, str) else bool(value)


def tracker_env(folder: Path) -> Mapping[str, str]:
    """Trackers off, or into the trial's folder: measuring must not fill anybody's project with runs.

    TensorBoard needs nothing: it writes where its log folder points."""
    output = folder.absolute() / OUTPUT
    return {
        "WANDB_MODE": "disabled",
        "WANDB_SILENT": "true",
        "WANDB_DIR": str(output),
        "MLFLOW_TRACKING_URI": (output / "mlruns").as_uri(),
        "COMET_MODE": "DISABLED",
        "CLEARML_OFFLINE_MODE": "1",
        "NEPTUNE_MODE": "debug",
        "SWANLAB_MODE": "disabled",
    }


class _Places:
    """Old folder → new folder. What lay inside another output folder lies inside it again."""

    def __init__(self, root: Path, cwd: Path) -> None:
        self._root = root
        self._cwd = cwd
        self._known: dict[PurePath, Path] = {}
        self.create: list[Path] = []

    def instead_of(self, old: str, name: str) -> str:
        place = PurePath(old)
        new = next(
            (
                there / place.relative_to(here)
                for here, there in self._known.items()
                if place.is_relative_to(here) and here != PurePath()
            ),
            None,
        )
        if new is None:
            new = self._root / name if self._root in self._known.values() else self._root
            self._known[place] = new
        if os.path.isdir(self._cwd / old) and new not in self.create:
            self.create.append(new)
        return str(new)


def _output_keys(config: Mapping[Any, Any]) -> Iterator[tuple[KeyPath, str]]:
    """At the top level and one below."""
    for key, value in config.items():
        if not isinstance(key, str):
            continue
        if key in OUTPUT_NAMES and _is_folder(value):
            yield (key,), value
        if isinstance(value, Mapping) and key.lower() not in INPUT_SECTIONS:
            for inner, deeper in value.items():
                bare = key.lower() in OUTPUT_SECTIONS and inner in FOLDER_NAMES
                if isinstance(inner, str) and (inner in OUTPUT_NAMES or bare) and _is_folder(deeper):
                    yield (key, inner), deeper


def _is_folder(value: object) -> bool:
    # A bucket is not ours to redirect into a local folder: its writer may know no other place.
    return isinstance(value, str) and bool(value.strip()) and "://" not in value
