"""--dry-run with --ceiling: two launches, and what the second does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vtune.cli.plan import effect_text, plan_of
from vtune.domain.effects import FindCeiling
from vtune.domain.experiment import Experiment, Limit, Limits, Workload
from vtune.domain.trial import Proposal
from vtune.knobs.plan import changes_of, plan_trial

EXPERIMENT = Experiment(study="s", workload=Workload(command=("python", "train.py"), cwd=Path("/p")))
CEILING = FindCeiling(loader="train.py:8:Patches#0", ram_bytes=2**30)


@pytest.mark.parametrize(("ceiling", "trials", "at_most_s"), [(False, 1, 180.0), (True, 2, 360.0)])
def test_a_ceiling_is_a_second_launch_in_the_plan(tmp_path: Path, ceiling: bool, trials: int, at_most_s: float) -> None:
    plan = plan_of(EXPERIMENT, tmp_path, ceiling=ceiling)
    told = plan.as_json()
    assert (told["trials"], told["ceiling"], told["at_most_s"]) == (trials, ceiling, at_most_s)
    assert ("fed from memory" in plan.as_text()) is ceiling and ("each;" in plan.as_text()) is ceiling


def test_a_limit_that_nobody_named_is_told_before_it_ends_a_trial(tmp_path: Path) -> None:
    plan = plan_of(EXPERIMENT, tmp_path)
    assert plan.ram_default_bytes is not None and plan.ram_default_bytes > 2**20
    assert "to leave the machine usable" in plan.as_text()
    named = plan_of(replace(EXPERIMENT, limits=Limits(ram=Limit(text="1GiB", bytes=2**30))), tmp_path)
    assert "limits    RAM 1GiB\n" in named.as_text()
    beyond = plan_of(replace(EXPERIMENT, limits=Limits(ram=Limit(text="99TiB", bytes=99 * 2**40))), tmp_path)
    assert "RAM 99TiB (more than the " in beyond.as_text()


def test_looking_for_the_ceiling_changes_nothing_of_the_training(tmp_path: Path) -> None:
    proposal = Proposal(settings={}, reason="how fast", origin="probe:ceiling")
    spec = plan_trial(proposal, EXPERIMENT, number=2, train_loader=None, folder=tmp_path, token="t", ceiling=CEILING)
    assert spec.effects == (CEILING,) and spec.command == ("python", "train.py") and spec.settings == {}
    changes = changes_of(spec.effects)
    assert not changes.config and not changes.command and not changes.env
    assert "doubled for up to 60 s" in effect_text(CEILING)
