"""Which trial of a journal answers a question: the same settings are not measured twice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

from vtune.analysis.comparable import contradicting, failed_after, full_run, has_rate, measured_enough
from vtune.analysis.rungs import OUT_OF_MEMORY
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Limit
from vtune.domain.record import Cache, TrialRecord
from vtune.domain.trial import TrialStatus, tunes
from vtune.journal.ignored_flags import learnt_another_way
from vtune.strategies.turned import turned

# A limit that was typed once more as a share of the machine may come to some bytes less.
SAME_LIMIT = 0.999


def last_trial(history: Sequence[TrialRecord]) -> int:
    return max((one.trial for one in history), default=0)


class Known:
    """`named` is what the training's config or command says of its knobs, `already` the last trial before this call."""

    def __init__(
        self,
        history: Sequence[TrialRecord],
        *,
        named: Mapping[str, Scalar],
        ram_limit_bytes: int | None,
        vram_limit: Limit | None = None,
        already: int = 0,
        leaders: Collection[int] = (),
        anyway: bool = False,
    ) -> None:
        """`leaders`: trials that a run can be made with. What was ended early for one of them is answered; for
        anybody else its settings are open. `anyway`: a trial that this call ran on a busy machine answers as well, and
        decides nothing; without it such a trial is run again."""
        # What was interrupted is measured again; and what was refused for the room that there was then is asked for by
        # the next call, which launches nothing where there is no more by now.
        self.told = [
            one
            for one in history
            if one.status is not TrialStatus.INTERRUPTED
            and not (one.status is TrialStatus.REFUSED and one.trial <= already)
            and not (one.on_busy_machine and (one.trial <= already or not anyway))
        ]
        # What was fed from memory is no run, and a full run is no trial; both say much of the training.
        self.records = [one for one in self.told if one.measurement.ceiling is None and not full_run(one)]
        self._interrupted = [one for one in history if one.status is TrialStatus.INTERRUPTED]
        self._named, self._already, self._leaders = named, already, frozenset(leaders)
        self._ram_limit, self._vram_limit = ram_limit_bytes, vram_limit
        # Asked for again and again, and the journal may be long.
        self._turned = [self._changes(turned(one)) for one in self.records]

    def answer(
        self, wanted: Mapping[str, Scalar], effective: Mapping[str, Scalar] | None = None, *, mended: bool = False
    ) -> TrialRecord | None:
        """The first trial that was asked for this, or ran with it; `effective` is what these settings come to. What
        failed and ran afterwards runs; what ran and failed afterwards, in a longer launch or a race, has failed.
        `mended`: what failed by itself before this call may be no more what fails now."""
        found = self.launches(wanted, effective)
        if mended:
            found = [one for one in found if one.trial > self._already or not _failed_by_itself(one)]
        ran = next((one for one in found if one.status is TrialStatus.COMPLETED), None)
        if ran is None:
            return found[0] if found else None
        died = failed_after(found, ran.trial) if self._changes(wanted) else None
        return died or ran

    def answer_read(
        self, wanted: Mapping[str, Scalar], effective: Mapping[str, Scalar], *, cache: Cache, after: int
    ) -> TrialRecord | None:
        """The first that read its data like this, or was launched after that trial in order to."""
        found = self.launches(wanted, effective)
        return next((one for one in found if one.measurement.cache == cache or one.trial > after), None)

    def answer_lasting(
        self, wanted: Mapping[str, Scalar], effective: Mapping[str, Scalar] | None, *, after: int
    ) -> TrialRecord | None:
        """The first whose rate lasts, or that was launched after that trial in order to."""
        found = self.launches(wanted, effective)
        lasts = (one for one in found if has_rate(one) and not one.measurement.fed_from_stock)
        return next(lasts, None) or next((one for one in found if one.trial > after), None)

    def launches(self, wanted: Mapping[str, Scalar], effective: Mapping[str, Scalar] | None) -> list[TrialRecord]:
        asked = self._changes(wanted)
        return [
            one
            for one, changes in zip(self.records, self._turned, strict=True)
            if (changes == asked or (effective is not None and _ran_with(one, asked, effective))) and self._counts(one)
        ]

    def interrupted(self, wanted: Mapping[str, Scalar], origin: str) -> TrialRecord | None:
        """The latest trial for this very question that was cut short."""
        asked = self._changes(wanted)
        alike = (one for one in self._interrupted if one.origin == origin and self._changes(turned(one)) == asked)
        return max(alike, key=lambda one: one.trial, default=None)

    @cached_property
    def answers(self) -> list[TrialRecord]:
        """All that answer a question at all."""
        return [one for one in self.records if self._counts(one)]

    def until(self, trial: int) -> list[TrialRecord]:
        """All that was known when this trial had ended."""
        return [one for one in self.told if one.trial <= trial]

    def _changes(self, asked: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Setting what is set already changes nothing."""
        return {name: value for name, value in asked.items() if name not in self._named or self._named[name] != value}

    def _counts(self, record: TrialRecord) -> bool:
        if record.beaten is not None:
            return record.beaten.trial in self._leaders
        if record.filled_its_disk and not has_rate(record):
            # It says nothing of its settings. The next call may allow more disk space; this one asks once.
            return record.trial > self._already
        if record.status is TrialStatus.COMPLETED:
            lasting = has_rate(record) and measured_enough(record) and not record.measurement.fed_from_stock
            # A second one of a walk's own would come to no more steps.
            return lasting or tunes(record.origin)
        if record.status is TrialStatus.INVALID:
            return not learnt_another_way(record)
        if record.status is TrialStatus.OUT_OF_VRAM:
            return not self._would_have_more_vram(record)
        return not (record.status is TrialStatus.OUT_OF_RAM and self._would_have_more_ram(record))

    def _would_have_more_ram(self, record: TrialRecord) -> bool:
        """It was ended for a limit that was lower than it is now."""
        guard = record.evidence.get("ram_guard")
        if not isinstance(guard, Mapping) or guard.get("is_default"):
            return False
        then = guard.get("limit_bytes")
        return isinstance(then, int) and (self._ram_limit is None or then < SAME_LIMIT * self._ram_limit)

    def _would_have_more_vram(self, record: TrialRecord) -> bool:
        """The same of its device; where that itself was full, no limit is in the record."""
        guard = record.evidence.get("vram_guard")
        if not isinstance(guard, Mapping):
            return False
        then, device = guard.get("limit_bytes"), guard.get("device_bytes")
        if not isinstance(then, int) or not isinstance(device, int):
            return False
        now = self._vram_limit.resolve(device) if self._vram_limit is not None else device
        return now is not None and then < SAME_LIMIT * now


def _failed_by_itself(record: TrialRecord) -> bool:
    return record.status is not TrialStatus.COMPLETED and record.status not in OUT_OF_MEMORY


def _ran_with(record: TrialRecord, asked: Mapping[str, Scalar], effective: Mapping[str, Scalar]) -> bool:
    """It shows all that is asked for, and turned nothing else."""
    return (
        has_rate(record)
        and all(record.settings.get(name) == value for name, value in asked.items())
        and all(effective.get(name) == value for name, value in turned(record).items())
        and not contradicting(record.settings, effective)
    )
