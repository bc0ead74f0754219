"""`vtune search` where the journal answers all that is asked: nothing is started, and everything is said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.studies import a_failure, a_trial, write_study
from vtune.cli.main import run
from vtune.domain.prediction import Prediction
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus

CONFIG = """vtune:
  command: /usr/bin/env train.py --config {config}
  study: demo
  limits: {ram: 16GiB}
training:
  workers: 1
  train_batch_size: 1
"""
BASELINE = a_trial(1, 10.0, batch=1, origin="search")
FOUR = a_trial(
    2, 39.0, asked={"workers": 4}, batch=1, origin="search", measured={"steps_measured": 200},
    predicted=Prediction(samples_per_s=37.0, samples_per_s_ci95=(33.0, 41.0)),
)  # fmt: skip
Search = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.yaml").write_text(CONFIG)
    return tmp_path


@pytest.fixture
def search(here: Path, capsys: pytest.CaptureFixture[str]) -> Search:
    def search(*arguments: str) -> tuple[int, str, str]:
        code = run(["search", "--config", "demo.yaml", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return search


def a_study(here: Path, *records: TrialRecord) -> Path:
    return write_study(here / "results", *records).root


def flat(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def test_a_search_at_its_end_is_told_again_and_nothing_is_started(here: Path, search: Search) -> None:
    folder = a_study(here, BASELINE, FOUR)
    journal = (folder / "journal.jsonl").read_bytes()
    code, out, err = search("--trials", "2")
    assert code == 0
    assert "adopt workers=4 (trial 2): 3.9×" in flat(out) and "search, sampler auto, 2 of 2 trials" in flat(out)
    assert "1 of 1 trial came inside of the interval that was predicted" in flat(out)
    assert "which knob mattered" in out and "if RAM is needed elsewhere" not in out  # both need as much
    assert "known already: trials 1, 2" in err and "your own settings: 9.8 samples/s" in err
    assert err.rstrip().endswith("written: results/demo/report.md · results/demo/trials.csv · results/demo/choice.json")
    assert (folder / "journal.jsonl").read_bytes() == journal and list((folder / "trials").iterdir()) == []
    assert json.loads((folder / "search.json").read_text())["best"] == 2
    assert "## Search" in (folder / "report.md").read_text()


def test_json_is_one_object_with_what_is_promised(here: Path, search: Search) -> None:
    a_study(here, BASELINE, FOUR)
    code, out, err = search("--trials", "2", "--json", "--quiet")
    told = json.loads(out)
    assert code == 0 and err == ""
    promised = {"study", "baseline", "best", "speedup", "speedup_ci95", "tie", "trials", "phases", "tuning_s",
                "pays_back_after_s", "search"}  # fmt: skip
    assert promised <= set(told) and told["phases"] == [] and told["interrupted"] is False
    assert told["best"]["trial"] == 2 and told["speedup"] == pytest.approx(3.9)
    assert told["tuning_s"] == pytest.approx(BASELINE.seconds + FOUR.seconds)


def test_nothing_feasible_is_exit_4_with_the_limit_by_how_much_and_the_nearest_relaxation(
    here: Path, search: Search
) -> None:
    a_study(here, BASELINE)
    code, out, _ = search("--ram-limit", "2GiB", "--trials", "1")
    assert code == 4 and "trial 1 is nearest: --ram-limit 3GiB lets it in" in flat(out) and "stopped: " in flat(out)
    code, out, _ = search("--ram-limit", "2GiB", "--trials", "1", "--json")
    told = json.loads(out)
    assert code == 4 and told["best"] is None and told["choice"]["nearest_relaxation"]["trial"] == 1
    assert told["search"]["stopped"] and told["pays_back_after_s"] is None


@pytest.mark.parametrize(("status", "code"), [(TrialStatus.CRASHED, 5), (TrialStatus.NOT_OBSERVED, 5)])
def test_a_baseline_that_fails_ends_the_search_with_its_own_code_and_last_words(
    here: Path, search: Search, status: TrialStatus, code: int
) -> None:
    failed = replace(a_failure(1, status, "KeyError: 'lr'", words=["Traceback", "KeyError: 'lr'"]), origin="search")
    a_study(here, failed)
    found, out, _ = search("--trials", "1")
    assert found == code and "KeyError: 'lr'" in flat(out) and "stopped: " in flat(out)


def test_a_dry_run_tells_the_space_what_is_not_turned_and_how_long_it_takes(here: Path, search: Search) -> None:
    code, out, err = search("--dry-run", "--trials", "12", "--budget", "30m")
    assert code == 0 and err == "" and not (here / "results").exists()
    assert "sampler auto (by vtune's own model of the training), at most 12 trials and 30 min of launches" in out
    assert "settings of" in out and "workers: " in out and "not turned: precision" in out
    assert "at most 12 trials and a scout run of at most 3 min each, start-ups apart\n" in out
    assert (
        "all of it within the 30 min that are left of the budget" in out
        and "39 min" not in out
        and out.rstrip().endswith("nothing was started")
    )
    told = json.loads(search("--dry-run", "--json", "--no-confirm")[1])
    assert (told["trials_at_most"], told["confirmations_at_most"], told["at_most_s"]) == (20, 0, 3780.0)
    assert told["next"]["reason"] == "the current settings" and told["search"]["space"]["settings"] > 1
    assert not (here / "results").exists()


def test_a_dry_run_knows_what_the_journal_has_and_expects_by_its_baseline(here: Path, search: Search) -> None:
    folder = a_study(here, BASELINE)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    _, out, _ = search("--dry-run", "--no-confirm")
    assert "known     trial 1: it is not run again" in out
    assert "at most 19 trials and a scout run of about" in out and "best so far" in out
    assert "next      " in out and "predicted" in out.split("next      ")[1]
    assert json.loads(search("--dry-run", "--json", "--no-confirm")[1])["from_measured_trials"] is True
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_dry_run_of_one_trial_promises_no_race(search: Search) -> None:
    assert "race" not in search("--dry-run", "--trials", "1")[1]


def test_a_dry_run_at_the_end_of_the_trials_says_what_confirms_the_winner(here: Path, search: Search) -> None:
    a_study(here, BASELINE, replace(FOUR, measurement=replace(FOUR.measurement, steps_measured=60)))
    _, out, _ = search("--dry-run", "--trials", "2")
    assert "first  " not in out and "next  " not in out
    assert "confirm   workers=4: the winner once more, for longer" in out
    assert "ended     all 2 trials are used: what is left confirms the winner" in out
    _, out, _ = search("--dry-run", "--trials", "2", "--no-confirm")
    assert "confirm  " not in out and "ended     all 2 trials are used\n" in out
    assert "next      " in search("--dry-run", "--trials", "5")[1]


def test_going_on_by_another_sampler_is_said(here: Path, search: Search) -> None:
    a_study(here, BASELINE, FOUR)
    assert search("--trials", "2", "--sampler", "tpe")[0] == 0
    _, _, err = search("--trials", "2")
    assert "so far this study was searched by tpe, now it is by auto: --sampler tpe goes on as before" in err
    assert "so far" not in search("--trials", "2")[2]
    assert "so far" not in search("--trials", "2", "--sampler", "auto")[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--trials", "0"], ["--trials must be at least 1, got 0", "--trials 20"]),
        (["--trials", "1e9"], ["--trials must be a whole number"]),
        (["--trials", "1000000000"], ["--trials must be at most 10000"]),
        (["--budget", "5"], ["--budget must have a unit, as 5s or 5m", "--budget 30m"]),
        (["--allow", "foo"], ["--allow must be same", "for example --allow close"]),
        (["--ram-limit", "300"], ["--ram-limit must", "for example --ram-limit 300MiB or 300GiB"]),
        (["--vram-limit", "much"], ["--vram-limit must", "for example --vram-limit 76GiB"]),
        (["--study", "a b"], ["--study must be", "for example --study a-b"]),
        (["--no-confrim"], ["No such option: --no-confrim", "did you mean --no-confirm?"]),
        (["--dry-run", "--results", "demo.yaml/x"], ["cannot write to demo.yaml/x", "--results"]),
        (["--budget", "soon"], ["--budget must be like"]),
        (["--sampler", "rnadom"], ["--sampler must be auto, tpe, gp, random or grid", 'did you mean "random"?']),
        (["--sampler", "cmaes", "--trials", "x"], ["--sampler must be", "--trials must be"]),
        (["--ram-limit", "lots"], ["--ram-limit must"]),
        (["--set", "wrokers=2"], ["unknown knob", "workers"]),
    ],
)
def test_wrong_usage_is_told_and_writes_nothing(
    here: Path, search: Search, arguments: list[str], words: list[str]
) -> None:
    code, out, err = search(*arguments)
    assert code == 2 and out == "" and all(word in err for word in words)
    assert not (here / "results").exists()
    assert json.loads(search("--json", *arguments)[1])["exit_code"] == 2


def test_what_is_set_is_not_turned(here: Path, search: Search) -> None:
    told = json.loads(search("--dry-run", "--json", "--set", "workers=2")[1])
    assert "workers" not in [one["name"] for one in told["search"]["space"]["knobs"]]
    assert told["next"]["settings"] == {"workers": 2}


def test_without_a_training_the_study_used_last_is_gone_on_with(
    here: Path, search: Search, capsys: pytest.CaptureFixture[str]
) -> None:
    a_study(here, BASELINE, FOUR)
    assert search("--trials", "2")[0] == 0
    assert run(["search", "--trials", "2"]) == 0
    assert "going on with study demo in results" in capsys.readouterr().err


def test_a_script_that_is_not_there_is_told_with_what_to_do(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["search", "--", "python", "nofile.py"]) == 2
    said = capsys.readouterr().err
    assert 'there is no script "nofile.py"' in said and "hint: " in said and "folder" in said
