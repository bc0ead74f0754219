"""`vtune compare` over studies and result files as vtune writes them; nothing here starts a training."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.others import disturbed
from support.studies import a_failure, a_trial, write_study
from vtune import api
from vtune.cli.main import run
from vtune.domain.machine import Machine
from vtune.domain.record import Projection, TrialRecord
from vtune.domain.trial import RaceLeg
from vtune.journal.files import dump_json, to_json
from vtune.journal.journal import Journal
from vtune.journal.records import record_to_json
from vtune.strategies.race import Race

FOUR = {"workers": 4}
HERE = Machine(host="here", kernel="6", cpu_model="some", cores=2.0, ram_bytes=2**34, shm_bytes=2**30)

Compare = Callable[..., tuple[int, str, str]]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results"


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Compare:
    def compare(*arguments: str) -> tuple[int, str, str]:
        code = run(["compare", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return compare


def a_study(results: Path, *records: TrialRecord, name: str = "demo", machine: Machine = HERE) -> Path:
    paths = write_study(results, *records, name=name)
    dump_json(paths.machine, machine)
    return paths.root


def probed(path: Path, record: TrialRecord, machine: Machine | None = HERE) -> str:
    told = {"study": "ci", "trial": record_to_json(record), "verdict": "v", "why": [], "next": [], "headroom": None}
    path.write_text(json.dumps({**told, **({"machine": to_json(machine)} if machine else {})}))
    return str(path)


def test_two_trials_of_the_study_used_last(results: Path, compare: Compare) -> None:
    a_study(results, a_trial(1, 10.0), a_trial(2, 31.0, asked=FOUR))
    code, out, err = compare("1", "2")
    assert code == 0 and "B is faster: 3.1×" in out and "1 in A, 4 in B" in out
    assert "trials of study demo in results, the one used last" in err and compare("1", "2", "--quiet")[2] == ""
    code, out, _ = compare("2", "1")
    assert code == 0 and "B is slower: 0.32×" in out


def test_json_is_one_object_as_documented(results: Path, compare: Compare) -> None:
    a_study(results, a_trial(1, 10.0), a_trial(2, 9.9, asked=FOUR), a_trial(3, 10.1))
    code, out, _ = compare("1", "2", "--json", "--fail-if-slower", "20%")
    told = json.loads(out)
    assert set(told) == {
        "a", "b", "ratio", "ratio_ci95", "verdict", "resolvable", "compared_by", "paired_rounds", "differing",
        "fail_if_slower", "could_be_seen", "against_it", "notes", "race", "exit_code",
    }  # fmt: skip
    assert code == told["exit_code"] == 0 and told["verdict"] == "tie" and told["could_be_seen"] is True
    assert told["a"]["launches"] == [1, 3] and told["a"]["machine"]["host"] == "here" and not told["a"]["chosen"]
    assert told["ratio_ci95"][0] < told["ratio"] < told["ratio_ci95"][1] and told["fail_if_slower"] == 0.2
    assert told["differing"] == {"workers": {"a": 1, "b": 4}}


def test_a_study_stands_for_the_trial_that_it_would_choose(results: Path, compare: Compare) -> None:
    a_study(results, a_trial(1, 10.0), a_trial(2, 31.0, asked=FOUR), name="before")
    folder = a_study(results, a_trial(1, 10.0), a_trial(2, 26.0, asked=FOUR), name="after")
    code, out, _ = compare("before", "after", "--json")
    told = json.loads(out)
    assert code == 0 and told["verdict"] == "slower"
    assert (told["a"]["trial"], told["a"]["chosen"]) == (2, True) and told["ratio"] == pytest.approx(26 / 31)
    assert json.loads(compare("before:2", str(folder), "--json")[1])["ratio"] == pytest.approx(26 / 31)
    assert json.loads(compare("before:1", f"{folder}:1", "--json")[1])["verdict"] == "tie"
    assert "its settings" not in out and any("settings are the same" in note for note in told["notes"])


def test_the_gate_fails_by_what_is_shown_and_passes_by_what_is_not(results: Path, compare: Compare) -> None:
    records = [a_trial(1, 10.0), a_trial(2, 8.5, asked=FOUR), a_trial(3, 9.8, asked={"workers": 2})]
    a_study(results, *records)
    code, out, _ = compare("1", "2", "--fail-if-slower", "3%")
    assert code == 1 and "gate: no" in out and "15 %" in out
    assert compare("1", "2")[0] == 0 and compare("2", "1", "--fail-if-slower", "3%")[0] == 0
    code, out, err = compare("1", "3", "--fail-if-slower", "3%", "--quiet")
    assert code == 0 and "could not have been seen" in err and "--race" in err and "BLIND" in out
    code, out, err = compare("3", "1", "--fail-if-slower", "0.10", "--quiet")
    assert code == 0 and err == "" and "a slow-down of 10 % would have been seen" in out
    assert "--fail-if-slower 0.10 is taken as 10%" in compare("3", "1", "--fail-if-slower", "0.10")[2]


def test_a_trial_on_a_full_machine_is_not_called_slower_and_the_gate_is_blind(results: Path, compare: Compare) -> None:
    full = {"others_cores": 1.38, "tree_cores": 0.6}
    a_study(results, a_trial(1, 10.0), a_trial(2, 5.1, asked=FOUR, measured=full), name="full")
    code, out, err = compare("1", "2", "--fail-if-slower", "3%")
    assert code == 0 and "not distinguishable" in out and "BLIND" in out and "measure while nothing else runs" in err
    notes = json.loads(compare("1", "2", "--json")[1])["notes"]
    said = "other programs kept 1.4 of 2 cores busy beside trial 2: it may have been up to 3.23× as fast without them"
    assert said in notes
    a_study(results, a_trial(1, 10.0), a_trial(2, 5.1, asked=FOUR, measured={"others_cores": 0.02}), name="quiet")
    assert compare("1", "2", "--fail-if-slower", "3%")[0] == 1
    assert not any("other programs" in note for note in json.loads(compare("1", "2", "--json")[1])["notes"])


def test_a_trial_compared_with_itself_is_refused_however_it_is_named(results: Path, compare: Compare) -> None:
    folder = a_study(results, a_trial(1, 10.0), a_trial(2, 31.0, asked=FOUR))
    for pair in (("2", "2"), ("2", "demo:2"), (f"{folder}:2", "demo"), ("2", "2", "--force")):
        code, out, err = compare(*pair)
        assert code == 2 and out == "" and "both trial 2 of demo" in err and "compared with itself" in err
    assert "(demo would choose it)" in compare("2", "demo")[2]
    one = probed(results.parent / "one.json", a_trial(1, 10.0))
    assert compare(one, one)[0] == 2
    assert compare(one, probed(results.parent / "other.json", a_trial(1, 10.0)))[0] == 0


def test_the_measure_is_named_in_a_line_of_its_own(results: Path, compare: Compare) -> None:
    a_study(results, a_trial(1, 10.0), a_trial(2, 11.0, asked=FOUR), name="whole")
    assert "compared by the rate of a whole run" in compare("1", "2")[1]
    epochs = {"samples_per_s_whole_run": None, "samples_per_epoch": 4000, "projected": Projection(epoch_s=400.0)}
    a_study(results, *(a_trial(n, 10.0, workers=n, measured=epochs) for n in (1, 2)), name="epoch")
    assert "samples/s over an epoch: trial 1" in compare("1", "2")[1]
    alone = {**epochs, "samples_per_epoch": None}
    a_study(results, a_trial(1, 10.0), a_trial(2, 11.0, asked=FOUR, measured=alone), name="steady")
    assert "compared by the steady rate, without start-up" in compare("1", "2")[1]
    # The race has what the trials that it began from had not.
    rows = legs(*[(10.0, 10.6), (9.0, 9.5), (8.0, 8.5)])
    a_study(results, a_trial(1, 10.0, whole=False), a_trial(2, 11.0, asked=FOUR, whole=False), *rows, name="raced")
    assert "compared by the rate of a whole run" in compare("1", "2")[1]


def test_files_of_probe_and_report_are_compared(results: Path, compare: Compare, capsys: Any) -> None:
    results.parent.mkdir(exist_ok=True)
    before = probed(results.parent / "before.json", a_trial(1, 10.0))
    after = probed(results.parent / "after.json", a_trial(1, 8.0))
    code, out, _ = compare(before, after, "--fail-if-slower", "3%", "--json")
    assert code == 1 and json.loads(out)["exit_code"] == 1 and json.loads(out)["a"]["launches"] == [1]
    a_study(results, a_trial(1, 10.0), a_trial(2, 31.0, asked=FOUR))
    assert run(["report", "--json"]) == 0
    report = results.parent / "report.json"
    report.write_text(capsys.readouterr().out)
    told = json.loads(compare("2", str(report), "--json")[1])
    assert told["verdict"] == "tie" and told["b"]["chosen"] and told["b"]["machine"]["host"] == "here"


def test_another_machine_is_refused_and_by_force_the_reason_stays(results: Path, compare: Compare) -> None:
    a_study(results, a_trial(1, 10.0))
    there = replace(HERE, host="there", gpu_driver="570.1")
    other = probed(results.parent / "other.json", a_trial(1, 20.0), there)
    code, out, err = compare("1", other)
    assert code == 2 and out == "" and "host here and there" in err and "gpu_driver" in err and "--force" in err
    refused = json.loads(compare("1", other, "--json")[1])
    assert set(refused) == {"error", "hint", "exit_code"}
    code, out, err = compare("1", other, "--force")
    assert code == 0 and "host here and there" in out and "by force" in err and "B is faster" in out
    nobody = probed(results.parent / "nobody.json", a_trial(1, 20.0), None)
    code, out, _ = compare("1", nobody, "--json")
    assert code == 0 and any("which machine" in note and "not known" in note for note in json.loads(out)["notes"])


def test_cold_against_warm_is_refused(results: Path, compare: Compare) -> None:
    a_study(results, a_trial(1, 10.0, measured={"cache": "cold"}), a_trial(2, 20.0, measured={"cache": "warm"}))
    code, _, err = compare("1", "2")
    assert code == 2 and "cold" in err and "different questions" in err
    assert compare("1", "2", "--force")[0] == 0


def test_a_failed_trial_is_refused_and_one_without_a_rate_even_by_force(results: Path, compare: Compare) -> None:
    a_study(results, a_trial(1, 10.0), a_failure(2), a_trial(3, 9.0, status="hung", detail="no step for 120 s"))
    code, _, err = compare("1", "3")
    assert code == 2 and "did not complete (hung)" in err
    assert compare("1", "3", "--force")[0] == 0
    assert compare("1", "2", "--force")[0] == 2


def test_different_batches_and_a_missing_whole_run_are_told(results: Path, compare: Compare) -> None:
    a_study(results, a_trial(1, 10.0, batch=2), a_trial(2, 11.0, batch=4, whole=False))
    notes = " ".join(json.loads(compare("1", "2", "--json")[1])["notes"])
    assert "effective batch is 2 in A and 4 in B" in notes and "which is not known for trial 2" in notes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["1", "9"], "has no trial 9"),
        (["1", "9"], "trials 1, 2, 3"),
        (["demo:1", "dmeo:2"], "studies in results: demo"),
        (["1", "nothing.json"], "no trial, no study and no file"),
        (["1", "empty.json"], "cannot be read"),
        (["1", "list.json"], "no result of vtune"),
        (["1", "error.json"], "it broke"),
        (["1", "2", "--fail-if-slower", "3"], "must be a share like 3%"),
        (["1", "2", "--fail-if-slower", "0%"], "must be a share like 3%"),
        (["1", "2", "--rounds", "4"], "without --race"),
        (["1", "2", "--again"], "without --race"),
        (["1", "2", "--race", "--rounds", "1"], "at least 2"),
        (["1", "2", "--race", "--rounds", "x"], "--rounds must be a whole number"),
        (["1", "1", "--race"], "compared with itself"),
        (["1", "3", "--race"], "nothing to race"),
        (["probed.json", "other.json", "--race"], "probed.json and other.json are no studies but files"),
        (["1", "other.json", "--race"], "other.json is no study but a file"),
        (["1", "other:1", "--race"], "of one study"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_exists(
    results: Path, compare: Compare, arguments: list[str], said: str
) -> None:
    a_study(results, a_trial(1, 10.0), name="other")
    a_study(results, a_trial(1, 10.0), a_trial(2, 11.0, asked=FOUR), a_trial(3, 10.0))
    probed(results.parent / "probed.json", a_trial(1, 10.0))
    probed(results.parent / "other.json", a_trial(1, 10.0))
    for name, text in (("empty", ""), ("list", "[1]"), ("error", '{"error": "it broke", "hint": null}')):
        (results.parent / f"{name}.json").write_text(text)
    code, out, err = compare(*arguments)
    assert code == 2 and out == "" and said in err and "hint:" in err


def test_a_dry_race_says_how_many_launches_and_how_long(results: Path, compare: Compare) -> None:
    folder = a_study(results, a_trial(1, 10.0), a_trial(2, 11.0, asked=FOUR))
    code, out, _ = compare("1", "2", "--race", "--rounds", "4", "--dry-run")
    assert code == 0 and "4 to 12 launches of about 34.1 s" in out and "nothing was started" in out
    told = json.loads(compare("1", "2", "--race", "--dry-run", "--json")[1])
    assert told["launches"] == 20 and told["at_most_s"] == pytest.approx(20 * 34.1)
    assert set(told) == {
        "study", "race", "rounds", "rounds_run", "equal_within", "least_launches", "launches", "launch_s", "at_most_s",
        "settings", "nothing_launched",
    }  # fmt: skip
    assert told["settings"] == {"a": {}, "b": FOUR} and told["nothing_launched"] is None
    assert not (folder / "trials").exists()


def legs(*rows: tuple[float, float], delta: float | None = None, race: str = "r") -> list[TrialRecord]:
    return [
        replace(
            a_trial(10 + 2 * at + c, rate, asked=FOUR if c else {}),
            race=RaceLeg(id=race, round=at + 1, contestant=c, contestants=2, rounds=len(rows), delta=delta),
        )
        for at, row in enumerate(rows)
        for c, rate in enumerate(row)
    ]


def test_rounds_of_a_race_in_the_journal_are_compared_in_pairs(results: Path, compare: Compare) -> None:
    rows = [(10.0, 10.6), (9.0, 9.5), (8.0, 8.5), (7.0, 7.4), (6.5, 6.9), (6.2, 6.55)]
    a_study(results, a_trial(1, 10.0), a_trial(2, 10.3, asked=FOUR), *legs(*rows))
    told = json.loads(compare("1", "2", "--json")[1])
    assert told["verdict"] == "faster" and told["paired_rounds"] == 6
    assert told["ratio"] == pytest.approx(1.06, abs=0.004) and told["resolvable"] < 0.05
    out = " ".join(compare("1", "2")[1].replace("│", " ").split())
    # What is shown beside the verdict is what it was told from: rates and launches of the race, not of all.
    assert "; in the race trials 10, 12, 14, 16, 18, 20" in out and "of the same settings" not in out
    assert "7.51 samples/s over the whole run: trial 1" in out


def test_a_sure_percent_is_a_tie_of_a_race_as_long_as_it_counts_as_equal(results: Path, compare: Compare) -> None:
    a_study(results, a_trial(1, 10.0), a_trial(2, 10.3, asked=FOUR), *legs(*[(10.0, 10.1)] * 20))
    for one, other in (("1", "2"), ("2", "1")):
        told = json.loads(compare(one, other, "--json")[1])
        assert not told["ratio_ci95"][0] <= 1 <= told["ratio_ci95"][1] and told["verdict"] == "tie"
        assert "the race shows them equal within 2 %" in told["notes"] and told["resolvable"] > 0.02
        out = compare(one, other)[1]
        assert "no difference that counts" in out and "up to 2 % is equal" in out and "is faster" not in out


def test_a_race_that_was_run_more_thoroughly_calls_smaller_differences(results: Path, compare: Compare) -> None:
    rows = [(10.0, 10.15)] * 20
    a_study(results, a_trial(1, 10.0), a_trial(2, 10.3, asked=FOUR), *legs(*rows), name="plain")
    a_study(results, a_trial(1, 10.0), a_trial(2, 10.3, asked=FOUR), *legs(*rows, delta=0.01), name="thorough")
    assert json.loads(compare("plain:1", "plain:2", "--json")[1])["verdict"] == "tie"
    told = json.loads(compare("thorough:1", "thorough:2", "--json")[1])
    assert told["verdict"] == "faster" and not any("equal within" in note for note in told["notes"])


def test_a_gate_below_what_counts_as_equal_narrows_it(results: Path, compare: Compare) -> None:
    a_study(results, a_trial(1, 10.0), a_trial(2, 9.9, asked=FOUR), *legs(*[(10.0, 9.85)] * 20))
    code, out, _ = compare("1", "2", "--fail-if-slower", "1%")
    assert code == 1 and "B is slower" in out and "gate: no" in out
    code, out, _ = compare("1", "2", "--fail-if-slower", "3%")
    assert code == 0 and "no difference that counts" in out
    dry = ["1", "2", "--race", "--dry-run", "--json"]
    for asked, equal in (([], 0.02), (["--thorough"], 0.01), (["--fail-if-slower", "0.5%"], 0.005)):
        assert json.loads(compare(*dry, *asked)[1])["equal_within"] == equal


def raced(results: Path, ratio: float, name: str = "demo") -> Path:
    """A study with a race of trials 1 and 2 that was run to its end."""
    history = [a_trial(1, 10.0), a_trial(2, 10.3, asked=FOUR)]
    race = Race([FOUR], {}, cores=HERE.cores)
    while (proposal := race.propose(history)) is not None:
        rate = 10 * (ratio if proposal.settings else 1)
        record = a_trial(len(history) + 1, rate, asked=dict(proposal.settings))
        history.append(replace(record, race=proposal.race))
    return a_study(results, *history, name=name)


def test_a_race_that_was_decided_says_by_what_and_how_it_is_run_anew(results: Path, compare: Compare) -> None:
    folder = raced(results, 1.2)
    before = (folder / "journal.jsonl").read_bytes()
    code, out, err = compare("1", "2", "--race", "--json")
    told = json.loads(out)
    assert code == 0 and told["verdict"] == "faster" and told["race"]["decided"]
    assert told["race"]["trials"] == list(range(3, 3 + 2 * told["paired_rounds"]))
    assert "was decided before, by trials 3, 4," in err and "nothing is launched (--again" in err
    assert "was decided before" in told["race"]["nothing_launched"]
    assert (folder / "journal.jsonl").read_bytes() == before
    again = json.loads(compare("1", "2", "--race", "--again", "--dry-run", "--json")[1])
    assert again["race"] != told["race"]["id"] and again["launches"] == 20 and again["rounds_run"] == 0


def test_a_race_that_was_begun_is_told_in_the_right_number(results: Path, compare: Compare) -> None:
    history = [a_trial(1, 10.0), a_trial(2, 10.3, asked=FOUR)]
    race = Race([FOUR], {}, cores=HERE.cores, rounds=2)
    for said in ("race: 4 to 8 launches", "race: 3 to 7 launches", "race: 2 to 6 launches"):
        a_study(results, *history, name=f"after-{len(history)}")
        out = compare("1", "2", "--race", "--rounds", "2", "--dry-run")[1]
        assert said in out and ("; 1 round is there already" in out) == (len(history) == 4)
        proposal = race.propose(history)
        assert proposal is not None
        record = a_trial(len(history) + 1, 10.0, asked=dict(proposal.settings))
        history.append(replace(record, race=proposal.race))


def test_what_is_beyond_doubt_is_not_raced_and_that_is_said(results: Path, compare: Compare) -> None:
    folder = a_study(results, a_trial(1, 10.0), a_trial(2, 31.0, asked=FOUR))
    code, out, err = compare("1", "2", "--race", "--json")
    told = json.loads(out)
    assert code == 0 and told["verdict"] == "faster" and told["paired_rounds"] is None
    assert "differ beyond doubt" in err and "3.1×" in err and "--again" in err and not (folder / "trials").exists()
    assert told["race"]["trials"] == [] and "beyond doubt" in told["race"]["nothing_launched"]
    code, out, _ = compare("1", "2", "--race", "--dry-run")
    assert code == 0 and "beyond doubt" in out and "nothing was started" in out
    assert json.loads(compare("1", "2", "--race", "--again", "--dry-run", "--json")[1])["launches"] == 20


def test_a_study_stands_after_a_race_for_the_trial_that_was_raced(results: Path) -> None:
    folder = a_study(results, a_trial(1, 10.0), a_trial(2, 13.0, asked=FOUR), a_trial(3, 10.1, asked={"workers": 2}))
    planned = api.plan_race("demo:3", "demo", results=results)
    assert planned.b.record.trial == 2 and planned.b.chosen
    # As the race tells it: the choice falls on the baseline again.
    for leg in legs(*[(10.0, 10.0), (10.0, 10.01), (10.01, 10.0), (10.0, 10.0)] * 2):
        Journal(folder / "journal.jsonl").append(leg)
    assert api.compare("demo:3", "demo", results=results).b.record.settings["workers"] == 1
    found = api.compare_raced(planned)
    assert found.b.record.trial == 2 and found.b.chosen and found.b.reference == "demo" and len(found.b.launches) > 1


def test_a_trial_from_a_busy_machine_is_compared_with_nothing(results: Path, compare: Compare) -> None:
    a_study(results, a_trial(1, 10.0), disturbed(a_trial(2, 31.0, asked=FOUR)))
    code, _, err = compare("1", "2", "--force")
    assert code == 2 and "trial 2 of demo decides nothing" in err and "hint: measure its settings again" in err


def test_what_is_too_noisy_to_compare_is_said_without_a_ratio(results: Path, compare: Compare) -> None:
    wide = {"samples_per_s_ci95": (0.2, 500.0)}
    a_study(results, a_trial(1, 10.0), a_trial(2, 11.0, asked=FOUR, measured=wide))
    code, out, _ = compare("1", "2")
    assert code == 0 and "too noisy to compare" in out and "could not have been seen" not in out and "1.1×" not in out


def test_anyway_without_a_race_is_refused(results: Path, compare: Compare) -> None:
    a_study(results, a_trial(1, 10.0), a_trial(2, 31.0, asked=FOUR))
    assert compare("1", "2", "--anyway")[0] == 2


@pytest.mark.parametrize(
    ("record", "why"),
    [(disturbed(a_trial(1, 10.0)), "trial 1 ran on a busy machine"), (a_failure(1), "no trial has a rate")],
)
def test_a_study_that_would_choose_no_trial_says_why(
    results: Path, compare: Compare, record: TrialRecord, why: str
) -> None:
    a_study(results, a_trial(1, 10.0), name="other")
    a_study(results, record)
    code, _, err = compare("other:1", "demo")
    assert code == 2 and f"demo has no trial that would be chosen: {why}" in err
