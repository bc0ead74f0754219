"""Races of a real training: one setting that cannot matter, one that slows it down, and a Ctrl-C in the middle."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.cli import Said, quiet_env, vtune
from support.light import LIGHT
from vtune.journal.journal import Journal

# A step sleeps, so that it takes what it takes whatever else runs here; prefetch_factor=4 stands for a change of the
# code that costs 15 %, prefetch_factor=3 for one that costs nothing.
SCRIPT = f"""{LIGHT}
import argparse, time, torch
from torch.utils.data import DataLoader, Dataset

class Patches(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        return torch.zeros(4)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--prefetch-factor", type=int)
    asked = parser.parse_args()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(30):
        for batch in DataLoader(Patches(), batch_size=2, num_workers=1, prefetch_factor=asked.prefetch_factor):
            model(batch).sum().backward()
            time.sleep(0.0235 if asked.prefetch_factor == 4 else 0.02)
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study `s` of three trials: as it is, the harmless setting, the slow one."""
    folder = tmp_path_factory.mktemp("raced")
    (folder / "train.py").write_text(SCRIPT)
    command = ("--", sys.executable, str(folder / "train.py"), "--prefetch-factor", "2")
    for settings in ((), ("--set", "prefetch_factor=3"), ("--set", "prefetch_factor=4")):
        done = vtune("probe", "--study", "s", "--steps", "40", "--quiet", *settings, *command, cwd=folder)
        assert done.code == 0, done.stderr
    return folder


def compare(place: Path, *arguments: str) -> Said:
    return vtune("compare", *arguments, "--json", cwd=place, timeout=280)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.timing
def test_a_race_of_equals_is_a_tie_and_passes_the_gate(place: Path) -> None:
    said = compare(place, "1", "2", "--race", "--rounds", "5", "--fail-if-slower", "3%")
    told = said.json
    assert said.code == 0 and told["verdict"] == "tie" and told["exit_code"] == 0, said.stderr
    assert 4 <= told["paired_rounds"] <= 7 and told["resolvable"] < 0.1
    assert len(told["race"]["trials"]) >= 8
    # Decided, it is not run again.
    again = compare(place, "1", "2", "--race", "--rounds", "5")
    assert again.json["race"]["trials"] == told["race"]["trials"] and "nothing is launched" in again.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.timing
def test_a_training_slowed_by_15_percent_is_found_and_fails_the_gate(place: Path) -> None:
    said = compare(place, "1", "3", "--race", "--fail-if-slower", "3%")
    told = said.json
    assert said.code == 1 and told["verdict"] == "slower" and told["exit_code"] == 1, said.stderr
    assert told["ratio"] == pytest.approx(1 / 1.15, abs=0.04) and told["ratio_ci95"][1] < 1
    records = Journal(place / "results" / "s" / "journal.jsonl").read()
    legs = [record for record in records if record.race is not None and record.race.id == told["race"]["id"]]
    assert [leg.trial for leg in legs] == told["race"]["trials"] and {leg.origin for leg in legs} == {"confirm"}
    again = compare(place, "1", "3", "--race", "--again", "--rounds", "2").json
    assert again["race"]["id"] != told["race"]["id"] and len(again["race"]["trials"]) >= 4
    assert min(again["race"]["trials"]) > max(told["race"]["trials"]) and again["paired_rounds"] <= 4


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_race_that_is_interrupted_says_how_to_go_on_and_goes_on(place: Path) -> None:
    journal = Journal(place / "results" / "s" / "journal.jsonl")
    before = len(journal.read())
    race = ["compare", "2", "3", "--race", "--rounds", "2", "--json"]
    running = subprocess.Popen(
        [sys.executable, "-m", "vtune", *race],
        cwd=place, env=quiet_env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        while running.poll() is None and len(journal.read()) < before + 1:
            time.sleep(0.05)
        time.sleep(1.0)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 130 and "vtune compare s:2 s:3 --race --rounds 2" in err
    kept = [record for record in journal.read()[before:] if record.status == "completed"]
    assert len(kept) == 1
    finished = compare(place, "2", "3", "--race", "--rounds", "2")
    assert finished.code == 0 and kept[0].trial in finished.json["race"]["trials"]
    assert len(finished.json["race"]["trials"]) == 4 and finished.json["paired_rounds"] == 2


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_race_launches_what_its_trials_ran_or_says_why_it_cannot(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    command = ("--", sys.executable, str(script), "--prefetch-factor")
    for words in ((*command, "2"), (*command, "3"), ("--set", "prefetch_factor=4", *command, "3")):
        done = vtune("probe", "--study", "s", "--steps", "40", "--quiet", *words, cwd=tmp_path)
        assert done.code == 0, done.stderr
    journal = Journal(tmp_path / "results" / "s" / "journal.jsonl")
    # The study's command is that of trials 2 and 3 by now.
    refused = compare(tmp_path, "1", "3", "--race", "--rounds", "2", "--again")
    assert refused.code == 2 and "trial 1 ran another command" in refused.json["error"]
    assert "--prefetch-factor 2`; now it would be" in refused.json["hint"] and len(journal.read()) == 3
    # Nothing of the command tells of this change: the first launch of trial 2's settings does.
    script.write_text(SCRIPT.replace("num_workers=1", "num_workers=2"))
    ended = compare(tmp_path, "2", "3", "--race", "--rounds", "2", "--again")
    launched = journal.read()[3:]
    assert ended.code == 2 and "workers=2, and was to stand for a trial with workers=1" in ended.json["error"]
    assert len(launched) == 1 and launched[0].race is not None
    # They are not taken for rounds of it afterwards, and that is said.
    told = compare(tmp_path, "2", "3").json
    assert told["paired_rounds"] is None
