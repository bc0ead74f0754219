"""Trainings that fail or cannot be observed: exit 5, their own words first, the status by its evidence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.cli import Said, vtune
from support.light import LIGHT

STEPPING = f"""{LIGHT}
import torch
weight = torch.nn.Parameter(torch.zeros(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
loader = torch.utils.data.DataLoader(torch.zeros(400, 3), batch_size=2)
def step(batch):
    (weight * batch).sum().backward()
    optimizer.step()
"""

CASES = {
    "raises at once": ("import torch\nraise ValueError('the moon is full')", "crashed", "ValueError: the moon is full"),
    "raises after some steps": (
        STEPPING + "for n, b in enumerate(loader):\n    step(b)\n    if n == 7: raise KeyError('patch 7')",
        "crashed",
        "KeyError: 'patch 7'",
    ),
    "leaves with an exit code": (STEPPING + "raise SystemExit(3)", "crashed", "exit code 3"),
    "is killed": (STEPPING + "import os\nos.kill(os.getpid(), 9)", "crashed", "SIGKILL"),
    "imports what is not there": ("import no_such_module_of_anybody", "crashed", "no_such_module_of_anybody"),
    "ends early": (
        STEPPING + "for n, b in enumerate(loader):\n    step(b)\n    if n == 9: break",
        "too_short",
        "10 steps",
    ),
    "never steps and ends": (
        STEPPING + "for b in loader: (weight * b).sum().backward()",
        "not_observed",
        "200 backward",
    ),
    "removes the folder of its trial": (
        "import glob, shutil\nshutil.rmtree(*glob.glob('out/*/trials/0001'))\n" + STEPPING + "for b in loader: step(b)",
        "not_observed",
        "the folder of the trial was removed",
    ),
    "is no training": ("print('hello')", "not_observed", "never imported"),
    "hides from us": ("", "not_observed", "-E, -I or -S"),
}


def probe(tmp_path: Path, text: str, *options: str, python: tuple[str, ...] = ()) -> Said:
    script = tmp_path / "train.py"
    script.write_text(text)
    return vtune(
        "probe", "--results", tmp_path / "out", *options, "--", sys.executable, *python, script, cwd=tmp_path
    )  # fmt: skip


# The quick suite has one that dies and one that nobody could watch.
QUICK = ("raises after some steps", "hides from us")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_the_status_says_how_the_training_ended(tmp_path: Path, name: str) -> None:
    text, status, words = CASES[name]
    said = probe(tmp_path, text, "--json", python=("-I",) if name == "hides from us" else ())
    assert said.code == 5, said.stderr
    assert said.json["trial"]["status"] == status
    assert words in said.json["trial"]["detail"]


@pytest.mark.slow
def test_the_trainings_own_words_come_first(tmp_path: Path) -> None:
    said = probe(tmp_path, CASES["raises at once"][0])
    assert said.code == 5
    assert 0 < said.stdout.index("ValueError: the moon is full") < said.stdout.index("crashed:")


@pytest.mark.slow
def test_a_training_that_never_steps_is_given_up_after_its_time(tmp_path: Path) -> None:
    said = probe(tmp_path, STEPPING + "import time\ntime.sleep(600)", "--json", "--startup-time", "4s")
    assert said.code == 5
    assert said.json["trial"]["status"] == "not_observed"
    assert "within 4 s" in said.json["trial"]["detail"]


@pytest.mark.slow
def test_backwards_without_a_step_are_given_up_after_the_trial_time(tmp_path: Path) -> None:
    endless = STEPPING + "import time\nwhile True:\n    (weight * 1).sum().backward()\n    time.sleep(0.05)"
    said = probe(tmp_path, endless, "--json", "--trial-time", "3s")
    assert said.code == 5
    assert said.json["trial"]["status"] == "not_observed"
    assert "backward passes" in said.json["trial"]["detail"]


@pytest.mark.slow
def test_slow_steps_give_a_provisional_answer_within_the_trial_time(tmp_path: Path) -> None:
    slow = STEPPING + "import time\nfor b in loader:\n    step(b)\n    time.sleep(0.3)"
    said = probe(tmp_path, slow, "--json", "--trial-time", "4s")
    assert said.code == 0
    record = said.json["trial"]
    assert record["status"] == "completed" and 5 <= record["steps_measured"] < 20
    assert record["steady"] is False and "4 s" in record["detail"]
    assert record["samples_per_s"] == pytest.approx(2 / 0.3, rel=0.1)


@pytest.mark.slow
def test_hostile_words_do_not_reach_the_terminal_as_they_are(tmp_path: Path) -> None:
    said = probe(tmp_path, "import torch\nraise ValueError('\\x1b[31mred\\x07 [bold]not bold[/bold]')")
    assert said.code == 5
    assert "\x1b" not in said.stdout and "\x07" not in said.stdout
    assert "[bold]not bold[/bold]" in said.stdout


@pytest.mark.slow
def test_a_limit_that_is_passed_ends_the_trial_with_exit_4(tmp_path: Path) -> None:
    growing = STEPPING + (
        "import time\nkept = []\n"
        "for b in loader:\n    step(b)\n    kept.append(bytearray(b'x' * 20_000_000))\n    time.sleep(0.1)"
    )
    said = probe(tmp_path, growing, "--json", "--ram-limit", "400MiB", "--steps", "150")
    assert said.code == 4, said.stdout
    assert said.json["trial"]["status"] == "out_of_ram"
    assert "limit" in said.json["trial"]["detail"]
