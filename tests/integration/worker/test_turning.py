"""Loader options set from the spec in a training that does not know us."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def keys(learnt: Any) -> dict[str, str]:
    """Name in the script -> key. Loaders are iterated in the order of their names; the owner's inner one never."""
    names = list(outputs(learnt))
    keys = list(dict.fromkeys(fact["key"] for fact in learnt.facts("loader")))
    return dict(zip(names, keys, strict=True))


def outputs(run: Any) -> dict[str, str]:
    assert run.exit_code == 0, run.stderr
    return dict(line.split(" | ") for line in run.stdout.splitlines())


def effects(keys: dict[str, str], **options: Any) -> list[dict[str, Any]]:
    return [
        {"kind": "SetDataLoaderOption", "loader": key, "option": option, "value": value}
        for key in keys.values()
        for option, value in options.items()
    ]


def loader_facts(run: Any, keys: dict[str, str]) -> dict[str, Any]:
    names = {key: name for name, key in keys.items()}
    return {names[fact["key"]]: fact for fact in run.facts("loader")}


def test_settings_take_effect_where_they_can_and_reasons_are_given_where_not(train: Any, keys: dict[str, str]) -> None:
    asked = effects(keys, num_workers=2, prefetch_factor=6, batch_size=3)
    asked += [{"kind": "SetEnv", "name": "X", "value": "1"}, {**asked[0], "loader": "nobody.py:1:Data#0@00000000"}]
    run = train("many_loaders.py", effects=asked)
    two = "2 6 _MultiProcessingDataLoaderIter"
    none = "0 None _SingleProcessDataLoaderIter"
    assert outputs(run) == {
        "plain": f"[3, 3, 3, 3] {two}",
        "positional": f"[3, 3, 3, 3] {two}",
        "subclass": f"[3, 3, 3, 3] {two}",
        "batch sampler": f"[3, 3, 3, 3] {two}",
        "own batches": f"[4, 4, 4] {two}",
        "no batches": f"[4, 4, 4] {two}",
        "whole": f"{[3] * 8} {two}",
        "split": f"[3, 3, 3, 3] {two}",
        "owner": f"[4, 4, 4] {none}",
        "busy": f"[3, 3, 3, 3] {two}",
        "overridden": f"[3, 3, 3, 3] {two}",
    }
    facts = loader_facts(run, keys)
    assert facts["plain"]["asked"]["num_workers"] == 0
    assert facts["plain"]["turned"] == {"num_workers": 2, "prefetch_factor": 6, "batch_size": 3}
    assert facts["plain"]["effective"]["batch_size"] == 3
    assert facts["plain"]["left_alone"] == {}
    assert facts["own batches"]["left_alone"] == {"batch_size": "batches are made by its own sampler Pairs"}
    assert "batch_size=None" in facts["no batches"]["left_alone"]["batch_size"]
    # Each worker reads all of it: that is told by what they read.
    assert facts["whole"]["left_alone"] == {}
    workers = next(p["worker_pids"] for p in run.facts("pass") if p["loader"] == facts["whole"]["loader"])
    first, second = (
        [fact["contents"] for fact in run.facts("reads") if fact["in"] == pid and fact["order"] >= 0] for pid in workers
    )
    assert first == second and len(first) == 4
    assert set(facts["owner"]["left_alone"]) == {"num_workers", "prefetch_factor", "batch_size"}
    assert "owns a loader" in facts["owner"]["left_alone"]["batch_size"]
    assert run.facts("problem") == []
    assert run.stderr == ""


def test_going_to_no_workers_clears_what_needs_workers(train: Any, keys: dict[str, str]) -> None:
    run = train("many_loaders.py", effects=effects(keys, num_workers=0, persistent_workers=True))
    assert {text.split("] ")[1] for text in outputs(run).values()} == {"0 None _SingleProcessDataLoaderIter"}
    facts = loader_facts(run, keys)
    assert facts["busy"]["turned"] == {"num_workers": 0}
    assert facts["busy"]["effective"]["persistent_workers"] is False
    assert facts["busy"]["left_alone"] == {"persistent_workers": "the loader has no workers"}


@pytest.mark.slow
def test_persistent_workers_and_pinning_are_turned(train: Any, keys: dict[str, str]) -> None:
    only = {name: keys[name] for name in ("positional", "busy")}
    run = train("many_loaders.py", effects=effects(only, persistent_workers=True, pin_memory=True))
    facts = loader_facts(run, keys)
    assert facts["positional"]["turned"] == {"persistent_workers": True, "pin_memory": True}
    assert facts["plain"]["turned"] == {}
    passes = [p for p in run.facts("pass") if p["loader"] == facts["positional"]["loader"]]
    assert [p["resume"] for p in passes] == [0, 1]


@pytest.mark.slow
def test_a_spec_that_cannot_be_read_turns_nothing_and_says_so(start: Any) -> None:
    run = start("many_loaders.py", effects=[{"kind": "SetDataLoaderOption"}]).wait()
    assert run.exit_code == 0
    assert "spec.json" in run.facts("problem")[0]["text"]
