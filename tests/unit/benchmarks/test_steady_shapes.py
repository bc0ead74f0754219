"""A few windows of the benchmark of shapes: none is called steady and off, and honest ones still are."""

from __future__ import annotations

from typing import Any

import pytest

from support.cli import ROOT

pytestmark = pytest.mark.slow

SEEDS = range(2)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, dict[str, Any]]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "steady"))
    import steady_runs
    from steady_shapes import SHAPES

    return steady_runs, {shape.name: shape.surface for shape in SHAPES}


@pytest.mark.parametrize(
    "name",
    [
        "compute-bound",
        "data-bound by its cores",
        "a machine that slows by 20 % in two minutes",
        "a pause of 3 s, by chance one step in 150",
        "steps that follow each other, 0.98",
        "a first epoch that caches",
    ],
)
def test_what_is_called_steady_is_the_rate_of_a_long_run(bench: tuple[Any, dict[str, Any]], name: str) -> None:
    runs, surfaces = bench
    surface = surfaces[name]
    rows = [runs.one_window(surface, seed, runs.PRECISE) for seed in SEEDS]
    steady = [row for row in rows if row.steady]
    truth = runs.true_rate(surface, 4000) if steady else 1.0
    assert all(abs(row.samples_per_s / truth - 1) < 0.10 for row in steady)
    assert all(row.steady or row.doubts for row in rows)
    plain = name in ("compute-bound", "data-bound by its cores")
    assert len(steady) >= len(rows) - 1 if plain else len(steady) <= 1


def test_a_probes_window_is_too_short_for_the_word_and_calm(bench: tuple[Any, dict[str, Any]]) -> None:
    from vtune.analysis.doubts import is_calm

    runs, surfaces = bench
    found = runs.one_window(surfaces["compute-bound"], 1, runs.PROBE)
    assert not found.steady and is_calm(found)
