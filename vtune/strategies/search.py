"""A joint search as a strategy: each trial is the best that can be asked next, by all that the journal knows. The same
journal comes to the same place: nothing else is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vtune.domain.record import TrialRecord
from vtune.domain.search import Hunt
from vtune.domain.trial import Proposal
from vtune.strategies.search_asked import Asked
from vtune.strategies.search_look import Look


class Search(Asked):
    __slots__ = ()

    def propose(self, history: Sequence[TrialRecord]) -> Proposal | None:
        return self.hunt(history).proposal

    def hunt(self, history: Sequence[TrialRecord]) -> Hunt:
        hunt = Look(self, [one for one in history if one.trial not in self.left_out]).hunt()
        return replace(hunt, left_out=tuple(sorted(self.left_out)))
