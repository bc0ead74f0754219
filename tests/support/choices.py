"""The choice of a study, whose knobs are vtune's where the test names none of the user's own."""

from collections.abc import Sequence
from typing import Any

from vtune.analysis import choose as by_records
from vtune.domain.choice import Choice
from vtune.domain.experiment import KnobBinding
from vtune.domain.record import TrialRecord
from vtune.knobs.registry import same_knobs


def choose(records: Sequence[TrialRecord], *, knobs: Sequence[KnobBinding] = (), **fields: Any) -> Choice:
    return by_records.choose(records, same=same_knobs(knobs), **fields)
