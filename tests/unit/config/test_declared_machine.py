"""`vtune.machine`: the machine that an experiment says it stands for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vtune.config.experiment_file import write_experiment
from vtune.config.load import load_experiment
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine

Load = Callable[..., Experiment]
Errors = Callable[..., list[str]]

RUN = "vtune:\n  command: python train.py --config {config}\n"


def test_cores_may_be_declared(load: Load) -> None:
    assert load(RUN + "  machine: {cores: 12}\n").declared_cores == 12
    assert load(RUN).declared_cores is None
    assert load(RUN + "  machine: {}\n").declared_cores is None


@pytest.mark.parametrize("cores", ["0", "-2", "many", "1.5"])
def test_what_is_no_number_of_cores_is_refused_where_it_stands(errors: Errors, cores: str) -> None:
    (found,) = errors(RUN + f"  machine: {{cores: {cores}}}\n")
    assert "vtune.machine.cores must be" in found and ":3:" in found


def test_a_misspelt_part_of_the_machine_is_named_with_the_right_one(errors: Errors) -> None:
    (found,) = errors(RUN + "  machine: {core: 12}\n")
    assert 'unknown key "vtune.machine.core"; did you mean "cores"?' in found


def test_a_study_goes_on_with_the_cores_that_were_declared_for_it(load: Load, here: Path) -> None:
    write_experiment(load(RUN + "  machine: {cores: 12}\n"), here / "again.yaml")
    assert load_experiment(here / "again.yaml").declared_cores == 12


def test_declared_cores_are_never_shown_as_found() -> None:
    here = Machine(host="h", kernel="k", cpu_model=None, cores=2.0, ram_bytes=None, shm_bytes=None, declared_cores=12)
    assert here.cores_text == "12 cores declared (2 here)"
    assert here.cores_to_plan_for == 12
    assert (
        Machine(host="h", kernel="k", cpu_model=None, cores=1.0, ram_bytes=None, shm_bytes=None).cores_text == "1 core"
    )
