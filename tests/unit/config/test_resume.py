"""What a full run has to know of its training: how it goes on, how long it may save, and where it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtune.config.experiment_file import write_experiment
from vtune.config.launch_config import write_launch_config
from vtune.config.load import load_experiment
from vtune.config.output import output_folders
from vtune.config.problems import ConfigErrors
from vtune.domain.experiment import GRACE_S, Workload

TEXT = """\
# how it is started
vtune:
  command: "{python} -c pass --config {config}"
  resume: RESUME
  launch: {grace: 5m}
# what it learns from
data: {workers: 1}   # too few
output_dir: "runs/a"
"""


def written(folder: Path, resume: str = '"--resume last.pt"') -> Path:
    path = folder / "demo.yaml"
    path.write_text(TEXT.replace("RESUME", resume))
    return path


@pytest.mark.parametrize("resume", ['"--resume last.pt"', '["--resume", "last.pt"]'])
def test_resume_words_are_a_text_or_a_list_and_survive_the_studys_own_file(tmp_path: Path, resume: str) -> None:
    experiment = load_experiment(written(tmp_path, resume))
    assert (experiment.resume, experiment.grace_s) == (("--resume", "last.pt"), 300.0)
    write_experiment(experiment, tmp_path / "experiment.yaml")
    again = load_experiment(tmp_path / "experiment.yaml")
    assert (again.resume, again.grace_s) == (experiment.resume, experiment.grace_s)


def test_without_them_nothing_is_known_and_the_grace_is_two_minutes(tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text('vtune:\n  command: "{python} -c pass --config {config}"\nworkers: 1\n')
    experiment = load_experiment(path)
    assert (experiment.resume, experiment.grace_s) == ((), GRACE_S) and GRACE_S == 120.0


@pytest.mark.parametrize("resume", ["3", "{a: 1}", '"it\'s"'])
def test_what_is_no_text_and_no_list_is_refused_at_its_place(tmp_path: Path, resume: str) -> None:
    with pytest.raises(ConfigErrors, match=r"demo\.yaml:4:\d+: vtune\.resume"):
        load_experiment(written(tmp_path, resume))


def test_the_config_of_a_launch_is_the_users_own_with_its_comments(tmp_path: Path) -> None:
    experiment = load_experiment(written(tmp_path))
    target = tmp_path / "config.yaml"
    write_launch_config(experiment.workload, {("data", "workers"): 4}, target)
    assert target.read_text() == '# how it is started\ndata: {workers: 4}   # too few\noutput_dir: "runs/a"\n'
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.yaml", "demo.yaml"]


def test_output_folders_are_those_of_the_config_and_of_the_command_each_once(tmp_path: Path) -> None:
    workload = Workload(
        command=("python", "train.py", "--log-dir", "runs/b", "--save-dir=runs/a"),
        cwd=tmp_path,
        config={"output_dir": "runs/a", "data": {"folder": "images"}},
    )
    assert output_folders(workload) == (tmp_path / "runs" / "a", tmp_path / "runs" / "b")
