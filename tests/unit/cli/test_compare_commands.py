"""A study's command is the last one that was probed in it; a trial may have run another one."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.studies import a_trial, write_study
from vtune import api
from vtune.cli.main import run
from vtune.config.command_line import CommandLine
from vtune.config.experiment_file import write_experiment
from vtune.config.load import experiment_from_command
from vtune.domain.experiment import KnobBinding
from vtune.domain.record import TrialRecord
from vtune.domain.trial import RaceLeg
from vtune.execution.prepare import prepare_trial
from vtune.journal.files import dump_json
from vtune.journal.paths import StudyPaths
from vtune.journal.ran import same_training
from vtune.journal.records import spec_to_json
from vtune.knobs.registry import knobs_of
from vtune.strategies.fixed import Once

FOUR = {"workers": 4}
Compare = Callable[..., tuple[int, str, str]]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "other.py"):
        (tmp_path / name).touch()
    return tmp_path / "results"


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Compare:
    def compare(*arguments: str) -> tuple[int, str, str]:
        code = run(["compare", *arguments])
        said = capsys.readouterr()
        return code, " ".join(said.out.replace("│", " ").split()), said.err

    return compare


def probed(study: StudyPaths, trial: int, asked: dict[str, Any], *command: str) -> None:
    """What a probe leaves of its command: the study's, and the trial's own."""
    experiment = experiment_from_command(("/usr/bin/env", *command), overrides=CommandLine(study=study.root.name))
    folder = study.trial(trial)
    folder.root.mkdir(parents=True)
    write_experiment(experiment, study.experiment)
    proposal = Once(asked, already=0).propose([])
    assert proposal is not None
    spec, _ = prepare_trial(experiment, study, proposal, number=trial, train_loader="any", folder=folder)
    dump_json(folder.spec, spec_to_json(spec))


def a_study(results: Path, *commands: tuple[dict[str, Any], str], rates: tuple[float, ...], name: str = "s") -> Path:
    """`asked` and the rest of `python train.py …`, as one after the other were probed."""
    records: list[TrialRecord] = []
    for trial, ((asked, flags), rate) in enumerate(zip(commands, rates, strict=True), 1):
        words = flags.split()
        workers = int(words[words.index("--num-workers") + 1]) if "--num-workers" in words else 1
        records.append(a_trial(trial, rate, asked=asked, workers=workers))
    study = write_study(results, *records, name=name)
    for trial, (asked, flags) in enumerate(commands, 1):
        probed(study, trial, asked, *(flags.split() if flags.startswith("other") else ["train.py", *flags.split()]))
    return study.root


def test_a_trial_of_another_command_is_not_raced_by_the_present_one(results: Path, compare: Compare) -> None:
    folder = a_study(results, ({}, "--num-workers 1"), ({}, "--num-workers 2"), (FOUR, "--num-workers 2"),
                     rates=(10.0, 10.2, 10.3))  # fmt: skip
    before = (folder / "journal.jsonl").read_bytes()
    for pair in (("1", "3"), ("3", "1"), ("1", "2")):
        for more in ((), ("--dry-run",), ("--again",)):
            code, out, err = compare(*pair, "--race", *more)
            assert code == 2 and out == "" and "trial 1 ran another command than study s has now" in err
            assert (
                "`/usr/bin/env train.py --num-workers 1`; now it would be `/usr/bin/env train.py --num-workers 2`"
                in err
            )
            assert "a study of its own" in err and "nothing to race" not in err
    assert (folder / "journal.jsonl").read_bytes() == before and len(list((folder / "trials").iterdir())) == 3
    # The flag that trial 3 turned is its setting: a launch would run the very words that it ran.
    code, out, _ = compare("2", "3", "--race", "--dry-run")
    assert code == 0 and "race: 4 to 20 launches" in out
    # Without a race they are compared as they were launched, and a knob's flag is no other training.
    code, out, _ = compare("1", "2")
    assert code == 0 and "1 in A, 2 in B" in out and "two different trainings" not in out


def test_what_was_set_over_an_older_flag_is_raced_where_it_comes_to_the_same_words(
    results: Path, compare: Compare
) -> None:
    a_study(results, (FOUR, "--num-workers 1"), ({}, "--num-workers 2"), rates=(10.0, 10.2))
    assert compare("1", "2", "--race", "--dry-run")[0] == 0


def test_words_that_are_each_trials_own_are_no_other_command(results: Path, compare: Compare) -> None:
    a_study(results, ({}, "--output-dir runs/a"), (FOUR, "--output-dir runs/a"), rates=(10.0, 10.2))
    assert compare("1", "2", "--race", "--dry-run")[0] == 0
    results.rename(results.parent / "moved")
    assert compare("1", "2", "--race", "--dry-run", "--results", "moved")[0] == 0


def test_another_place_or_environment_is_another_command(results: Path, compare: Compare) -> None:
    folder = a_study(results, ({}, ""), (FOUR, ""), rates=(10.0, 10.2))
    spec = StudyPaths(folder).trial(1).spec
    told = json.loads(spec.read_text())
    for changed, said in (({"cwd": "/elsewhere"}, "in /elsewhere"), ({"env": {**told["env"], "LR": "1"}}, "`LR=1 ")):
        spec.write_text(json.dumps({**told, **changed}))
        code, _, err = compare("1", "2", "--race", "--dry-run")
        assert code == 2 and said in err
    # Where nobody knows what it ran, its first launch tells.
    spec.unlink()
    assert compare("1", "2", "--race", "--dry-run")[0] == 0


def test_the_same_asked_with_other_settings_is_not_called_the_same(results: Path, compare: Compare) -> None:
    """Its folder is gone, so that only its settings tell that something was changed."""
    write_study(results, a_trial(1, 10.0, workers=1), a_trial(2, 10.2, workers=2))
    code, _, err = compare("1", "2", "--race")
    assert code == 2 and "turned the same and ran with different settings" in err


def raced_otherwise(*, race: str, workers: int) -> list[TrialRecord]:
    """The baseline's launches ran with so many workers."""
    return [
        replace(
            a_trial(10 + 2 * at + c, 10.0 + c, asked=FOUR if c else {}, workers=workers),
            race=RaceLeg(id=race, round=at + 1, contestant=c, contestants=2, rounds=3),
        )
        for at in range(3)
        for c in (0, 1)
    ]


def test_rounds_that_launched_something_else_are_said_not_to_count(results: Path, compare: Compare) -> None:
    write_study(results, a_trial(1, 10.0), a_trial(2, 10.2, asked=FOUR), *raced_otherwise(race="r", workers=2))
    told = json.loads(compare("1", "2", "--json")[1])
    assert told["paired_rounds"] is None
    said = "race r does not count: its trials 10, 12, 14 ran with workers=2, and trial 1 with workers=1"
    assert said in told["notes"]


def test_a_race_whose_launches_ran_with_something_else_is_begun_anew(results: Path, compare: Compare) -> None:
    study = write_study(results, a_trial(1, 10.0), a_trial(2, 10.2, asked=FOUR))
    first = api.plan_race("1", "2", results=results).plan.race
    for name, workers, there in ((first.id, 2, False), (first.id, 1, True)):
        study.journal.write_text("")
        study.root.rename(results / f"old-{workers}")
        records = raced_otherwise(race=name, workers=workers)
        study = write_study(results, a_trial(1, 10.0), a_trial(2, 10.2, asked=FOUR), *records)
        plan = api.plan_race("1", "2", results=results).plan
        assert (plan.race.id == first.id) == there and len(plan.legs) == (6 if there else 0)
        assert plan.race.stray(records) is None and (plan.launches == 0) == there


def test_a_launch_that_ran_with_something_else_ends_its_race(results: Path) -> None:
    write_study(results, a_trial(1, 10.0), a_trial(2, 10.2, asked=FOUR))
    race = api.plan_race("1", "2", results=results).plan.race
    legs = raced_otherwise(race=race.id, workers=2)
    assert race.propose(legs[1:2]) is not None
    assert race.propose(legs[:1]) is None and not race.standing(legs[:1]).decided
    found = race.stray(legs)
    assert found is not None and found[0].trial == 10 and found[1]["workers"] == 1


def test_two_trainings_are_named_as_such_in_the_line_after_the_verdict(results: Path, compare: Compare) -> None:
    a_study(results, ({}, "--lr 1"), (FOUR, "other.py --lr 1"), rates=(10.0, 160.0))
    a_study(results, ({}, "--lr 2"), rates=(10.0,), name="t")
    code, out, _ = compare("s:1", "s:2")
    assert code == 0 and "B is faster: 16.0×" in out
    verdict, said = out.index("B is faster"), out.index("these are two different trainings")
    assert verdict < said < out.index("compared by the rate") and out.count("two different trainings") == 1
    assert "A runs `/usr/bin/env train.py --lr 1`, and B `/usr/bin/env other.py --lr 1`" in out
    assert "two different trainings" in json.loads(compare("s:1", "s:2", "--json")[1])["notes"][0]
    assert "two different trainings" in compare("s:1", "t:1")[1]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("train.py --num-workers 1", "train.py --num-workers 4", True),
        ("train.py --num-workers=1 --lr 1", "train.py --lr 1", True),
        ("train.py --num-workers 1 --lr 1", "train.py --num-workers 1 --lr 2", False),
        ("train.py --config train.yaml", "train.py --config {trial}/config.yaml", True),
        ("train.py --config=train.yaml", "train.py --data={trial}/config.yaml", False),
        ("train.py --output-dir {trial}/output", "train.py --output-dir runs", False),
    ],
)
def test_settings_make_no_other_training(one: str, other: str, same: bool) -> None:
    assert same_training(f"python {one}".split(), f"python {other}".split()) is same
    assert same_training(f"python {other}".split(), f"python {one}".split()) is same


def test_a_precision_is_a_setting_where_a_trial_has_turned_it_and_another_training_elsewhere() -> None:
    one, other = ["python", "train.py", "--precision", "32"], ["python", "train.py", "--precision", "bf16-mixed"]
    assert same_training(one, other, {"precision"}) and not same_training(one, other)


def test_so_is_a_knob_of_the_users_own() -> None:
    one, other = ["python", "train.py", "--loss", "dice"], ["python", "train.py", "--loss", "ce"]
    knobs = knobs_of([KnobBinding(name="loss", flag="--loss", values=("dice", "ce"))])
    assert same_training(one, other, {"loss"}, knobs) and not same_training(one, other, (), knobs)
