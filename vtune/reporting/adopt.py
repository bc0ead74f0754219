"""How to adopt the chosen settings: what measures them once more, and what to write where in the training itself."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtune.analysis.another_batch import AnotherBatch, batch_change
from vtune.analysis.repeated_words import how_to_mend, what_repeats
from vtune.config.trial_config import dump_yaml
from vtune.domain.effects import ConfigValue, Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.numbers import round_money, seconds, times
from vtune.domain.record import Measurement, TrialRecord
from vtune.errors import UsageError
from vtune.knobs.batch import ACCUMULATE_STEPS, BATCH_SIZE
from vtune.knobs.plan import effects_of, fill_placeholders, turned_command
from vtune.knobs.registry import knob_named
from vtune.knobs.ways import ThroughCommand
from vtune.reporting.by_way import by_way
from vtune.reporting.commands import is_setting, near, probe_command
from vtune.reporting.study_report import StudyReport
from vtune.reporting.words import setting_word, settings_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    # workers=4 batch_size=2: 3.1× ± 0.2, saves 17 d / $1,500
    line: str
    # vtune probe --config FILE --set workers=4; empty where no setting is one that vtune turns.
    command: str
    # Blocks to paste, each headed by a comment that says where: a part of the config, the command, an argument.
    places: tuple[tuple[str, ...], ...] = ()
    # Why it is not the same training, where it is not.
    another_training: tuple[str, ...] = ()
    # Loader workers that make the same data, and what mends it.
    repeated: tuple[str, ...] = ()


def how_to_adopt(report: StudyReport) -> Adoption | None:
    """None where there is nothing to adopt: nothing was shown to be better than what is there."""
    best = report.choice.best
    turned = settings_to_adopt(report)
    if best is None or not turned:
        return None
    known = {name: value for name, value in turned.items() if is_setting(name, value, report.experiment)}
    speedup = report.choice.speedup
    gain = [] if speedup is None else [times(speedup.value, speedup.ci95)]
    saved = saving(report)
    return Adoption(
        line=f"{settings_text(turned)}: {', '.join([*gain, *([saved] if saved else [])]) or 'not compared'}",
        command=probe_command(report, known) if known else "",
        places=tuple(_places(known, report)),
        another_training=(*another_training(changed_batch(best, report)), *other_results(known, report.experiment)),
        repeated=tuple(repeated_data(best, report.own)),
    )


def settings_to_adopt(report: StudyReport, of: TrialRecord | None = None) -> dict[str, Scalar]:
    """What the best trial, or another one, ran with and the baseline did not."""
    best, baseline = of or report.choice.best, report.choice.baseline
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


def _places(settings: Mapping[str, Scalar], report: StudyReport) -> Iterator[tuple[str, ...]]:
    experiment, found = report.experiment, by_way(settings, report.experiment)
    if experiment is not None and found.keys:
        yield _in_the_config(found.keys, experiment)
    if experiment is not None and found.flags:
        yield _in_the_command(found.flagged, found.flags, experiment)
    for name, value in found.env.items():
        yield "# the environment", f"{name}={setting_word(value)}"
    if found.options:
        unknown = "" if experiment is not None else "; the training's own config and command cannot be read here"
        at = _near_line(report.loader_at) if report.loader_at is not None else f"where the script makes it{unknown}"
        listed = ", ".join(f"{option}={value}" for option, value in found.options.items())
        yield f"# the training's loader: {at}", f"DataLoader(..., {listed})"
    if found.others:
        yield "# where the training sets it", *(f"{name}={setting_word(v)}" for name, v in found.others.items())


def _in_the_config(keys: Mapping[tuple[str, ...], ConfigValue], experiment: Experiment) -> tuple[str, ...]:
    tree: dict[str, Any] = {}
    for path, written in keys.items():
        value = list(written) if isinstance(written, tuple) else written
        below = tree
        for key in path[:-1]:
            below = below.setdefault(key, {})
        below[path[-1]] = value
    file = experiment.workload.config_path
    text = None if file is not None and file.suffix.lower() == ".json" else dump_yaml(tree)
    lines = (text if text is not None else json.dumps(tree, indent=2)).splitlines()
    return f"# {near(file) if file is not None else 'the config of the training'}", *lines


def _in_the_command(
    settings: Mapping[str, Scalar], flags: Mapping[str, ThroughCommand], experiment: Experiment
) -> tuple[str, ...]:
    workload = experiment.workload
    try:
        turned = turned_command(workload, effects_of(settings, experiment, train_loader=None))
    except UsageError:  # settings that only mean something together with others
        return "# in the command", *(f"{way.flag.typed} {setting_word(settings[name])}" for name, way in flags.items())
    return "# the command", shlex.join(fill_placeholders(turned, config=workload.config_path))


def _near_line(where: str) -> str:
    file, colon, line = where.rpartition(":")
    return f"{near(Path(file))}{colon}{line}" if file else where


def other_results(settings: Mapping[str, Scalar], experiment: Experiment | None) -> Iterator[str]:
    """Beyond the batch, which has rules of its own."""
    for name, value in settings.items():
        knob = knob_named(name, experiment.knobs if experiment is not None else ())
        if knob.numerics == "DIFFERENT" and name not in (BATCH_SIZE.name, ACCUMULATE_STEPS.name):
            yield f"{name}={setting_word(value)} may change the result: {knob.numerics_reason}"


def changed_batch(record: TrialRecord, report: StudyReport) -> AnotherBatch | None:
    """Against the user's own settings; None where it stays, or where one of the two is not known."""
    return batch_change(record.measurement, report.own) if report.own is not None else None


def repeated_data(record: TrialRecord, own: Measurement | None) -> list[str]:
    """Of a run with this trial's settings. The user's own workers show it for others; a single one repeats nothing."""
    found = record.measurement.repeated
    if found is None and own is not None and record.measurement.effective_settings.get("workers") not in (0, 1):
        found = own.repeated
    return [] if found is None else [f"{what_repeats(found)}; {how_to_mend(found)}"]


def another_training(found: AnotherBatch | None) -> list[str]:
    """What a larger or smaller effective batch means, with the rules for the learning rate; nothing where it stays."""
    if found is None:
        return []
    lines = [f"this is another training: the effective batch is {found.change}; {found.learning_rate}"]
    if found.samples is not None:
        samples, before = found.samples
        lines.append(
            f"its epochs are bounded by iterations: one sees {samples} samples instead of {before}, so"
            f" ×{before / samples:.3g} as many iterations make the same epoch; totals are for equally many samples"
        )
    return lines
