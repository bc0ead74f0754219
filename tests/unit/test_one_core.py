"""vtune's own linear algebra leaves the other cores to the training, and the library as it was."""

import os

import scipy.linalg  # noqa: F401

from vtune.one_core import _libraries, _switch, on_one_core


def counts() -> list[int]:
    return [threads() for threads, _ in map(_switch, _libraries()) if threads is not None]


def test_inside_it_is_one_and_afterwards_what_it_was() -> None:
    before = counts()
    assert before, "numpy's wheels bring OpenBLAS"
    with on_one_core():
        assert set(counts()) == {1}
        with on_one_core():
            assert set(counts()) == {1}
        assert set(counts()) == {1}
    assert counts() == before


def test_trainings_that_are_started_meanwhile_know_nothing_of_it() -> None:
    before = dict(os.environ)
    with on_one_core():
        assert dict(os.environ) == before
