"""The full run that trials stand for, as far as the training's own words say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vtune.domain.experiment import PlannedRun
from vtune.knobs.doubts import sure_arguments
from vtune.knobs.keys import path_of, value_at

EPOCHS = (
    "training.max_epochs",
    "training.epochs",
    "training.num_epochs",
    "training.n_epochs",
    "train.max_epochs",
    "train.epochs",
    "train.num_epochs",
    "trainer.max_epochs",
    "trainer.epochs",
    "optimization.max_epochs",
    "optimization.epochs",
    "solver.max_epochs",
    "max_epochs",
    "epochs",
    "num_epochs",
    "n_epochs",
    "num_train_epochs",
    "total_epochs",
)
ITERATIONS = (
    "training.train_iterations_per_epoch",
    "training.iterations_per_epoch",
    "training.iters_per_epoch",
    "training.steps_per_epoch",
    "train.iterations_per_epoch",
    "train.steps_per_epoch",
    "data.iter_num",
    "data.iter_num_per_epoch",
    "train_iterations_per_epoch",
    "iterations_per_epoch",
    "iters_per_epoch",
    "steps_per_epoch",
    "iter_num",
)
# Not read: how many of them an epoch has is not known.
STEPS = (
    "max_steps",
    "total_steps",
    "max_train_steps",
    "num_train_steps",
    "max_iters",
    "max_iterations",
    "total_iterations",
    "steps",
)
# Only names that count steps: an interval of 5 may be one of epochs.
CHECKPOINT_EVERY = (
    "save_steps",
    "save_every_steps",
    "save_every_n_steps",
    "save_interval_steps",
    "checkpoint_steps",
    "checkpoint_every_steps",
    "checkpoint_every_n_steps",
    "checkpoint_interval_steps",
    "checkpointing_steps",
    "every_n_train_steps",
)
VALIDATION_EVERY = (
    "eval_steps",
    "eval_every_steps",
    "eval_every_n_steps",
    "eval_interval_steps",
    "val_every_steps",
    "val_every_n_steps",
    "val_interval_steps",
    "validate_every_steps",
    "validate_every_n_steps",
    "validation_every_steps",
)
TOTALS = frozenset(name for step in STEPS for name in (step, f"training.{step}", f"train.{step}", f"trainer.{step}"))


def says_only_how_long(dotted: str) -> bool:
    """Whether a key of the training's config is the length of its run alone: no step of it is another one."""
    return dotted in EPOCHS or dotted in ITERATIONS or dotted in TOTALS


def planned_run(
    *,
    command: Sequence[str],
    config: Mapping[str, Any] | None,
    config_name: str | None,
    stated: PlannedRun | None = None,
) -> PlannedRun:
    """What vtune.run states, else what the command says (it overrides its config), else the config."""
    stated = stated or PlannedRun()
    epochs, epochs_source = stated.epochs, stated.epochs_source
    if epochs is None:
        epochs, epochs_source = _find(EPOCHS, command, config, config_name)
    iterations, iterations_source = stated.iterations_per_epoch, stated.iterations_source
    if iterations is None:
        iterations, iterations_source = _find(ITERATIONS, command, config, config_name)
    return PlannedRun(
        epochs=epochs,
        epochs_source=epochs_source,
        iterations_per_epoch=iterations,
        iterations_source=iterations_source,
        samples_per_epoch=stated.samples_per_epoch,
        checkpoint_every_steps=_find(_anywhere(CHECKPOINT_EVERY), command, config, config_name)[0],
        validation_every_steps=_find(_anywhere(VALIDATION_EVERY), command, config, config_name)[0],
    )


def _anywhere(names: Sequence[str]) -> tuple[str, ...]:
    """At the top of a config or in the section of its training."""
    sections = ("", "training.", "train.", "trainer.", "checkpoint.", "validation.")
    return tuple(f"{section}{name}" for name in names for section in sections)


def _find(
    names: Sequence[str], command: Sequence[str], config: Mapping[str, Any] | None, config_name: str | None
) -> tuple[int | None, str | None]:
    # The last one wins, as in argparse.
    for argument in reversed(list(sure_arguments(command))):
        if argument.name in names and argument.value.isascii() and argument.value.isdigit() and int(argument.value) > 0:
            return int(argument.value), f"{argument.typed} in the command"
    for dotted in names if config is not None else ():
        path = path_of(config or {}, dotted)
        value = None if path is None or config is None else value_at(config, path)
        # Not −1, which some trainers take for "until it is stopped".
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value, f"{dotted} in {config_name or 'the config'}"
    return None, None
