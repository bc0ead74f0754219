"""Optuna's samplers asked from a history: what they may propose, what they learn from, what they leave alone."""

from __future__ import annotations

import itertools
import json
import logging
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from vtune.domain.effects import Scalar
from vtune.domain.search import Dimension, Sampler, Space
from vtune.strategies.optuna_samplers import Told, next_settings, optuna_importance

Settings = Mapping[str, Scalar]

OWN: Settings = {
    "workers": 2, "prefetch_factor": 2, "persistent_workers": False, "batch_size": 2, "accumulate_steps": 4
}  # fmt: skip
NEED_WORKERS = ("prefetch_factor", "persistent_workers")
DIMENSIONS = (
    Dimension(name="workers", choices=tuple({"workers": value} for value in (0, 1, 2, 3, 4, 6, 8, 12))),
    Dimension(
        name="prefetch_factor",
        choices=tuple({"prefetch_factor": value} for value in (1, 2, 4, 8)),
        needs_workers=True,
    ),
    Dimension(
        name="persistent_workers",
        choices=({"persistent_workers": False}, {"persistent_workers": True}),
        needs_workers=True,
    ),
    Dimension(
        name="batch_size",
        choices=tuple({"batch_size": size, "accumulate_steps": 8 // size} for size in (1, 2, 4, 8)),
    ),
)
QUICK: tuple[Sampler, ...] = ("tpe", "random", "grid")
quick_samplers = pytest.mark.parametrize("sampler", QUICK)
# A Gaussian process imports torch for each answer.
every_sampler = pytest.mark.parametrize("sampler", [*QUICK, pytest.param("gp", marks=pytest.mark.slow)])


def space_of(dimensions: Sequence[Dimension] = DIMENSIONS, own: Settings = OWN) -> Space:
    """As a search has it: what is set anyway is not named, nor what only workers could use where there are none."""
    found: dict[tuple[tuple[str, Scalar], ...], Settings] = {}
    for chosen in [(), *itertools.product(*(one.choices for one in dimensions))]:
        whole = in_full({name: value for choice in chosen for name, value in choice.items()}, own)
        found.setdefault(
            tuple(sorted(whole.items())), {name: value for name, value in whole.items() if own[name] != value}
        )
    return Space(dimensions=tuple(dimensions), settings=tuple(found.values()))


def in_full(settings: Settings, own: Settings = OWN) -> dict[str, Scalar]:
    full = {**own, **settings}
    if full["workers"] == 0:
        full = {name: value for name, value in full.items() if name not in NEED_WORKERS}
    return full


SPACE = space_of()
NARROW = space_of((DIMENSIONS[0], DIMENSIONS[1]), {"workers": 2, "prefetch_factor": 2})


def measured(settings: Settings) -> Told:
    """Loading that workers share out, up to what the training takes; much of it in flight needs too much memory."""
    full = in_full(settings)
    workers, batch = int(full["workers"] or 0), int(full["batch_size"] or 0)
    if batch == 8:
        return Told(settings=settings, samples_per_s=None, over=1.0)
    needs = workers * int(full.get("prefetch_factor") or 1) * batch + 4
    loading = 3.0 * (workers or 0.6) * (1.1 if full.get("persistent_workers") else 1.0)
    rate = (loading**-6 + (18 * batch**0.35) ** -6) ** (-1 / 6)
    return Told(settings=settings, samples_per_s=rate, over=math.log(needs / 64))


def hunted(sampler: Sampler, trials: int, *, seed: int = 0, space: Space = SPACE) -> list[Told]:
    told: list[Told] = []
    for _ in range(trials):
        settings = next_settings(sampler, space, told, candidates=space.settings, seed=seed)
        assert settings is not None
        told.append(measured(settings))
    return told


def shown(settings: Settings) -> str:
    return json.dumps(dict(sorted(settings.items())))


@quick_samplers
def test_it_proposes_every_candidate_once_and_then_none(sampler: Sampler) -> None:
    told: list[Told] = []
    while (settings := next_settings(sampler, NARROW, told, candidates=NARROW.settings, seed=3)) is not None:
        assert settings in NARROW.settings
        told.append(Told(settings=settings, samples_per_s=10.0 + len(told) % 7))
        assert len(told) <= len(NARROW.settings)
    assert {shown(one.settings) for one in told} == {shown(one) for one in NARROW.settings}


@pytest.mark.slow
def test_the_gaussian_process_goes_on_to_the_last_candidate() -> None:
    left = list(NARROW.settings[-2:])
    told = [Told(settings=one, samples_per_s=10.0 + at % 7) for at, one in enumerate(NARROW.settings[:-2])]
    while (settings := next_settings("gp", NARROW, told, candidates=NARROW.settings)) is not None:
        left.remove(settings)
        told.append(Told(settings=settings, samples_per_s=9.0))
    assert left == []


@every_sampler
def test_only_candidates_are_proposed(sampler: Sampler) -> None:
    few = [one for one in SPACE.settings if one.get("workers") == 12 and one.get("batch_size") == 1]
    told = [measured(one) for one in SPACE.settings[:12] if one not in few]
    assert next_settings(sampler, SPACE, told, candidates=few) in few


@every_sampler
def test_nothing_is_left_where_all_candidates_were_told(sampler: Sampler) -> None:
    told = [measured(one) for one in SPACE.settings[:4]]
    assert next_settings(sampler, SPACE, told, candidates=SPACE.settings[:4]) is None
    assert next_settings(sampler, SPACE, told, candidates=[]) is None


@every_sampler
def test_what_was_told_in_other_words_is_not_proposed_again(sampler: Sampler) -> None:
    """The user's own values named, prefetching without workers, a knob that the space does not turn."""
    candidates = [{}, {"workers": 0}, {"workers": 8}, {"workers": 1}]
    told = [
        Told(settings={**OWN, "precision": "fp32"}, samples_per_s=5.0),
        Told(settings={"workers": 0, "prefetch_factor": 8}, samples_per_s=2.0),
        Told(settings={"workers": 8, "accumulate_steps": 4}, samples_per_s=9.0),
    ]
    assert next_settings(sampler, SPACE, told, candidates=candidates) == {"workers": 1}


@every_sampler
def test_trials_outside_of_the_space_do_no_harm(sampler: Sampler) -> None:
    told = [Told(settings={"workers": 5}, samples_per_s=99.0), *(measured(one) for one in SPACE.settings[:8])]
    assert next_settings(sampler, SPACE, told, candidates=SPACE.settings) in SPACE.settings[8:]


def test_settings_that_are_not_of_the_space_are_no_candidates() -> None:
    with pytest.raises(ValueError, match="workers"):
        next_settings("tpe", SPACE, [], candidates=[{"workers": 5}])


@quick_samplers
def test_without_workers_nothing_is_proposed_that_only_workers_could_use(sampler: Sampler) -> None:
    told = hunted(sampler, 60)
    without = [one.settings for one in told if one.settings.get("workers") == 0]
    assert without
    assert not any(name in settings for settings in without for name in NEED_WORKERS)


PROGRAM = """
import importlib, json, sys
folder, samplers, seed, first = sys.argv[1:]
sys.path.insert(0, folder)
if first:
    importlib.import_module(first)
from test_optuna_samplers import SPACE, measured, next_settings
told = [measured(one) for one in SPACE.settings[::9]]
for sampler in samplers.split(","):
    print(json.dumps(next_settings(sampler, SPACE, told, candidates=SPACE.settings, seed=int(seed))))
print("LOADED", *sorted({name.partition(".")[0] for name in sys.modules}))
"""


def elsewhere(
    *samplers: Sampler, seed: int = 0, first: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """The same question to another process, which imports something `first`."""
    folder = os.path.dirname(__file__)
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, folder, ",".join(samplers), str(seed), first],
        capture_output=True, text=True, timeout=100, env={**os.environ, **environment},
    )  # fmt: skip


def answers_and_loaded(done: subprocess.CompletedProcess[str]) -> tuple[list[Settings], set[str]]:
    assert done.returncode == 0, done.stderr
    *answers, loaded = done.stdout.splitlines()
    return [json.loads(one) for one in answers], set(loaded.split()[1:])


def test_the_same_history_has_the_same_answer_in_any_process() -> None:
    told = [measured(one) for one in SPACE.settings[::9]]
    here = [next_settings(one, SPACE, told, candidates=SPACE.settings, seed=5) for one in QUICK]
    for hash_seed in ("1", "2"):
        assert here == answers_and_loaded(elsewhere(*QUICK, seed=5, PYTHONHASHSEED=hash_seed))[0]


@pytest.mark.parametrize(
    ("samplers", "never"), [(("random", "grid"), {"optuna", "torch"}), (("tpe",), {"torch"})], ids=["ours", "tpe"]
)
def test_a_sampler_loads_only_what_it_needs(samplers: tuple[Sampler, ...], never: set[str]) -> None:
    _, loaded = answers_and_loaded(elsewhere(*samplers))
    assert "vtune" in loaded
    assert not loaded & never


@pytest.mark.slow
def test_a_gaussian_process_never_loads_torch_here_and_answers_as_where_it_is_loaded() -> None:
    pytest.importorskip("torch")
    answers, loaded = answers_and_loaded(elsewhere("gp", PYTHONHASHSEED="1"))
    assert "torch" not in loaded
    beside_torch, loaded = answers_and_loaded(elsewhere("gp", first="torch", PYTHONHASHSEED="2"))
    assert "torch" in loaded
    assert answers == beside_torch


def test_a_gaussian_process_that_has_no_torch_says_so(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so: cannot open')")
    done = elsewhere("gp", PYTHONPATH=str(tmp_path))
    last = done.stderr.strip().rpartition("\n")[2]
    assert "MachineError: Optuna's Gaussian process could not be asked" in last and "cannot open" in last


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_another_seed_is_another_search(sampler: Sampler) -> None:
    assert [one.settings for one in hunted(sampler, 8)] != [one.settings for one in hunted(sampler, 8, seed=1)]


def test_a_grid_is_the_same_whatever_the_seed_and_the_results() -> None:
    first = [one.settings for one in hunted("grid", 12)]
    told: list[Told] = []
    for expected in first:
        assert next_settings("grid", SPACE, told, candidates=SPACE.settings, seed=9) == expected
        told.append(Told(settings=expected, samples_per_s=None, over=1.0))


def test_the_beginning_of_a_grid_covers_the_whole_space() -> None:
    seen = [in_full(one.settings) for one in hunted("grid", 16)]
    for name in ("workers", "batch_size", "prefetch_factor"):
        values = {choice[name] for one in DIMENSIONS for choice in one.choices if name in choice}
        assert {one[name] for one in seen if name in one} == values


def test_trials_over_a_limit_steer_away_from_where_they_were() -> None:
    """The fastest of all, were it not for the memory."""

    def of(settings: Settings, *, limit: int) -> Told:
        workers = int(in_full(settings)["workers"] or 0)
        return Told(settings=settings, samples_per_s=1.0 + workers, over=math.log((1 + workers) / (1 + limit)))

    def proposed(limit: int) -> list[int]:
        found = []
        for seed in range(12):
            told = [of(one, limit=limit) for one in SPACE.settings[::6]]
            settings = next_settings("tpe", SPACE, told, candidates=SPACE.settings, seed=seed)
            assert settings is not None
            found.append(int(in_full(settings)["workers"] or 0))
        return found

    assert sum(one > 4 for one in proposed(12)) > 6 > 3 > sum(one > 4 for one in proposed(4))


def test_failed_trials_teach_where_not_to_go() -> None:
    def told(failing: int) -> list[Told]:
        return [
            Told(settings=one, samples_per_s=None if in_full(one)["batch_size"] == failing else 10.0 + at % 3)
            for at, one in enumerate(SPACE.settings[::5])
        ]

    for failing in (1, 2):
        proposals = [
            next_settings("tpe", SPACE, told(failing), candidates=SPACE.settings, seed=seed) for seed in range(24)
        ]
        # By chance a quarter of them.
        assert sum(in_full(one or {})["batch_size"] == failing for one in proposals) <= 2


@every_sampler
def test_it_goes_on_where_everything_failed(sampler: Sampler) -> None:
    told = [Told(settings=one, samples_per_s=None, over=1.0) for one in SPACE.settings[:9]]
    assert next_settings(sampler, SPACE, told, candidates=SPACE.settings) in SPACE.settings[9:]


def test_tpe_finds_better_settings_than_chance_does() -> None:
    def best(sampler: Sampler, seed: int) -> float:
        return max(one.samples_per_s or 0.0 for one in hunted(sampler, 20, seed=seed) if one.over <= 0)

    seeds = range(6)
    assert sum(best("tpe", seed) for seed in seeds) > sum(best("random", seed) for seed in seeds)


def test_the_users_own_log_level_and_warnings_stay_as_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(logging.DEBUG)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            hunted("tpe", 12)
            filters = list(warnings.filters)
            optuna_importance(SPACE, hunted("random", 12))
            assert warnings.filters == filters
        assert caught == []
        assert optuna.logging.get_verbosity() == logging.DEBUG
    finally:
        optuna.logging.set_verbosity(before)
    assert capfd.readouterr() == ("", "")


def test_the_knob_that_sets_the_best_apart_matters_most() -> None:
    told = [
        Told(settings=one, samples_per_s=10.0 * int(in_full(one)["batch_size"] or 1)) for one in SPACE.settings[::4]
    ]
    shares = optuna_importance(SPACE, told)
    assert set(shares) == {one.name for one in DIMENSIONS}
    assert max(shares, key=lambda name: shares[name]) == "batch_size"
    assert sum(shares.values()) == pytest.approx(1.0)


def test_a_handful_of_trials_tells_of_no_importance() -> None:
    failed = [Told(settings=one, samples_per_s=None, over=1.0) for one in SPACE.settings[9:40]]
    assert optuna_importance(SPACE, [*(measured(one) for one in SPACE.settings[:9]), *failed]) == {}


def large() -> Space:
    choices = {"pin_memory": (False, True), "compile": (False, True), "interval": (1, 2, 4, 8, 16, 32, 64)}
    more = tuple(Dimension(name=name, choices=tuple({name: v} for v in values)) for name, values in choices.items())
    wide = Dimension(name="threads", choices=tuple({"threads": value} for value in range(1, 4)))
    return space_of(
        (*DIMENSIONS, *more, wide), {**OWN, "pin_memory": False, "compile": False, "interval": 4, "threads": 1}
    )


@pytest.mark.slow
def test_the_best_of_a_long_history_is_not_forgotten() -> None:
    space = large()
    best = [one for one in space.settings if in_full(one)["batch_size"] == 1][:60]
    others = [one for one in space.settings if in_full(one)["batch_size"] != 1][:3000]
    told = [Told(settings=one, samples_per_s=50.0) for one in best]
    told += [Told(settings=one, samples_per_s=10.0) for one in others]
    proposals = [next_settings("tpe", space, told, candidates=space.settings, seed=seed) for seed in range(4)]
    assert [in_full(one or {})["batch_size"] for one in proposals] == [1] * 4


@pytest.mark.slow
@quick_samplers
@pytest.mark.parametrize(("trials", "most_s"), [(300, 0.5), (10_000, 2.0)])
def test_a_long_history_is_answered_in_time(sampler: Sampler, trials: int, most_s: float) -> None:
    space = large()
    told = [measured(one) for one in space.settings[-trials:]]
    assert len(told) == trials
    next_settings(sampler, SPACE, [], candidates=SPACE.settings)
    began = time.process_time()
    assert next_settings(sampler, space, told, candidates=space.settings) is not None
    assert time.process_time() - began < most_s
