"""What has to be set to launch a trial again."""

from __future__ import annotations

from collections.abc import Mapping

from vtune.analysis.comparable import turned_nothing
from vtune.domain.effects import Scalar
from vtune.domain.record import TrialRecord
from vtune.knobs.registry import KNOB_NAMES


def turned(record: TrialRecord) -> Mapping[str, Scalar]:
    """Older records do not say which of their settings were turned."""
    if record.asked is not None:
        return record.asked
    if turned_nothing(record):
        return {}
    return {name: value for name, value in record.settings.items() if name in KNOB_NAMES and value is not None}
