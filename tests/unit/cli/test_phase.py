"""`vtune phase` where the journal answers all that the plan asks: nothing is started, and everything is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.studies import a_failure, a_trial, write_study
from vtune.cli.main import run
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus

CONFIG = """vtune:
  command: /usr/bin/env train.py --config {config}
  study: demo
training:
  workers: 1
  train_batch_size: 1
"""
# The second phase has nothing to turn that is not set already.
PLAN = "about: two knobs\nphases:\n  - turn: {workers: [2, 4]}\n  - name: batch\n    turn: {batch_size: [x1]}\n"
OPTIONS = "options:\n  A: {workers: 4, batch_size: x2}\n"
BASELINE, TWO, FOUR = (
    a_trial(1, 10.0, batch=1),
    a_trial(2, 20.0, asked={"workers": 2}, batch=1),
    # For so long that the winner needs no further launch to show that it lives.
    a_trial(3, 39.0, asked={"workers": 4}, batch=1, measured={"steps_measured": 200}),
)
ANOTHER = a_trial(4, 78.0, asked={"workers": 4, "batch_size": 2}, batch=2)
Phase = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.yaml").write_text(CONFIG)
    (tmp_path / "own.yaml").write_text(PLAN)
    return tmp_path


@pytest.fixture
def phase(here: Path, capsys: pytest.CaptureFixture[str]) -> Phase:
    def phase(*arguments: str, plan: str = "own.yaml") -> tuple[int, str, str]:
        code = run(["phase", "--config", "demo.yaml", "--plan", plan, *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return phase


def a_study(here: Path, *records: TrialRecord) -> Path:
    return write_study(here / "results", *records).root


def flat(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def test_a_walk_at_its_end_is_told_again_and_nothing_is_started(here: Path, phase: Phase) -> None:
    folder = a_study(here, BASELINE, TWO, FOUR)
    journal = (folder / "journal.jsonl").read_bytes()
    code, out, err = phase()
    assert code == 0
    assert "adopt workers=4 (trial 3): 3.9×" in flat(out)
    assert "✓ kept workers=2" in err and "✓ kept workers=2" not in out and "plan own, all 2 phases" in flat(out)
    assert "✓ kept workers=2" in flat(phase("--quiet")[1])
    assert "phase 2: batch: none of its values lies beyond what is set already" in flat(
        out
    ) and "3 trials took 102 s; pays back after" in flat(out)
    assert "your own settings: 9.8 samples/s" in err and "nothing is left to launch" in err
    assert "phase 1 of 2, workers (low risk)" in err and "  ✓ kept workers=4: 38.2 samples/s" in err
    assert err.rstrip().endswith("written: results/demo/report.md · results/demo/trials.csv · results/demo/choice.json")
    assert (folder / "journal.jsonl").read_bytes() == journal and list((folder / "trials").iterdir()) == []
    assert json.loads((folder / "phases.json").read_text())["walked"]["best"] == 3
    assert "## Phases" in (folder / "report.md").read_text()


def test_json_is_one_object_with_what_is_promised(here: Path, phase: Phase) -> None:
    a_study(here, BASELINE, TWO, FOUR)
    code, out, err = phase("--json", "--quiet")
    told = json.loads(out)
    assert code == 0 and err == ""
    promised = {"study", "baseline", "best", "speedup", "speedup_ci95", "tie", "trials", "phases", "tuning_s",
                "pays_back_after_s"}  # fmt: skip
    assert promised <= set(told)
    assert told["best"]["trial"] == 3 and told["speedup"] == pytest.approx(3.9)
    assert [(one["phase"], one["knob"], one["kept"]) for one in told["phases"]] == [
        (1, "workers", {"workers": 4}), (2, "batch_size", {})
    ]  # fmt: skip
    assert told["pays_back_after_s"] == pytest.approx(told["tuning_s"] / (told["speedup"] - 1))
    assert told["plan"] == {"name": "own", "about": "two knobs", "up_to": 2, "of": 2} and told["interrupted"] is False


def test_a_walk_ends_after_the_phase_that_was_asked_for(here: Path, phase: Phase) -> None:
    a_study(here, BASELINE, TWO, FOUR)
    code, out, _ = phase("--up-to", "1")
    assert code == 0 and "plan own, phase 1 of 2" in flat(out) and "adopt workers=4 (trial 3)" in flat(out)


def test_nothing_feasible_is_exit_4_with_the_limit_by_how_much_and_the_nearest_relaxation(
    here: Path, phase: Phase
) -> None:
    a_study(here, BASELINE)
    code, out, _ = phase("--ram-limit", "2GiB")
    assert code == 4
    assert "nothing feasible: no trial fits the limits; trial 1 is nearest: --ram-limit 3GiB lets it in" in flat(out)
    code, out, _ = phase("--ram-limit", "2GiB", "--json")
    told = json.loads(out)
    near = told["choice"]["nearest_relaxation"]
    assert code == 4 and told["best"] is None and near["trial"] == 1 and near["over"][0]["needs_bytes"] == 3 * 2**30
    assert told["stopped"] and told["speedup"] is None and told["pays_back_after_s"] is None


@pytest.mark.parametrize(
    ("status", "code"), [(TrialStatus.CRASHED, 5), (TrialStatus.NOT_OBSERVED, 5), (TrialStatus.OUT_OF_VRAM, 4)]
)
def test_a_baseline_that_fails_ends_the_walk_with_its_own_code_and_last_words(
    here: Path, phase: Phase, status: TrialStatus, code: int
) -> None:
    a_study(here, a_failure(1, status, "KeyError: 'lr'", words=["Traceback", "KeyError: 'lr'"]))
    found, out, _ = phase()
    assert found == code and "KeyError: 'lr'" in flat(out) and "stopped: " in flat(out)
    if code == 5:  # beside the last words themselves it is said once
        document = (here / "results" / "demo" / "report.md").read_text()
        assert flat(out).count("KeyError: 'lr'") == document.count("KeyError: 'lr'") == 2


def test_the_plan_comes_first_and_a_dry_run_ends_there(here: Path, phase: Phase) -> None:
    (here / "own.yaml").write_text(PLAN + OPTIONS)
    code, out, err = phase("--dry-run")
    assert code == 0 and err == ""
    assert "1  workers: 2 → 4" in out and "2  batch: batch_size 1" in out and "A: workers=4 batch_size=2" in out
    assert "at most 8 trials of at most 3 min each, start-ups apart: at most 24 min" in out
    assert "a race of 4 to 20 launches" in out and out.rstrip().endswith("nothing was started")
    assert not (here / "results").exists()
    told = json.loads(phase("--dry-run", "--json", "--no-confirm")[1])
    assert (told["trials_at_most"], told["race_launches_at_most"], told["at_most_s"]) == (3, 0, 540.0)
    assert told["outline"][1]["rungs"] == [{"batch_size": "x1"}] and told["next"]["reason"] == "the current settings"
    assert not (here / "results").exists()


def test_a_plan_files_words_do_not_move_the_cursor_of_whoever_reads_them(here: Path, phase: Phase) -> None:
    nasty = PLAN.replace("name: batch", 'name: "b \\e[2J\\u202e"') + '    by_hand: ["\\e[5m look"]\n'
    (here / "own.yaml").write_text(nasty + 'options: {"A\\nfirst  nothing": {workers: 4}}\n')
    code, out, _ = phase("--dry-run")
    assert code == 0 and "look" in out
    assert not [line for line in out.splitlines() if not line.isprintable() or line.startswith("first  nothing")]


EXTENDED = "about: one knob\nphases:\n  - turn: {workers: [2, 4]}\n    extend: [6, 8, 12, 16]\n"


def test_extended_a_ladder_ends_at_the_cores(here: Path, phase: Phase) -> None:
    (here / "own.yaml").write_text(EXTENDED)
    (here / "demo.yaml").write_text(CONFIG.replace("  study: demo\n", "  study: demo\n  machine: {cores: 8}\n"))
    _, out, _ = phase("--dry-run", "--extend", "--no-confirm")
    # The baseline, and four rungs.
    assert "workers: 2 → 4 → 6 → 8\n" in out
    assert "at most 5 trials" in out
    [told] = json.loads(phase("--dry-run", "--extend", "--json")[1])["outline"]
    assert told["beyond"] == [{"workers": 6}, {"workers": 8}]
    # Each process of a distributed run has workers of its own.
    text = (here / "demo.yaml").read_text()
    ranks = text.replace("/usr/bin/env train.py", "/usr/bin/env torchrun --nproc_per_node=2 train.py")
    (here / "demo.yaml").write_text(ranks)
    assert "workers: 2 → 4\n" in phase("--dry-run", "--extend")[1]


def test_while_it_runs_the_plan_ends_at_the_cores_too(here: Path, phase: Phase) -> None:
    a_study(here, BASELINE, TWO, FOUR)
    (here / "own.yaml").write_text(EXTENDED.replace("[6, 8, 12, 16]", "[1000]"))
    code, _, err = phase("--extend", "--no-confirm")
    assert code == 0 and "workers: 2 → 4\n" in err and "1000" not in err


def test_a_dry_run_knows_what_the_journal_has_and_expects_by_its_baseline(here: Path, phase: Phase) -> None:
    folder = a_study(here, BASELINE, TWO)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    _, out, _ = phase("--dry-run", "--no-confirm")
    assert "known     trials 1, 2: they are not run again" in out
    assert "phase 1: ✓ kept workers=2: 19.6 samples/s" in out and "best so far 19.6 samples/s" in out
    assert "1 trial of about" in out and "first     phase 1 of 2, workers 2 → 4" in out
    told = json.loads(phase("--dry-run", "--json", "--no-confirm")[1])
    assert told["from_measured_trials"] is True and told["at_most_s"] == pytest.approx(told["trial_s_at_most"])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--plan", "lader"], ['unknown plan "lader"', 'did you mean "ladder"']),
        (["--plan", "missing.yaml"], ["missing.yaml", "ladder, safe, progressive, guided"]),
        (["--plan", "ladder.yaml"], ["ladder.yaml", "--plan ladder"]),
        (["--up-to", "3"], ["plan own ends with phase 2", "1 workers, 2 batch"]),
        (["--up-to", "0"], ["--up-to"]),
        (["--up-to", "two"], ["--up-to"]),
        (["--options"], ["plan own has none"]),
        (["--extend"], ["goes on past its end"]),
        (["--ram-limit", "lots"], ["--ram-limit must"]),
        (["--set", "wrokers=2"], ["unknown knob", "workers"]),
    ],
)
def test_wrong_usage_is_told_and_writes_nothing(
    here: Path, phase: Phase, arguments: list[str], words: list[str]
) -> None:
    more = arguments if "--plan" not in arguments else []
    plan = arguments[1] if "--plan" in arguments else "own.yaml"
    code, out, err = phase(*more, plan=plan)
    assert code == 2 and out == "" and all(word in err for word in words)
    assert not (here / "results").exists()
    assert json.loads(phase("--json", *more, plan=plan)[1])["exit_code"] == 2


def test_a_wrong_plan_is_named_by_its_line(here: Path, phase: Phase) -> None:
    (here / "own.yaml").write_text("phases:\n  - turn: {wrokers: [2]}\n  - trun: {workers: [2]}\n")
    code, _, err = phase()
    assert code == 2 and "own.yaml:2:" in err and "own.yaml:3:" in err


def test_without_a_training_the_study_used_last_is_gone_on_with(
    here: Path, phase: Phase, capsys: pytest.CaptureFixture[str]
) -> None:
    a_study(here, BASELINE, TWO, FOUR)
    assert phase()[0] == 0
    assert run(["phase", "--plan", "own.yaml"]) == 0
    assert "going on with study demo in results" in capsys.readouterr().err


def test_an_earlier_trial_of_another_config_is_named_and_not_compared(here: Path, phase: Phase) -> None:
    folder = a_study(here, BASELINE, TWO, FOUR, ANOTHER)
    copy = folder / "trials" / "0004" / "config.yaml"
    copy.parent.mkdir(parents=True)
    spec: dict[str, Any] = {"command": ["/usr/bin/env", "other.py"], "cwd": str(here), "env": {}}
    (copy.parent / "spec.json").write_text(json.dumps(spec))
    code, out, _ = phase("--up-to", "1")
    assert code == 0 and "trial 4 ran another command, config or code than the phases: it is not compared" in flat(out)
    assert "adopt workers=4 (trial 3)" in flat(out) and "another training" in flat(out)


def test_a_dry_run_on_another_machine_is_refused_as_the_run_would_be(here: Path, phase: Phase) -> None:
    folder = a_study(here, BASELINE)
    (folder / "machine.json").write_text(json.dumps({"host": "elsewhere", "gpus": ["H100"]}))
    code, out, err = phase("--dry-run")
    assert code == 2 and out == "" and "was measured on another machine (host was elsewhere" in err
    assert json.loads(phase("--dry-run", "--json")[1])["exit_code"] == 2


def test_a_config_without_its_option_is_named_as_one(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "configs").mkdir()
    (here / "configs" / "quick.yaml").write_text(CONFIG)
    for name in ("demo", "quick"):
        assert run(["phase", name]) == 2
        assert f"hint: an experiment file is named by --config {name}" in capsys.readouterr().err
    assert run(["phase", "nothing"]) == 2
    assert "hint: vtune phase --config FILE, or vtune phase -- python train.py" in capsys.readouterr().err


def test_a_knob_without_a_way_into_the_training_is_no_plan(here: Path, phase: Phase) -> None:
    (here / "own.yaml").write_text("phases:\n  - turn: {patch_size: [96]}\n  - turn: {workers: [2]}\n")
    _, out, _ = phase("--dry-run")
    assert "1  patch_size: no way into this training" in out and "96" not in out and "workers: 2" in out
