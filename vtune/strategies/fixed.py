"""The shortest strategy: one set of settings, measured once. `probe` is this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vtune.domain.effects import Scalar
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal
from vtune.strategies.known import last_trial


@dataclass(frozen=True, slots=True)
class Once:
    settings: Mapping[str, Scalar]
    # The last trial when the question was asked: an earlier answer to the same question is not today's.
    already: int = 0
    origin: str = "probe"

    def propose(self, history: Sequence[TrialRecord]) -> Proposal | None:
        if last_trial(history) > self.already:
            return None
        asked = ", ".join(f"{name}={str(value).lower()}" for name, value in self.settings.items())
        return Proposal(
            settings=self.settings, reason=f"asked for {asked}" if asked else "the current settings", origin=self.origin
        )
