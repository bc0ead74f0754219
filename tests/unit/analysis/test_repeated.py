"""Which sequences of checksums show that loader workers make the same data, and which do not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.trial_writer import TrialWriter
from vtune.analysis.reads import reads_of
from vtune.analysis.repeated import bits, find_repeated, samples_alone, was_compared
from vtune.analysis.roles import Roles, find_roles
from vtune.domain.events import Fact
from vtune.domain.repeated import Hidden, Repeated, Repeats
from vtune.journal.files import to_json
from vtune.journal.records import repeated_from_json
from vtune.journal.step_log import StepLog

A, B = 7, 8
BATCH = 4
MADE_AT, READ_AT, PREPARED_AT = "data.py:8", "data.py:20", "train.py:3"


def some_roles(tmp_path: Path, *, iterable: bool, workers: int = 2) -> Roles:
    writer = TrialWriter(tmp_path)
    writer.hello()
    writer.fact(
        "loader", loader=0, key="train.py:8:Patches#0 aaaa", dataset="Patches", where="train.py:8", iterable=iterable
    )
    writer.begin_pass(workers=workers, pids=[A, B][:workers] if workers else [])
    for j in range(5):
        writer.deliver(j, j + 0.5, j)
        writer.step(j + 1.0)
    log = StepLog(writer.paths)
    log.refresh()
    found = find_roles(log.steps, log.delivered, log.facts)
    assert found is not None
    return replace(found, passes=tuple(replace(one, settings={"workers": workers}) for one in found.passes))


def worker(
    pid: int,
    contents: Sequence[int | None],
    *,
    keys: Sequence[Any] | None = None,
    states: Sequence[Any] = (),
    kept: Sequence[int | None] = (),
    cursor: Sequence[dict[str, int]] = (),
    takes: Sequence[int] = (),
    numbers: Sequence[dict[str, int]] = (),
    walks: dict[str, int] | None = None,
    says: bool = False,
    generator: str = "self.rng",
    places: dict[str, str] | None = None,
) -> list[Fact]:
    """`states`: of one generator, at the start and after each batch."""

    def of_states(at: int) -> dict[str, Any]:
        return {generator: list(states[at])} if at < len(states) and states[at] is not None else {}

    facts = [
        Fact(
            pid=pid,
            t_s=0.0,
            name="reads",
            data={
                "worker": pid - A, "order": -1, "states": of_states(0), "places": {"self.rng": MADE_AT},
                "takes": {"records": takes[0]} if takes else {}, "reads_at": READ_AT, "prepared_at": PREPARED_AT,
                "says_it_splits": says,
            } | ({"places": places} if places is not None else {}),
        )
    ]  # fmt: skip
    for at in range(0, len(contents), BATCH):
        order, part = at // BATCH, slice(at, at + BATCH)
        data: dict[str, Any] = {"worker": pid - A, "order": order, "contents": list(contents[part])}
        data |= {"states": of_states(order + 1), "kept": list(kept[part]), "cursor": dict(*cursor[order : order + 1])}
        data |= {"takes": {"records": takes[order + 1]}} if takes else {}
        data |= {"keys": list(keys[part])} if keys is not None else {}
        data |= {"numbers": numbers[order]} if order < len(numbers) else {}
        data |= {"walks": walks} if walks is not None and not order else {}
        facts.append(Fact(pid=pid, t_s=order + 1.0, name="reads", data=data))
    return facts


@pytest.fixture
def found(tmp_path: Path) -> Any:
    def in_it(*own: list[Fact], iterable: bool = False, alone: dict[Any, int] | None = None) -> Repeated | None:
        roles = some_roles(tmp_path, iterable=iterable)
        head = [Fact(pid=4000, t_s=0.0, name="loader", data={"key": "train.py:8:Patches#0 aaaa", "iterable": iterable})]
        return find_repeated(roles, [*head, *(fact for facts in own for fact in facts)], alone=alone)

    return in_it


def reason(found: Repeated | None) -> Repeats | None:
    return None if found is None else found.reason


def drawn(*numbers: int, stream: int | None = 1) -> list[tuple[int, int | None]]:
    return [(number, stream) for number in numbers]


SHUFFLED = ([31, 7, 90, 12, 55, 2, 71, 8], [4, 66, 23, 81, 17, 40, 9, 35])
OTHERS = ([1, 2, 3, 4, 5, 6, 7, 8], [11, 12, 13, 14, 15, 16, 17, 18])


@pytest.mark.parametrize(
    ("first", "second", "repeats"),
    [
        # Copies of one generator, drawn on alike.
        (drawn(1, 2, 3), drawn(1, 2, 3), True),
        # Some samples take more numbers: another place in the same sequence.
        (drawn(1, 2, 4), drawn(1, 3, 5), True),
        # Each has a state of its own.
        (drawn(1, 2, 3), drawn(4, 5, 6), False),
        # Nobody draws from it.
        (drawn(1, 1, 1), drawn(1, 1, 1), False),
        # Drawn from once, as for a shuffle.
        (drawn(1, 2, 2), drawn(1, 2, 2), False),
        # Seeded anew for each sample, by its index or by a constant.
        ([(1, 1), (2, 5), (3, 6)], [(1, 1), (4, 7), (5, 8)], False),
        (drawn(1, 2, 1), drawn(1, 2, 1), False),
        # Of another kind, which does not tell its sequence.
        (drawn(1, 2, 4, stream=None), drawn(1, 3, 5, stream=None), False),
        # Too short to advance.
        (drawn(1, 2), drawn(1, 2), False),
    ],
)
def test_workers_draw_the_same_numbers_where_copies_of_a_generator_move_on_alike(
    found: Any, first: Any, second: Any, repeats: bool
) -> None:
    own, others = ([list(state) for state in states] for states in (first, second))
    told = found(
        worker(A, OTHERS[0], keys=SHUFFLED[0], states=own), worker(B, OTHERS[1], keys=SHUFFLED[1], states=others)
    )
    assert reason(told) == (Repeats.SAME_NUMBERS if repeats else None)
    if told is not None:
        assert (told.where, told.generator, told.workers, told.dataset) == (MADE_AT, "self.rng", 2, "Patches")


def at_places(*places: int, stream: int = 1) -> list[list[int] | None]:
    """Made with the first sample: nothing is known of its start."""
    return [None, *([place % 997, stream, place] for place in places)]


JUMP = 2**127


@pytest.mark.parametrize(
    ("first", "second", "repeats"),
    [
        # One sequence, at places of it that a few samples are apart: rejection takes other numbers of draws.
        (at_places(9, 21, 30), at_places(11, 19, 33), True),
        (at_places(9, 21, 30), at_places(9, 21, 30), True),
        # Of a seed of its own.
        (at_places(9, 21, 30), at_places(11, 19, 33, stream=2), False),
        # Shared out on purpose, by a jump.
        (at_places(9, 21, 30), at_places(JUMP + 9, JUMP + 21, JUMP + 30), False),
        # Seeded anew for each sample: it goes back.
        (at_places(9, 21, 5), at_places(11, 19, 33), False),
        # It does not tell its place, or is too short to advance.
        ([None, [9, 1], [21, 1], [30, 1]], [None, [11, 1], [19, 1], [33, 1]], False),
        (at_places(9, 21), at_places(11, 19), False),
    ],
)
def test_a_generator_that_each_worker_makes_of_one_seed_is_told_by_its_sequence(
    found: Any, first: Any, second: Any, repeats: bool
) -> None:
    told = found(
        worker(A, list(range(12)), keys=range(12), states=first),
        worker(B, list(range(20, 32)), keys=range(50, 62), states=second),
    )
    assert reason(told) == (Repeats.SAME_NUMBERS if repeats else None)


def test_a_generator_that_is_seeded_by_index_is_in_the_same_state_where_the_same_index_comes(found: Any) -> None:
    states = [[1, 1], [2, 1], [3, 1]]
    told = found(*(worker(pid, OTHERS[0], keys=SHUFFLED[0], states=states) for pid in (A, B)))
    assert told is None


def test_the_processs_own_generator_in_one_state_is_laid_to_what_prepares_the_workers(found: Any) -> None:
    told = found(
        *(
            worker(pid, own, keys=keys, states=[[1, 1], [2, 1], [3, 1]], generator="numpy.random")
            for pid, own, keys in zip((A, B), OTHERS, SHUFFLED, strict=True)
        )
    )
    assert told is not None and (told.generator, told.where) == ("numpy.random", PREPARED_AT)


def lcg(seed: int, many: int = 5) -> list[int]:
    found = [seed]
    for _ in range(many):
        found.append((1103515245 * found[-1] + 12345) % 2**31)
    return found[1:]


COUNTED = [4, 8, 12, 16, 20]


@pytest.mark.parametrize(
    ("first", "second", "walks", "repeats"),
    [
        # A generator made by hand.
        (lcg(1), lcg(1), (None, None), Repeats.SAME_NUMBERS),
        (lcg(1), lcg(2), (None, None), None),
        # Too short to be told from a counter.
        (lcg(1, 3), lcg(1, 3), (None, None), None),
        # Increments of a few values only are soon equal by chance.
        ([3, 5, 9, 12, 13], [3, 5, 9, 12, 13], (None, None), None),
        # A counter that only counts, also one that begins anew.
        (COUNTED, COUNTED, (None, None), None),
        ([40, 80, 20, 60, 0], [40, 80, 20, 60, 0], (None, None), None),
        # One that chooses the next record, along the same order in both, and along one of each worker's own.
        (COUNTED, COUNTED, ({"self.at": 5}, {"self.at": 5}), Repeats.NEXT_RECORD),
        (COUNTED, COUNTED, ({"self.at": 5}, {"self.at": 6}), None),
        (COUNTED, COUNTED[::-1], ({"self.at": 5}, {"self.at": 5}), None),
    ],
)
def test_numbers_that_a_data_set_keeps_tell_copies_of_a_place_from_a_count(
    found: Any, first: list[int], second: list[int], walks: Any, repeats: Repeats | None
) -> None:
    told = found(
        *(
            worker(
                pid,
                range(first_content, first_content + 20),
                keys=range(first_content, first_content + 20),
                numbers=[{"self.at": one} for one in own],
                walks=own_walks,
            )
            for pid, first_content, own, own_walks in zip((A, B), (100, 200), (first, second), walks, strict=True)
        )
    )
    assert reason(told) == repeats
    if told is not None:
        assert (told.generator, told.where) == (("self.at" if repeats is Repeats.SAME_NUMBERS else None), READ_AT)


def test_numbers_that_are_made_of_equal_indices_are_equal_rightly(found: Any) -> None:
    numbers = [{"self.at": one} for one in lcg(1)]
    told = found(*(worker(pid, range(pid * 100, pid * 100 + 20), keys=range(20), numbers=numbers) for pid in (A, B)))
    assert told is None


IN_ORDER = ([0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15])
SAME = [101, 102, 103, 104, 105, 106, 107, 108]


@pytest.mark.parametrize(
    ("contents", "keys", "more", "repeats"),
    [
        # The same samples, whatever the index.
        ((SAME, SAME), SHUFFLED, {}, True),
        ((SAME, OTHERS[1]), SHUFFLED, {}, False),
        # One of them is another.
        ((SAME, [*SAME[:-1], 1]), SHUFFLED, {}, False),
        # All samples alike, or nearly all.
        (([5] * 8, [5] * 8), SHUFFLED, {}, False),
        (([5] * 7 + [6], [5] * 7 + [6]), SHUFFLED, {}, False),
        # The sampler asked for the same indices: oversampling.
        ((SAME, SAME), (SHUFFLED[0], SHUFFLED[0]), {}, False),
        # In order: a data set that repeats itself does so as well, and cannot be told from one that counts.
        ((SAME, SAME), IN_ORDER, {}, False),
        # But for its own records that grow fewer, or an iterator that it reads on.
        ((SAME, SAME), IN_ORDER, {"takes": [20, 16, 12]}, True),
        ((SAME, SAME), IN_ORDER, {"takes": [-1, -1, -1]}, True),
        # A cache that fills is none.
        ((SAME, SAME), IN_ORDER, {"takes": [0, 4, 8]}, False),
        # Nothing in the samples could be summed.
        (([None] * 8, [None] * 8), SHUFFLED, {}, False),
    ],
)
def test_equal_samples_for_other_indices_come_of_a_copied_place_in_the_data(
    found: Any, contents: Any, keys: Any, more: Any, repeats: bool
) -> None:
    told = found(*(worker(pid, own, keys=k, **more) for pid, own, k in zip((A, B), contents, keys, strict=True)))
    assert reason(told) == (Repeats.NEXT_RECORD if repeats else None)
    assert told is None or told.where == READ_AT


@pytest.mark.parametrize(
    ("alone", "repeats"),
    [
        # One process alone made other samples of the same indices.
        (dict(enumerate(range(200, 220))), True),
        # It made the same: the data set itself repeats.
        (dict(zip([*IN_ORDER[0], *IN_ORDER[1]], [*SAME, *SAME], strict=True)), False),
        # Nothing of the second worker's indices.
        (dict(zip(IN_ORDER[0], SAME, strict=True)), False),
    ],
)
def test_a_run_of_one_process_tells_a_place_from_a_small_data_set(
    found: Any, alone: dict[Any, int], repeats: bool
) -> None:
    told = found(*(worker(pid, SAME, keys=keys) for pid, keys in zip((A, B), IN_ORDER, strict=True)), alone=alone)
    assert reason(told) == (Repeats.NEXT_RECORD if repeats else None)


def at(*places: int) -> list[dict[str, int]]:
    return [{"1.index": place, "1.part": 500} for place in places]


COMES_ROUND = [1, 2, 3, 4] * 4


@pytest.mark.parametrize(
    ("first", "second", "told_reason"),
    [
        ({"contents": SAME, "cursor": at(4, 8)}, {"contents": SAME, "cursor": at(4, 8)}, Repeats.SAME_SAMPLES),
        # The number of the worker differs, and does nothing.
        (
            {"contents": SAME, "cursor": [{"1.worker": 0}] * 2},
            {"contents": SAME, "cursor": [{"1.worker": 1}] * 2},
            Repeats.SAME_SAMPLES,
        ),
        # Parts of a small data set that comes round: its own counter is elsewhere.
        ({"contents": SAME, "cursor": at(4, 8)}, {"contents": SAME, "cursor": at(504, 508)}, None),
        ({"contents": COMES_ROUND}, {"contents": COMES_ROUND}, None),
        ({"contents": OTHERS[0]}, {"contents": OTHERS[1]}, None),
        # It chose them by a generator of which each has a copy.
        (
            {"contents": SAME, "states": [[1, 1], [2, 1], [3, 1]]},
            {"contents": SAME, "states": [[1, 1], [2, 1], [3, 1]]},
            Repeats.SAME_NUMBERS,
        ),
        # A shuffle that all share, of which each takes its part.
        (
            {"contents": OTHERS[0], "states": [[1, 1], [2, 1], [3, 1]], "kept": OTHERS[0]},
            {"contents": OTHERS[1], "states": [[1, 1], [2, 1], [3, 1]], "kept": OTHERS[1]},
            None,
        ),
    ],
)
def test_workers_of_an_iterable_data_set_are_told_by_what_they_gave(
    found: Any, first: Any, second: Any, told_reason: Repeats | None
) -> None:
    told = found(worker(A, says=True, **first), worker(B, says=True, **second), iterable=True)
    assert reason(told) == told_reason


RANDOM = {A: [[1, 1], [2, 1], [3, 1]], B: [[11, 2], [12, 2], [13, 2]]}
LABELS = [0, 1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("says", "kept", "draws", "elsewhere", "shown"),
    [
        # Nothing is drawn: what differs was read elsewhere, whatever the code says.
        (False, None, False, False, True),
        # Other labels: not the same records.
        (False, (LABELS, LABELS[::-1]), True, False, True),
        # Augmentation may be all that differs.
        (False, None, True, False, False),
        (True, None, True, False, True),
        # The same labels in the same order.
        (True, (LABELS, LABELS), True, False, False),
        (True, (LABELS, LABELS), True, True, True),
    ],
)
def test_where_augmentation_hides_the_samples_the_labels_and_the_code_decide(
    found: Any, says: bool, kept: Any, draws: bool, elsewhere: bool, shown: bool
) -> None:
    told = found(
        *(
            worker(
                pid,
                own,
                says=says,
                kept=kept[pid - A] if kept else (),
                states=RANDOM[pid] if draws else (),
                cursor=at(504 if elsewhere and pid == B else 4, 508),
            )
            for pid, own in zip((A, B), OTHERS, strict=True)
        ),
        iterable=True,
    )
    assert reason(told) == (None if shown else Repeats.NOT_SHOWN)


DIFFERENT = [1, 2, 3, 4, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("first", "second", "draws", "hidden"),
    [
        ([5] * 8, [5] * 8, False, Hidden.ALL_EQUAL),
        (DIFFERENT, DIFFERENT, False, Hidden.FEW_DIFFERENT),
        (OTHERS[0], OTHERS[1], True, Hidden.AUGMENTED),
        (OTHERS[0], [], True, Hidden.FEW_GAVE),
    ],
)
def test_why_nothing_could_be_shown_is_told(
    found: Any, first: list[int], second: list[int], draws: bool, hidden: Hidden
) -> None:
    states = RANDOM if draws else {A: (), B: ()}
    told = found(worker(A, first, states=states[A]), worker(B, second, states=states[B]), iterable=True)
    assert told is not None and (told.reason, told.hidden) == (Repeats.NOT_SHOWN, hidden)
    assert repeated_from_json(json.loads(json.dumps(to_json(told)))) == told


@pytest.mark.parametrize("says", [True, False])
def test_one_worker_with_data_repeats_nothing_where_the_code_shares_out(found: Any, says: bool) -> None:
    told = found(worker(A, SAME, says=says), worker(B, [], says=says), iterable=True)
    assert reason(told) == (None if says else Repeats.NOT_SHOWN)


def test_workers_of_another_loader_are_not_compared(found: Any) -> None:
    assert found(worker(A, SAME, keys=SHUFFLED[0]), worker(99, SAME, keys=SHUFFLED[1])) is None


def test_one_process_alone_tells_its_samples_by_their_indices(tmp_path: Path) -> None:
    roles = some_roles(tmp_path, iterable=False, workers=1)
    facts = worker(A, SAME, keys=SHUFFLED[0])
    assert samples_alone(roles, facts) == dict(zip(SHUFFLED[0], SAME, strict=True))
    assert not was_compared(roles, facts)
    data = {"pass": 0, "order": 0, "contents": [5], "keys": [3]}
    main = [Fact(pid=roles.pid, t_s=0.0, name="reads", data=data)]
    assert samples_alone(some_roles(tmp_path / "main", iterable=False, workers=0), main) == {3: 5}
    two = some_roles(tmp_path / "two", iterable=False)
    assert samples_alone(two, facts) == {}
    assert was_compared(two, [*facts, *worker(B, SAME, keys=SHUFFLED[1])])


def test_what_other_versions_wrote_is_not_taken_for_numbers(tmp_path: Path) -> None:
    roles = some_roles(tmp_path, iterable=False)
    data = {"worker": "x", "order": -1, "states": {"a": [1], "b": "c"}, "contents": ["x"], "cursor": 3, "places": []}
    (told,) = reads_of(roles, [Fact(pid=A, t_s=0.0, name="reads", data=data)])
    assert (told.worker, told.start.contents, told.start.states, told.places) == (0, (None,), {}, {})


def test_few_different_values_are_soon_equal_by_chance() -> None:
    assert bits(8, [1, 1, 1]) == 0 and bits(3, []) == 0
    assert bits(8, [1, 2]) == pytest.approx(8) and bits(8, list(range(8))) == pytest.approx(24)
