"""One run of one search: after each trial, what a user would be told is best, and what that is worth in truth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from search.bank import Bank
from search.searchers import TRIALS, searcher
from search.trainings import Asked, Training
from search.true import Truths
from vtune.analysis.choose import choose
from vtune.analysis.comparable import has_rate
from vtune.analysis.fit import excess_of
from vtune.domain.record import TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.execution.engines.simulated.engine import BETWEEN_TRIALS_S
from vtune.execution.engines.simulated.surface import settings_of
from vtune.knobs.registry import same_knobs
from vtune.strategies.foresight import fitted
from vtune.strategies.turned import turned

OUT_OF = (TrialStatus.OUT_OF_VRAM, TrialStatus.OUT_OF_RAM, TrialStatus.OUT_OF_SHM)


@dataclass(frozen=True, kw_only=True)
class Tried:
    """After a trial: simulated seconds since the search began, and what is left to the best of all that fit."""

    seconds: float
    # Of what a user would be told to run with; and of the best that was launched, had the truth been known.
    regret: float
    seen: float
    # In truth, or dead of it.
    over: bool
    # Told to be over a limit, or to pass it during the run, and in truth it never does.
    false_alarm: bool
    # Ended for want of memory, by itself or by vtune.
    out_of: bool
    # Over a limit, and vtune's model of the trials before it was sure of that.
    foreseen: bool
    asked: Asked


def tried(name: str, training: Training, seed: int, bank: Bank, truths: Truths) -> list[dict[str, Any]]:
    strategy = searcher(name, training, seed)
    history: list[TrialRecord] = []
    rows: list[Tried] = []
    launched: dict[Any, int] = {}
    seconds, seen = 0.0, 1.0
    while len(history) < TRIALS and (proposal := strategy.propose(history)) is not None:
        settings = settings_of(training.surface, proposal.settings)
        again = launched.get(settings, 0)
        launched[settings] = again + 1
        record = bank.launch(proposal, trial=len(history) + 1, seed=seed, again=again)
        died, fits = record.status in OUT_OF, truths.fits(truths.of(proposal.settings))
        over = died or not fits
        foreseen = over and _was_foreseen(proposal.settings, history, training)
        history.append(record)
        seconds += record.seconds + BETWEEN_TRIALS_S
        if has_rate(record):
            seen = min(seen, truths.regret(proposal.settings))
        rows.append(
            Tried(
                seconds=round(seconds, 1),
                regret=round(truths.regret(_told(history, training)), 5),
                seen=round(seen, 5),
                over=over,
                false_alarm=not over and bool(excess_of(record, training.limits, training.machine.ram_bytes)),
                out_of=died,
                foreseen=foreseen,
                asked=dict(proposal.settings),
            )
        )
    return [asdict(row) for row in rows]


def _told(history: list[TrialRecord], training: Training) -> Asked:
    """By the measured trials alone, without confirmations; the user's own settings where none of them fits."""
    machine = training.machine
    best = choose(
        history, same=same_knobs(()), limits=training.limits, ram_total_bytes=machine.ram_bytes, cores=machine.cores
    ).best
    return turned(best) if best is not None else {}


def _was_foreseen(asked: Asked, history: list[TrialRecord], training: Training) -> bool:
    model = fitted(history, training.machine)
    return model is not None and model.surely_too_big(asked, training.limits) is not None
