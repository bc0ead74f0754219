"""Six trainings that know nothing of vtune: right rate, right loader, the training's own output."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from support.cli import quiet_env, vtune

SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True)
class Truth:
    # Line on which the training's loader is made.
    where: int
    workers: int
    batch: int
    effective_batch: int


TRUTHS = {
    "plain": Truth(9, 0, 4, 4),
    "two_optimizers": Truth(11, 2, 2, 2),
    "validation_first": Truth(10, 1, 4, 4),
    "anew_each_epoch": Truth(9, 2, 4, 4),
    "spawn_workers": Truth(11, 2, 2, 2),
    "accumulation": Truth(11, 1, 2, 8),
}


def own_rate(clock: Path, steps: int) -> float:
    """Samples a second by the script's own clock over its last steps; epoch boundaries left out, as vtune does."""
    lines = [line.split() for line in clock.read_text().splitlines()]
    ticks = [(float(t), int(samples), epoch) for t, samples, epoch in lines]
    within = [(now - before, samples) for (before, _, old), (now, samples, new) in pairwise(ticks) if old == new][
        -steps:
    ]
    return sum(samples for _, samples in within) / sum(seconds for seconds, _ in within)


# Each takes a real probe; the quick suite has the commonest.
@pytest.mark.parametrize(
    "name", [name if name == "plain" else pytest.param(name, marks=pytest.mark.slow) for name in TRUTHS]
)
def test_a_strangers_script_is_measured_and_left_as_it_is(tmp_path: Path, name: str) -> None:
    script, truth = SCRIPTS / f"{name}.py", TRUTHS[name]
    clock = tmp_path / "clock"
    out = tmp_path / "out"
    said = vtune("probe", "--json", "--results", out, "--", sys.executable, script, OWN_CLOCK=str(clock))
    assert said.code == 0, said.stderr
    record = said.json["trial"]
    assert record["status"] == "completed"
    # Beside others near enough to show that no sample was counted twice or missed.
    assert record["samples_per_s"] == pytest.approx(own_rate(clock, record["steps_measured"]), rel=0.4)
    assert record["evidence"]["train_loader"]["where"] == f"{script}:{truth.where}"
    assert record["settings"]["workers"] == truth.workers and record["settings"]["batch_size"] == truth.batch
    assert record["effective_batch"] == truth.effective_batch
    assert len(record["workers_rss_bytes"]) == truth.workers
    [study] = out.glob("*/journal.jsonl")
    trial = study.parent / "trials" / "0001"
    watched = (trial / "stdout.log").read_bytes()
    plain = first_bytes_of_a_run_without_us(script, len(watched))
    assert watched and watched == plain
    assert (trial / "stderr.log").read_bytes() == b""


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.parametrize("name", ["plain", "spawn_workers"])
def test_its_rate_is_that_of_its_own_clock(tmp_path: Path, name: str) -> None:
    """Both clocks tell of the same steps to some milliseconds, which is little only where nobody else is at work."""
    clock = tmp_path / "clock"
    command = (sys.executable, SCRIPTS / f"{name}.py")
    said = vtune("probe", "--json", "--results", tmp_path / "out", "--", *command, OWN_CLOCK=str(clock))
    record = said.json["trial"]
    assert record["samples_per_s"] == pytest.approx(own_rate(clock, record["steps_measured"]), rel=0.05)


def first_bytes_of_a_run_without_us(script: Path, count: int) -> bytes:
    """The trial was ended early: its output is the beginning of the output that the script has on its own."""
    with subprocess.Popen(
        [sys.executable, "-u", str(script)], env=quiet_env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        text = run.stdout.read(count)
        run.kill()
    return text


@pytest.mark.slow
def test_loader_options_are_turned_from_inside_where_no_config_names_them(tmp_path: Path) -> None:
    said = vtune(
        "probe", "--json", "--results", tmp_path / "out", "--set", "workers=2", "--set", "batch_size=8", "--set",
        "prefetch_factor=3", "--set", "persistent_workers=true", "--", sys.executable, SCRIPTS / "validation_first.py",
    )  # fmt: skip
    assert said.code == 0, said.stderr
    record = said.json["trial"]
    asked = {"workers": 2, "batch_size": 8, "prefetch_factor": 3, "persistent_workers": True}
    assert asked.items() <= record["settings"].items()
    assert record["effective_batch"] == 8
    [study] = (tmp_path / "out").glob("*/journal.jsonl")
    facts = [
        json.loads(line)
        for path in (study.parent / "trials" / "0001").glob("steps-*.jsonl")
        for line in path.read_text().splitlines()
    ]
    turned = [fact for fact in facts if fact["fact"] == "loader" and fact.get("turned")]
    assert {fact["where"] for fact in turned} == {f"{SCRIPTS / 'validation_first.py'}:10"}, (
        "only the training's loader was turned"
    )


@pytest.mark.slow
def test_the_scout_run_is_made_once_and_again_when_the_script_changes(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text((SCRIPTS / "plain.py").read_text())
    (tmp_path / "parts.py").write_text((SCRIPTS / "parts.py").read_text())
    arguments = ["probe", "--steps", "20", "--results", str(tmp_path / "out"), "--set", "workers=1", "--"]
    command = [sys.executable, str(script)]
    scouts = [vtune(*arguments, *command).stderr.count("which loader feeds") for _ in range(2)]
    script.write_text(script.read_text().replace("range(1)", "range(2)"))
    scouts.append(vtune(*arguments, *command).stderr.count("which loader feeds"))
    assert scouts == [1, 0, 1]


@pytest.mark.slow
def test_a_loader_that_moved_in_an_imported_module_is_looked_for_again(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text((SCRIPTS / "parts.py").read_text())
    (tmp_path / "data.py").write_text(
        "from parts import Slow\nfrom torch.utils.data import DataLoader\n"
        "def make():\n    return DataLoader(Slow(4000, 0.002), batch_size=4)\n"
    )
    script = tmp_path / "train.py"
    text = (SCRIPTS / "plain.py").read_text()
    script.write_text(
        text.replace("DataLoader(Slow(4000, 0.002), batch_size=4, shuffle=True)", "__import__('data').make()")
    )
    arguments = ["probe", "--json", "--steps", "20", "--results", str(tmp_path / "out"), "--set", "workers=1", "--"]
    assert vtune(*arguments, sys.executable, script).code == 0
    (tmp_path / "data.py").write_text("# one line more\n" + (tmp_path / "data.py").read_text())
    said = vtune(*arguments, sys.executable, script)
    assert said.code == 0, said.stdout
    assert said.json["trial"]["settings"]["workers"] == 1


@pytest.mark.slow
def test_a_training_that_fails_in_its_scout_run_keeps_its_evidence(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nraise ValueError('before any step')\n")
    said = vtune("probe", "--json", "--results", tmp_path / "out", "--set", "workers=1", "--", sys.executable, script)
    assert said.code == 5
    trial = said.json["trial"]
    assert trial["status"] == "crashed" and "before any step" in trial["detail"]
    assert "with nothing turned yet" in trial["detail"]
    [words] = (tmp_path / "out").glob("*/trials/0001/stderr.log")
    assert "before any step" in words.read_text()


@pytest.mark.slow
def test_a_changed_effective_batch_is_said_with_the_rules_for_the_learning_rate(tmp_path: Path) -> None:
    said = vtune(
        "probe", "--json", "--results", tmp_path / "out", "--steps", "20", "--set", "batch_size=8", "--",
        sys.executable, SCRIPTS / "plain.py",
    )  # fmt: skip
    [note] = [note for note in said.json["trial"]["notes"] if "effective batch" in note]
    assert "8 instead of 4" in note and "×2 for SGD" in note and "×1.41 for Adam" in note


def test_files_beside_a_script_stay_as_they_were_and_its_writes_are_listed(tmp_path: Path) -> None:
    (tmp_path / "last.pt").write_text("the user's")
    script = tmp_path / "train.py"
    script.write_text("import torch\ntorch.save({}, 'last.pt')\ntorch.save({}, 'new.pt')\n")
    said = vtune("probe", "--json", "--results", tmp_path / "out", "--", sys.executable, script, cwd=tmp_path)
    notes = " ".join(said.json["trial"]["notes"])
    assert (tmp_path / "last.pt").read_text() == "the user's" and not (tmp_path / "new.pt").exists()
    [written] = (tmp_path / "out").glob("*/trials/0001/written.json")
    listed = json.loads(written.read_text())
    assert listed == {"changed": [f"{tmp_path}/last.pt"], "new": [f"{tmp_path}/new.pt"], "removed": []}
    assert "last.pt" in notes and "new.pt" in notes
