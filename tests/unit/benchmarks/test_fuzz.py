"""A part of the ten thousand hostile calls of benchmarks/fuzz: none may crash, hang, write or leave its user alone."""

from __future__ import annotations

import pytest

from fuzz.calls import KINDS
from fuzz.judge import judge

pytestmark = pytest.mark.slow

# Of each kind: some 20 ms of processor time a call.
CALLS = 80
# Others than those that the benchmark begins with.
FIRST_SEED = 100_000


@pytest.mark.parametrize("kind", KINDS)
def test_no_hostile_input_is_answered_by_anything_but_a_result_or_an_error_with_a_hint(kind: str) -> None:
    judged = [judge(kind, FIRST_SEED + number) for number in range(CALLS)]
    assert [(one.seed, one.faults, one.words, one.said) for one in judged if one.faults] == []
    assert {one.code for one in judged} & {0, 2}
