"""Which trial of a journal answers a question: the same settings are not measured twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vtune.analysis.comparable import FATAL, contradicting, has_rate, measured_enough
from vtune.domain.effects import Scalar
from vtune.domain.record import Cache, TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.journal.ignored_flags import learnt_another_way
from vtune.strategies.race_plan import turned

# A limit that was typed once more as a share of the machine may come to some bytes less.
SAME_LIMIT = 0.999
OWN_ORIGINS = ("phase:", "confirm")


class Known:
    """`named` is what the training's config or command says of its knobs."""

    def __init__(
        self,
        history: Sequence[TrialRecord],
        *,
        named: Mapping[str, Scalar],
        ram_limit_bytes: int | None,
    ) -> None:
        # What was interrupted is measured again.
        self._told = [one for one in history if one.status is not TrialStatus.INTERRUPTED]
        # What was fed from memory is no run, but says much of the training.
        self.records = [one for one in self._told if one.measurement.ceiling is None]
        self._named, self._ram_limit = named, ram_limit_bytes

    def answer(self, wanted: Mapping[str, Scalar], effective: Mapping[str, Scalar] | None = None) -> TrialRecord | None:
        """The first trial that was asked for this, or ran with it; `effective` is what these settings come to. What
        failed and ran afterwards runs; what ran and failed afterwards, in a longer launch or a race, has failed."""
        found = self.launches(wanted, effective)
        ran = next((one for one in found if one.status is TrialStatus.COMPLETED), None)
        if ran is None:
            return found[0] if found else None
        own = not self._changes(wanted)
        died = (one for one in found if one.trial > ran.trial and one.status in FATAL and not own)
        return next(died, ran)

    def answer_read(
        self, wanted: Mapping[str, Scalar], effective: Mapping[str, Scalar], *, cache: Cache, after: int
    ) -> TrialRecord | None:
        """The first that read its data like this, or was launched after that trial in order to."""
        found = self.launches(wanted, effective)
        return next((one for one in found if one.measurement.cache == cache or one.trial > after), None)

    def launches(self, wanted: Mapping[str, Scalar], effective: Mapping[str, Scalar] | None) -> list[TrialRecord]:
        asked = self._changes(wanted)
        return [
            one
            for one in self.records
            if (self._changes(turned(one)) == asked or (effective is not None and _ran_with(one, asked, effective)))
            and self._counts(one)
        ]

    def until(self, trial: int) -> list[TrialRecord]:
        """All that was known when this trial had ended."""
        return [one for one in self._told if one.trial <= trial]

    def _changes(self, asked: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Setting what is set already changes nothing."""
        return {name: value for name, value in asked.items() if name not in self._named or self._named[name] != value}

    def _counts(self, record: TrialRecord) -> bool:
        if record.status is TrialStatus.COMPLETED:
            lasting = has_rate(record) and measured_enough(record) and not record.measurement.fed_from_stock
            # A second one of a walk's own would come to no more steps.
            return lasting or record.origin.startswith(OWN_ORIGINS)
        if record.status is TrialStatus.INVALID:
            return not learnt_another_way(record)
        return not (record.status is TrialStatus.OUT_OF_RAM and self._would_have_more(record))

    def _would_have_more(self, record: TrialRecord) -> bool:
        """It was ended for a limit that was lower than it is now."""
        guard = record.evidence.get("ram_guard")
        if not isinstance(guard, Mapping) or guard.get("is_default") or self._ram_limit is None:
            return False
        then = guard.get("limit_bytes")
        return isinstance(then, int) and then < SAME_LIMIT * self._ram_limit


def _ran_with(record: TrialRecord, asked: Mapping[str, Scalar], effective: Mapping[str, Scalar]) -> bool:
    """It shows all that is asked for, and turned nothing else."""
    return (
        has_rate(record)
        and all(record.settings.get(name) == value for name, value in asked.items())
        and all(effective.get(name) == value for name, value in turned(record).items())
        and not contradicting(record.settings, effective)
    )
