"""A proposal from a long journal: how long it takes, and what of it stays in memory. Bounds are three times what is
promised or more, for machines that are busy."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.choices import choose
from support.grown import grown
from support.simulated import SimulatedStudy, limited, simulated_experiment
from vtune.analysis.comparable import has_rate
from vtune.analysis.feasible import leaders
from vtune.analysis.model.fit import fit_model
from vtune.analysis.model.points import nearness, points_of
from vtune.analysis.model.setup import Base
from vtune.analysis.model.telling import MOST_SETTINGS, by_setup, telling
from vtune.config.plan_file import load_plan
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.machine import Machine
from vtune.domain.phases import AskedPhases
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal
from vtune.execution.engines.simulated.surfaces import SMALL_VOLUMES
from vtune.journal.journal import Journal
from vtune.journal.paths import StudyPaths
from vtune.journal.records import record_to_json
from vtune.journal.study import Study
from vtune.knobs.ways import current_settings
from vtune.one_core import on_one_core
from vtune.strategies.foresight import fitted
from vtune.strategies.known import Known
from vtune.strategies.phases import Phases
from vtune.strategies.search import Search

LIMITS = limited(ram=0.6, vram=0.95)
OURS = simulated_experiment(SMALL_VOLUMES, limits=LIMITS)
TURNED: Sequence[dict[str, Scalar]] = (
    {}, {"workers": 4}, {"workers": 12, "batch_size": 4}, {"batch_size": 64}, {"workers": 8, "prefetch_factor": 4},
    {"workers": 6, "batch_size": 2, "persistent_workers": True},
)  # fmt: skip
CANDIDATES: Sequence[dict[str, Scalar]] = [
    {"workers": workers, "batch_size": batch, "prefetch_factor": prefetch}
    for workers in range(1, 17)
    for batch in range(1, 17)
    for prefetch in (1, 2, 4)
]


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[TrialRecord], Machine]:
    study = SimulatedStudy(SMALL_VOLUMES, OURS, tmp_path_factory.mktemp("few"))
    records: list[TrialRecord] = []
    for settings in TURNED:
        reason = "made up" if settings else "the current settings"
        records.append(study.measure(Proposal(settings=settings, reason=reason, origin="search"), records))
    return records, study.machine


def seconds(act: Callable[[], Any]) -> float:
    """Of this process: others on the machine are not its fault."""
    begun_s = time.process_time()
    act()
    return time.process_time() - begun_s


def propose(records: Sequence[TrialRecord], machine: Machine, experiment: Experiment = OURS) -> None:
    """All that the next proposal of a search by the model rests on."""
    best = choose(records, limits=LIMITS, ram_total_bytes=machine.ram_bytes, cores=machine.cores)
    standing = leaders(records, LIMITS, machine.ram_bytes)
    known = Known(records, named=current_settings(experiment), ram_limit_bytes=None, leaders=standing)
    for settings in CANDIDATES[:20]:
        known.answer(settings, settings)
    model = fitted(records, machine)
    assert best.best is not None and model is not None and all(model.predict_all(CANDIDATES))
    assert Phases(AskedPhases(plan=load_plan("guided")), experiment, machine).propose(records) is not None


@pytest.mark.parametrize(("trials", "at_most_s"), [(300, 0.5), pytest.param(10_000, 2.0, marks=pytest.mark.slow)])
def test_a_proposal_does_not_wait_for_a_long_journal(
    few: tuple[list[TrialRecord], Machine], trials: int, at_most_s: float
) -> None:
    records, machine = grown(few[0], trials), few[1]
    with on_one_core():
        assert seconds(lambda: propose(records, machine)) < 3 * at_most_s


@pytest.mark.slow
@pytest.mark.parametrize(("trials", "at_most_s"), [(300, 0.5), pytest.param(10_000, 2.0, marks=pytest.mark.slow)])
def test_a_search_of_thousands_of_settings_does_not_wait_either(
    few: tuple[list[TrialRecord], Machine], trials: int, at_most_s: float
) -> None:
    experiment = simulated_experiment(SMALL_VOLUMES, limits=LIMITS, allow="DIFFERENT")
    search = Search(experiment=experiment, machine=few[1], trials=100_000)
    records = grown(few[0], trials)
    with on_one_core():
        assert seconds(lambda: search.propose(records)) < 3 * at_most_s
    assert search.propose(records) is not None and search.hunt(records).settings_in_all > 5000


@pytest.mark.slow
def test_a_long_journal_is_read_in_seconds_and_a_trials_number_in_less(
    few: tuple[list[TrialRecord], Machine], tmp_path: Path
) -> None:
    study = Study(StudyPaths(tmp_path))
    records = grown(few[0], 10_000)
    write(tmp_path / "journal.jsonl", records)
    assert seconds(lambda: study.journal.read()) < 3 * 3.0
    assert seconds(lambda: study.next_trial()) < 3 * 0.3
    assert study.next_trial() == 10_001


def write(path: Path, records: Sequence[TrialRecord]) -> None:
    """Without a sync for each."""
    path.write_text("".join(json.dumps(record_to_json(record)) + "\n" for record in records))


def test_what_is_written_at_length_is_read_back(few: tuple[list[TrialRecord], Machine], tmp_path: Path) -> None:
    records = grown(few[0], 40)
    write(tmp_path / "journal.jsonl", records)
    assert Journal(tmp_path / "journal.jsonl").read() == records


@pytest.mark.slow
def test_proposals_one_after_the_other_hold_no_more_memory(few: tuple[list[TrialRecord], Machine]) -> None:
    """Each rests on one trial more, and so on a model of its own."""
    records, machine = grown(few[0], 1220), few[1]
    held = []
    tracemalloc.start()
    try:
        for count in range(1200, 1220):
            model = fitted(records[:count], machine)
            assert model is not None
            model.predict_all(CANDIDATES[:100])
            held.append(tracemalloc.get_traced_memory()[0] / 2**20)
    finally:
        tracemalloc.stop()
    # Two models stay; which settings are the most telling changes a little.
    assert max(held[10:]) < 1.1 * max(held[2:10]) and held[-1] < 40


def test_of_many_settings_the_users_own_the_fastest_and_the_latest_stay(
    few: tuple[list[TrialRecord], Machine],
) -> None:
    records = grown(few[0], 700)
    base = Base(records)
    groups = by_setup((one, setup) for one in records if has_rate(one) and (setup := base.setup_of(one)) is not None)
    own = base.setup_of(records[0])
    kept = telling(groups, own)
    assert len(groups) > 500 and len(kept) == MOST_SETTINGS and list(kept) == [one for one in groups if one in kept]
    fastest = max(groups, key=lambda one: groups[one][0].measurement.samples_per_s or 0.0)
    assert own in kept and {fastest, list(groups)[-1]} <= kept.keys()
    # What went lies near to something that stayed.
    regimes = tuple(dict.fromkeys(one.regime for one in groups))
    gone = points_of([one for one in groups if one not in kept], regimes)
    assert nearness(gone, points_of(kept, regimes)).settings.max(axis=1).min() > 0.7
    assert telling({one: groups[one] for one in kept}, own) == kept


def test_the_same_journal_makes_the_same_model_again(few: tuple[list[TrialRecord], Machine]) -> None:
    records = grown(few[0], 500)
    shuffled = CANDIDATES[:50]
    random.Random(1).shuffle(records)
    found = [fit_model(records, cores=12) for _ in range(2)]
    assert found[0] is not None and found[1] is not None
    assert found[0].predict_all(shuffled) == found[1].predict_all(shuffled)
