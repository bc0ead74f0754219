"""Settings as the model knows them: what the loader's schedule and the memory hang on, and a name for all the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vtune.analysis.comparable import has_rate, turned_nothing
from vtune.analysis.queues import USUAL_PREFETCH
from vtune.domain.effects import Scalar
from vtune.domain.record import TrialRecord

PHYSICAL = (
    "workers", "prefetch_factor", "batch_size", "accumulate_steps", "persistent_workers", "pin_memory", "in_order"
)  # fmt: skip
# What a training is beyond that: its precision, its filters. Trials of one tell nothing of the level of another.
Regime = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    workers: int
    prefetch: int
    batch: int
    accumulate: int
    persistent: bool
    pin: bool
    in_order: bool
    regime: Regime


class Base:
    """What the training runs with where nothing is turned, as far as the records tell."""

    def __init__(self, records: Sequence[TrialRecord]) -> None:
        told = [r for r in records if "workers" in r.measurement.effective_settings]
        own = next((r for r in told if turned_nothing(r)), None) or next((r for r in told if has_rate(r)), None)
        self.record = own
        self.settings: dict[str, Scalar] = {}
        self._regimes: dict[tuple[object, ...], Regime] = {}
        if own is None:
            return
        self.settings = {**own.settings, **own.measurement.effective_settings}
        measured = own.measurement
        ranks, batch = max(1, measured.ranks), self.settings.get("batch_size")
        a_step = measured.effective_batch or measured.samples_per_step
        if not isinstance(batch, int) and a_step:
            self.settings["batch_size"] = max(1, int(a_step // ranks))
        elif isinstance(batch, int) and a_step and "accumulate_steps" not in self.settings:
            self.settings["accumulate_steps"] = max(1, round(a_step / (ranks * batch)))
        for record in records:
            for name, value in record.settings.items():
                if record.asked is not None and name not in record.asked and name not in PHYSICAL:
                    self.settings.setdefault(name, value)

    def setup(self, turned: Mapping[str, Scalar]) -> Setup | None:
        """None where it is not known how many workers or samples a batch has."""
        own = self.settings

        def of(name: str) -> Scalar:
            value = turned.get(name)
            return own.get(name) if value is None else value

        workers, batch = of("workers"), of("batch_size")
        if not isinstance(workers, int) or not isinstance(batch, int) or workers < 0 or batch < 1:
            return None
        prefetch, accumulate = of("prefetch_factor"), of("accumulate_steps")
        return Setup(
            workers=workers,
            prefetch=max(1, prefetch) if isinstance(prefetch, int) and workers else USUAL_PREFETCH,
            batch=batch,
            accumulate=max(1, accumulate) if isinstance(accumulate, int) else 1,
            persistent=bool(of("persistent_workers")) and workers > 0,
            pin=bool(of("pin_memory")),
            in_order=of("in_order") is not False,
            regime=self._regime(turned),
        )

    def _regime(self, turned: Mapping[str, Scalar]) -> Regime:
        """Of tens of thousands of settings that a search looks at, few differ in it."""
        others = tuple(one for one in turned.items() if one[0] not in PHYSICAL and one[1] is not None)
        # 1, 1.0 and True are one key.
        key = tuple((name, type(value), value) for name, value in others)
        if key not in self._regimes:
            full = {name: value for name, value in self.settings.items() if name not in PHYSICAL and value is not None}
            self._regimes[key] = tuple(sorted((name, repr(value)) for name, value in {**full, **dict(others)}.items()))
        return self._regimes[key]

    def setup_of(self, record: TrialRecord) -> Setup | None:
        return self.setup({**record.settings, **record.measurement.effective_settings})
