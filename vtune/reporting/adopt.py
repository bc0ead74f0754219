"""How to adopt the chosen settings: a line to copy, flags for vtune, and where each setting stands in the training."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import assert_never

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.numbers import harmless, round_money, seconds, times
from vtune.domain.record import TrialRecord
from vtune.errors import UsageError
from vtune.knobs.registry import knob_named
from vtune.knobs.settings import check_value
from vtune.knobs.ways import NoWay, ThroughCommand, ThroughConfig, ThroughHook, way_of
from vtune.reporting.study_report import StudyReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    # workers=4 batch_size=2: 3.1× ± 0.2, saves 17 d / $1,500.00
    line: str
    # --set workers=4 --set batch_size=2; empty where no setting is one that vtune turns.
    flags: str
    # One line for each setting: where it stands.
    places: tuple[str, ...] = ()
    # Why it is not the same training, where it is not.
    another_training: tuple[str, ...] = ()


def how_to_adopt(report: StudyReport) -> Adoption | None:
    """None where there is nothing to adopt: nothing was shown to be better than what is there."""
    best, baseline = report.choice.best, report.choice.baseline
    turned = settings_to_adopt(report)
    if best is None or not turned:
        return None
    known = {name: value for name, value in turned.items() if _is_setting(name, value)}
    speedup = report.choice.speedup
    gain = [] if speedup is None else [times(speedup.value, speedup.ci95)]
    saved = saving(report)
    return Adoption(
        line=f"{settings_text(turned)}: {', '.join([*gain, *([saved] if saved else [])]) or 'not compared'}",
        flags=" ".join(f"--set {name}={_word(value)}" for name, value in known.items()),
        places=tuple(_place(name, value, report.experiment) for name, value in known.items()),
        another_training=tuple(_another_training(best, baseline)),
    )


def settings_to_adopt(report: StudyReport) -> dict[str, Scalar]:
    """What the best trial ran with and the baseline did not."""
    best, baseline = report.choice.best, report.choice.baseline
    if best is None or baseline is None or (best.trial == baseline.trial and report.choice.baseline_is_own):
        return {}
    if best.trial == baseline.trial:
        return dict(best.asked or {})
    before = baseline.settings
    return {
        name: value for name, value in best.settings.items() if value is not None and before.get(name, None) != value
    }


def saving(report: StudyReport) -> str | None:
    """Of the whole run, against the user's own settings and nothing else."""
    best, baseline = report.choice.best, report.choice.baseline
    if best is None or baseline is None or not report.choice.baseline_is_own or report.choice.speedup is None:
        return None
    then, now = baseline.measurement.projected, best.measurement.projected
    if then.run_s is None or now.run_s is None or now.run_s >= then.run_s:
        return None
    text = f"saves {seconds(then.run_s - now.run_s)}"
    if report.price is not None:
        text += f" / {round_money((then.run_s - now.run_s) / 3600 * report.price.per_hour, report.price)}"
    return text


def settings_text(settings: dict[str, Scalar]) -> str:
    return harmless(" ".join(f"{name}={_word(value)}" for name, value in settings.items()))


def _word(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else harmless(str(value), 40)


def _is_setting(name: str, value: Scalar) -> bool:
    """A journal is no authority on what may be pasted into a shell."""
    try:
        check_value(knob_named(name), value)
    except UsageError:
        return False
    return True


def _place(name: str, value: Scalar, experiment: Experiment | None) -> str:
    knob = knob_named(name)
    by_hand = (
        f"where the script makes its DataLoader: {knob.loader_option}={value}"
        if knob.loader_option is not None
        else "where the training sets it"
    )
    if experiment is None:
        return f"{name}: {by_hand} (the training's own config cannot be read here)"
    try:
        way = way_of(knob, experiment)
    except UsageError:
        return f"{name}: {by_hand}"
    match way:
        case ThroughConfig():
            path = experiment.workload.config_path
            return f"{name}: {path.name if path is not None else 'config'}: {'.'.join(way.path)}: {json.dumps(value)}"
        case ThroughCommand():
            return f"{name}: in the command: {way.flag.typed} {_word(value)}"
        case ThroughHook() | NoWay():
            return f"{name}: {by_hand}"
        case _:
            assert_never(way)


def _another_training(best: TrialRecord, baseline: TrialRecord | None) -> list[str]:
    now = best.measurement.effective_batch
    then = baseline.measurement.effective_batch if baseline is not None else None
    if baseline is None or now is None or then is None or now == then or then <= 0:
        return []
    factor = now / then
    lines = [
        f"this is another training: the effective batch is {now} instead of {then}; rules of thumb for the learning"
        f" rate: ×{factor:.3g} for SGD (linear), ×{factor**0.5:.3g} for Adam (square root)"
    ]
    samples, before = best.measurement.samples_per_epoch, baseline.measurement.samples_per_epoch
    if best.measurement.epoch_bound_by == "iterations" and samples and before and samples != before:
        lines.append(
            f"its epochs are bounded by iterations: one sees {samples} samples instead of {before}, so"
            f" ×{before / samples:.3g} as many iterations make the same epoch; totals are for equally many samples"
        )
    return lines
