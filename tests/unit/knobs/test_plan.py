from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from vtune.domain.compared import Beat
from vtune.domain.effects import SetConfigKey, SetDataLoaderOption
from vtune.domain.experiment import Experiment, Workload
from vtune.domain.trial import Proposal
from vtune.errors import UsageError
from vtune.knobs.plan import changes_of, effects_of, needs_scout, plan_trial, trial_config_path

CONFIG = {"training": {"workers": 1, "train_batch_size": 1}}
LOADER = "train.py:88:Scrolls#0"


def experiment(config: dict[str, Any] | None = CONFIG, path: str = "/p/exp.yaml") -> Experiment:
    command = ("{python}", "train.py", "--config={config}", "--fmt", "{epoch}-{loss}")
    workload = Workload(
        command=command,
        cwd=Path("/p"),
        config=config,
        config_path=None if config is None else Path(path),
        env={"WANDB_MODE": "online"},
    )
    return Experiment(study="s", workload=workload)


def test_a_setting_goes_through_the_config_where_a_key_maps_and_else_through_the_hook() -> None:
    effects = effects_of({"workers": 4, "prefetch_factor": 2}, experiment(), LOADER)
    assert effects == (
        SetConfigKey(path=("training", "workers"), value=4),
        SetDataLoaderOption(loader=LOADER, option="prefetch_factor", value=2),
    )
    assert changes_of(effects).config == {("training", "workers"): 4}


def test_a_scout_is_needed_only_for_what_goes_through_the_hook() -> None:
    assert not needs_scout({}, experiment())
    assert not needs_scout({"workers": 4, "batch_size": 2}, experiment())
    assert needs_scout({"workers": 4, "pin_memory": True}, experiment())
    assert needs_scout({"workers": 4}, experiment(None))


def test_what_has_no_way_into_the_training_is_refused() -> None:
    with pytest.raises(UsageError, match="accumulate_steps can only be set through the training's config or command"):
        effects_of({"accumulate_steps": 2}, experiment(), LOADER)
    with pytest.raises(UsageError, match="which loader is the training's could not be learnt"):
        effects_of({"pin_memory": True}, experiment(), None)
    with pytest.raises(UsageError, match="at least one worker"):
        effects_of({"workers": 0, "prefetch_factor": 2}, experiment(), LOADER)


def test_a_planned_trial_can_be_started() -> None:
    proposal = Proposal(settings={"workers": 4}, reason="asked for workers=4", origin="probe")
    spec = plan_trial(
        proposal,
        experiment(),
        number=7,
        train_loader=None,
        folder=Path("/r/trials/0007"),
        token="abc",
        env={"WANDB_MODE": "disabled", "WANDB_SILENT": "true"},
    )
    assert spec.command == (
        sys.executable, "train.py", "--config=/r/trials/0007/config.yaml", "--fmt", "{epoch}-{loss}"
    )  # fmt: skip
    assert (spec.trial, spec.token, spec.cwd, spec.settings) == (7, "abc", "/p", {"workers": 4})
    assert spec.env == {"WANDB_MODE": "online", "WANDB_SILENT": "true"}


def test_a_trial_is_planned_with_what_it_has_to_beat() -> None:
    beat = Beat(trial=2, ranked_by="samples_per_s", samples_per_s=5.4, at_least=5.2)
    proposal = Proposal(settings={}, reason="r", origin="search", beat=beat)
    spec = plan_trial(proposal, experiment(), number=3, train_loader=None, folder=Path("/r"), token="t", command=["x"])
    assert spec.beat == beat


def test_a_resolved_command_replaces_the_workloads() -> None:
    proposal = Proposal(settings={}, reason="r", origin="probe")
    spec = plan_trial(
        proposal,
        experiment(None),
        number=1,
        train_loader=None,
        folder=Path("/r"),
        token="t",
        command=["/bin/python", "x"],
    )
    assert spec.command == ("/bin/python", "x")


@pytest.mark.parametrize(
    ("source", "copy"), [("/p/e.yaml", "config.yaml"), ("/p/e.json", "config.json"), ("/p/e", "config.yaml")]
)
def test_the_copy_keeps_the_ending_by_which_trainings_choose_their_reader(source: str, copy: str) -> None:
    assert trial_config_path(experiment(path=source).workload, (), Path("/r")) == Path("/r") / copy
    assert trial_config_path(experiment(None).workload, (), Path("/r")) is None
