"""What the hooks see of real trainings, and that nobody notices them: output, exit code and losses are the same."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

LOADED, DELIVERED, BACKWARD, STEP = 1, 2, 3, 4
MAIN_THREAD, NESTED, GRADIENTS = 1, 2, 4


def unchanged(plain: Any, watched: Any, *, exit_code: int = 0) -> None:
    assert watched.said == plain.said
    assert watched.exit_code == exit_code, watched.stderr
    assert watched.facts("problem") == []


def test_a_plain_training_is_told_completely_and_not_changed(both: Any) -> None:
    plain, watched = both("plain.py", "--batch", 4, "--epochs", 2)
    unchanged(plain, watched)
    batches = watched.records(DELIVERED)
    assert len(batches) == len(watched.records(STEP)) == len(watched.records(BACKWARD)) == 12
    # Of the code, its own and nothing that is installed.
    [told] = watched.facts("modules")
    assert [Path(file).name for file in told["files"]] == ["plain.py"]
    sizes = [int(line.split()[2]) for line in watched.stdout.splitlines()[:-1]]
    assert [(b.group, b.index, b.n1, b.n2) for b in batches] == [
        (epoch, index, size, size) for epoch, index, size in zip([0] * 6 + [1] * 6, [*range(6)] * 2, sizes, strict=True)
    ]
    assert {b.flags for b in batches} == {MAIN_THREAD | GRADIENTS}
    assert [s.index for s in watched.records(STEP)] == list(range(12))
    order = [kind for _, kind in sorted((r.b, r.kind) for k in (DELIVERED, BACKWARD, STEP) for r in watched.records(k))]
    assert order == [DELIVERED, BACKWARD, STEP] * 12
    (loader,) = watched.facts("loader")
    assert re.fullmatch(r"plain\.py:\d+:TensorDataset#0@[0-9a-f]{8}", loader["key"])
    assert loader["where"].endswith("plain.py:" + loader["key"].split(":")[1])
    assert loader["asked"]["batch_size"] == loader["effective"]["batch_size"] == 4
    assert loader["asked"]["shuffle"] is True
    assert [(p["pass"], p["iterator"], p["length"]) for p in watched.facts("pass")] == [(0, 0, 6), (1, 1, 6)]
    assert [(p["pass"], p["batches"]) for p in watched.facts("pass_end")] == [(0, 6), (1, 6)]
    (optimizer,) = watched.facts("optimizer")
    assert (optimizer["class"], optimizer["parameters"]) == ("SGD", 4)
    (hello,) = watched.facts("hello")
    assert hello["argv"][0] == "plain.py"
    assert hello["torch"]


def test_what_frameworks_inspect_and_the_random_numbers_are_as_without_us(both: Any) -> None:
    plain, watched = both("inspected.py")
    unchanged(plain, watched)
    # The loader whose constructor we did not see is named by where it is iterated.
    bare = watched.facts("loader")[-1]
    assert bare["asked"] is None
    assert bare["where"].split(":")[0].endswith("inspected.py")


@pytest.mark.slow
def test_persistent_workers_tell_each_batch_of_both_epochs(both: Any) -> None:
    plain, watched = both("plain.py", "--workers", 2, "--persistent")
    unchanged(plain, watched)
    passes = watched.facts("pass")
    assert [(p["iterator"], p["resume"]) for p in passes] == [(0, 0), (0, 1)]
    assert passes[0]["worker_pids"] == passes[1]["worker_pids"]
    assert all(p["begun"] < p["ready"] for p in passes)
    loaded = watched.records(LOADED)
    for one in loaded:
        assert one.pid == passes[0]["worker_pids"][one.source]
        assert one.a <= one.b
        assert one.c >= 0
    asked = Counter((one.group, one.index, one.n1) for one in loaded)
    assert asked == Counter((batch.group, batch.index, batch.n2) for batch in watched.records(DELIVERED))
    assert {fact["in"] for name in ("hello", "loader", "pass") for fact in watched.facts(name)} == {passes[0]["in"]}


@pytest.mark.slow
def test_spawned_workers_are_watched_too(both: Any) -> None:
    plain, watched = both("plain.py", "--workers", 1, "--start-method", "spawn", "--epochs", 1)
    unchanged(plain, watched)
    (one_pass,) = watched.facts("pass")
    loaded = watched.records(LOADED)
    assert [one.pid for one in loaded] == one_pass["worker_pids"] * 6
    assert [one.n1 for one in loaded] == [batch.n2 for batch in watched.records(DELIVERED)] == [4, 4, 4, 4, 4, 2]
    assert one_pass["effective"]["start_method"] == "spawn"
    # The training, multiprocessing's resource tracker, the worker.
    assert len(watched.pythons()) == 3


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_generators_that_are_looked_at_draw_the_same_numbers_as_without_us(both: Any, workers: int) -> None:
    plain, watched = both("drawing.py", workers)
    unchanged(plain, watched)
    assert len(watched.facts("reads")) >= 8


@pytest.mark.slow
def test_two_optimizers_are_told_apart(both: Any) -> None:
    plain, watched = both("gan.py")
    unchanged(plain, watched)
    assert Counter(step.source for step in watched.records(STEP)) == {0: 12, 1: 6}
    assert {o["optimizer"]: o["parameters"] for o in watched.facts("optimizer")} == {0: 9, 1: 424}
    assert len(watched.records(BACKWARD)) == 18


@pytest.mark.slow
def test_the_training_loader_is_the_one_that_feeds_steps_though_validation_comes_first(both: Any) -> None:
    plain, watched = both("validation_first.py")
    unchanged(plain, watched)
    assert len(watched.records(STEP)) == watched.stdout.count("step")
    assert len(watched.records(BACKWARD)) == 3 * len(watched.records(STEP))
    shares = sorted(watched.share_of_steps().values())
    assert shares[1] == 1.0
    assert shares[0] <= 2 / 12
    # The sanity check was broken off after two batches of four, so its pass never ended.
    assert [p["batches"] for p in watched.facts("pass_end")] == [18, 4, 18, 4]
    validation = watched.facts("loader")[0]["loader"]
    assert {bool(b.flags & GRADIENTS) for b in watched.records(DELIVERED) if b.source == validation} == {False}


@pytest.mark.slow
def test_twins_made_anew_each_epoch_keep_their_two_keys(both: Any) -> None:
    plain, watched = both("anew_each_epoch.py")
    unchanged(plain, watched)
    keys = [fact["key"] for fact in watched.facts("loader")]
    assert [key.split("#")[1][0] for key in keys] == ["0", "1", "0"]
    assert len({key.replace("#1", "#0") for key in keys[:2]}) == 1
    passes = watched.facts("pass")
    assert [p["length"] for p in passes] == [3, 2] * 3 + [1] * 3
    # All loaders are objects of their own; an epoch has the data of the one before, and a part of them has others.
    assert len({p["made"] for p in passes}) == 9
    train, test, *parts = [p["data"] for p in passes[:2] + passes[6:]]
    assert [p["data"] for p in passes[:6]] == [train, test] * 3 and len({train, test, *parts}) == 5
    # The second may fall into the window before a step of the next epoch.
    shares = watched.share_of_steps()
    assert shares[keys[0]] == 1.0
    assert shares[keys[1]] <= 1 / 3


@pytest.mark.slow
def test_an_iterable_data_set_has_no_count_of_samples_but_a_leading_dimension(both: Any) -> None:
    plain, watched = both("iterable.py")
    unchanged(plain, watched)
    # torch itself complains, at the line of the script, that more came than the data set's length.
    assert "iterable.py:" in watched.stderr
    batches = watched.records(DELIVERED)
    assert [b.n1 for b in batches] == [int(line.split()[1]) for line in watched.stdout.splitlines() if "batch" in line]
    assert {b.n2 for b in batches} == {0}
    assert {one_pass["length"] for one_pass in watched.facts("pass")} == {None}
    # Position as the loader numbers it: what was asked of a worker that had ended is left out on both sides.
    workers = watched.facts("pass")[1]["worker_pids"]
    assert sorted(one.index for one in watched.records(LOADED) if one.pid in workers) == sorted(
        b.index for b in batches if b.group == 1
    )
    # Each worker tells its samples, by sums of their own, and where it is.
    given = [one for one in watched.facts("reads") if one["in"] in workers]
    assert sorted((one["worker"], one["order"]) for one in given) == [(w, n) for w in (0, 1) for n in (-1, 0, 1, 2)]
    sums = [sum_ for one in given for sum_ in one.get("contents", ())]
    assert len(sums) == len(set(sums)) == 20
    starts = [one for one in given if one["order"] == -1]
    assert all(one["says_it_splits"] and {"random", "torch"} <= set(one["states"]) for one in starts)
    assert all("iterable.py:" in one["reads_at"] for one in starts)
    # The last batch found the end of its data.
    numbers = [
        [one["cursor"]["1.number"] for one in given if one["worker"] == w and one["order"] in (0, 1)] for w in (0, 1)
    ]
    assert not set(numbers[0]) & set(numbers[1])
    # One that does not keep order is told by what it sent and has no longer on its way.
    assert [p["effective"]["in_order"] for p in watched.facts("pass")] == [True, True, False]
    assert [b.index for b in batches if b.group == 2] == [*range(5)]


@pytest.mark.slow
def test_batches_fetched_in_a_background_thread_are_marked(both: Any) -> None:
    plain, watched = both("background_thread.py")
    unchanged(plain, watched)
    assert {b.flags & MAIN_THREAD for b in watched.records(DELIVERED)} == {0}
    assert {s.flags & MAIN_THREAD for s in watched.records(STEP)} == {MAIN_THREAD}
    assert len(watched.records(STEP)) == 5


@pytest.mark.slow
def test_a_loader_inside_a_data_set_is_marked_and_inside_a_worker_not_recorded(both: Any) -> None:
    plain, watched = both("nested.py")
    unchanged(plain, watched)
    assert Counter(bool(b.flags & NESTED) for b in watched.records(DELIVERED)) == {False: 2 + 2, True: 16}
    assert len(watched.records(LOADED)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_each_process_that_trains_tells_its_own_training(both: Any, method: str, tmp_path: Any) -> None:
    plain, watched = both("spawned_ranks.py", method, tmp_path)
    unchanged(plain, watched)
    ranks = sorted({step.pid for step in watched.records(STEP)})
    assert len(ranks) == 2
    for pid in ranks:
        assert len(watched.records(STEP, pid)) == len(watched.records(DELIVERED, pid)) == 4
        assert watched.share_of_steps(pid) != {}
        assert [f["in"] for f in watched.facts("hello")].count(pid) == 1
    assert len(watched.records(LOADED)) == 4


@pytest.mark.slow
def test_a_compiled_step_is_counted_and_compiled_as_often_as_without_us(both: Any) -> None:
    plain, watched = both("compiled.py")
    # Dynamo's warning on stderr has a clock in it.
    assert watched.stdout == plain.stdout
    assert watched.facts("problem") == []
    assert len(watched.records(STEP)) == len(watched.records(BACKWARD)) == len(watched.records(DELIVERED)) == 24


@pytest.mark.parametrize(
    ("workers", "ending", "code"), [(0, "uncaught", 1), pytest.param(1, "exit", 7, marks=pytest.mark.slow)]
)
def test_a_failing_training_warns_and_fails_in_the_same_words(both: Any, workers: int, ending: str, code: int) -> None:
    plain, watched = both("failing.py", workers, ending)
    unchanged(plain, watched, exit_code=code)
    # It did fail in all the places that it names, and nothing of it was lost.
    for words in (
        "num_workers option",
        "'wrong'",
        "pickle",
        "no order",
        "no place",
        "no gradient",
        "65 worker processes",
    ):
        assert words in watched.stderr
    last = max(one_pass["pass"] for one_pass in watched.facts("pass"))
    delivered = [batch for batch in watched.records(DELIVERED) if batch.group == last]
    assert len(watched.records(STEP)) == len(delivered) == watched.stdout.count("stepped") == 2


@pytest.mark.slow
def test_torchdatas_loader_which_shares_no_constructor_with_torchs_is_watched(both: Any, request: Any) -> None:
    plain, watched = both("stateful.py", path=(request.path.parent / "stand_in",))
    unchanged(plain, watched)
    assert len(watched.records(STEP)) == 16
    batches = watched.records(DELIVERED)
    assert [(b.group, b.n1, b.n2) for b in batches] == [
        (number, size, size) for number in range(4) for size in (3, 3, 3, 1)
    ]
    assert [(p["resume"], p["effective"]["num_workers"]) for p in watched.facts("pass")] == [
        (0, 0),
        (0, 0),
        (0, 2),
        (1, 2),
    ]
    assert [fact["asked"]["num_workers"] for fact in watched.facts("loader")] == [0, 2]
    assert [(one.group, one.index) for one in sorted(watched.records(LOADED), key=lambda r: (r.group, r.index))] == [
        (resume, index) for resume in (0, 1) for index in range(4)
    ]
