"""Experiment files that nobody writes by hand: refused where they are wrong, and quickly."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from vtune.api import knobs
from vtune.config.command_line import CommandLine
from vtune.config.load import load_experiment
from vtune.config.problems import ConfigErrors
from vtune.domain.experiment import Experiment

Load = Callable[..., Experiment]
RUN = "vtune:\n  command: python train.py {config}\n"
MANY = 2000
# Of processor time; a tenth of it and less is taken.
LONGEST_S = 15.0


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (RUN + "  on: 1\n", "exp.yaml:3:3"),
        (RUN + "  knobs: {yes: {key: a}}\n", "exp.yaml:3:11"),
        (RUN + "  window: {off: 3}\n", "exp.yaml:3:12"),
        (RUN + "  env: {2026-01-01: a}\n", "exp.yaml:3:9"),
        (RUN + "  settings: {~: 1}\n", "exp.yaml:3:14"),
        (RUN + "  limits: {1.5: 1}\n", "exp.yaml:3:12"),
        ('vtune: {command: "a\\0b"}\n', "exp.yaml:1:18"),
        (RUN + '  cwd: "\\0"\n', "exp.yaml:3:8"),
        (RUN + '  config: "x\\ud800"\n', "exp.yaml:3:11"),
        (RUN + f"  cwd: {'x' * 300}\n", "exp.yaml:3:8"),
        (RUN + f"  config: {'x' * 300}.yaml\n", "exp.yaml:3:11"),
        (f"vtune: {{command: {'x' * 300}/y}}\n", "exp.yaml:1:18"),
        (RUN + "  cwd: ~nobody-of-that-name/x\n", "exp.yaml:3:8"),
        (RUN + f"  run: {{epochs: {'9' * 5000}}}\n", "exp.yaml:3:17"),
        (RUN + f"  run: {{epochs: 0x{'f' * 300}}}\n", "exp.yaml:3:17"),
    ],
)
def test_a_hostile_value_is_a_mistake_with_its_place_and_a_hint(load: Load, text: str, where: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load(text)
    problems = {problem.where: problem for problem in caught.value.problems}
    assert where in problems and all(problem.hint for problem in problems.values())


@pytest.mark.parametrize("suffix", [".yaml", ".json", ".toml"])
def test_a_training_config_that_is_a_fifo_is_not_waited_for(load: Load, here: Path, suffix: str) -> None:
    os.mkfifo(here / f"user{suffix}")
    with pytest.raises(ConfigErrors) as caught:
        load(RUN + f"  config: user{suffix}\n")
    assert [problem.where for problem in caught.value.problems] == [f"user{suffix}"]


def test_an_output_folder_that_no_file_system_takes_is_the_trainings_own_business(load: Load) -> None:
    assert load(RUN + f'output_dir: {"x" * 300}\nname: "a\\0b"\n').workload.config is not None


KEYS = "".join(f"    kn{n}: {{key: sec.k{n}, values: [1, 2]}}\n" for n in range(MANY))
SECTION = "sec:\n" + "".join(f"  k{n}: 1\n" for n in range(MANY))
FLAGS = "vtune:\n  command: python train.py " + " ".join(f"--f{n} 1" for n in range(MANY)) + "\n  knobs:\n"


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (RUN + "  knobs:\n" + KEYS + SECTION, MANY),
        (RUN + "  knobs:\n" + KEYS.replace("sec.k", "sec.z") + SECTION, None),
        (FLAGS + "".join(f"    kn{n}: {{flag: --f{n}, values: [1, 2]}}\n" for n in range(MANY)), MANY),
        (RUN + "  settings:\n" + "".join(f"    wrkers{n}: 1\n" for n in range(MANY)), None),
    ],
    ids=["keys", "keys that are not there", "flags", "settings that are none"],
)
def test_thousands_of_knobs_take_time_by_their_number_and_not_by_its_square(
    load: Load, here: Path, text: str, known: int | None
) -> None:
    (here / "many.yaml").write_text(text)
    begun_s = time.process_time()
    if known is None:
        with pytest.raises(ConfigErrors) as caught:
            load_experiment("many.yaml", overrides=CommandLine())
        assert len(caught.value.problems) == MANY
    else:
        found = knobs(load_experiment("many.yaml", overrides=CommandLine()), results=here / "results")
        assert len([view for view in found.knobs if view.way is not None and view.way.current == 1]) >= known
    assert time.process_time() - begun_s < LONGEST_S
