"""`vtune phase --dry-run`: what would be tried, how many trials that is at most, and how long; nothing is started."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vtune.analysis.comparable import has_rate, metric_of
from vtune.api import PlannedPhases
from vtune.cli.files_plan import files_line
from vtune.domain.experiment import Experiment
from vtune.domain.numbers import rate, seconds, trials_text
from vtune.domain.phases import AskedPhases
from vtune.journal.files import to_json
from vtune.knobs.plan import fill_placeholders
from vtune.knobs.registry import knob_named
from vtune.knobs.ways import NoWay, current_settings, way_of
from vtune.reporting.inert import harmless
from vtune.reporting.phase_outline import outline, outline_json, turned_by
from vtune.reporting.phase_words import Measured, left_out_text, plan_text, rung_lines
from vtune.reporting.phases_of_study import phases_of, phases_to_json


def plan_as_text(planned: PlannedPhases, experiment: Experiment) -> str:
    asked, walk = planned.asked, planned.walk
    window, limits = experiment.window, experiment.limits
    named = [f"{name} {limit.text}" for name, limit in (("RAM", limits.ram), ("VRAM", limits.vram)) if limit]
    grows = f", up to {window.max_steps} until the interval is narrow" if window.max_steps > window.steps else ""
    lines = [
        f"study     {planned.folder}",
        f"command   {harmless(' '.join(fill_placeholders(experiment.workload.command, config=None)))}",
        plan_text(asked.plan.name, len(asked.phases), len(asked.plan.phases)).replace(" ", "      ", 1),
        *(f"  {harmless(line, 1000)}" for line in outlined(asked, experiment)),
        *_known(planned),
        f"window    {window.steps} measured steps{grows}",
        f"limits    {', '.join(named) if named else 'none but what leaves the machine usable'}",
        files_line(experiment, planned.folder),
        *(f"{'trials' if at == 0 else '':<10}{line}" for at, line in enumerate(planned.expected.lines)),
    ]
    if walk.proposal is not None:
        lines.append(f"first     {harmless(walk.proposal.reason)}")
    if walk.stopped is not None:
        lines.append(f"stopped   {harmless(walk.stopped, 1000)}")
    return "\n".join([*lines, "", "nothing was started"])


def outlined(asked: AskedPhases, experiment: Experiment) -> Iterator[str]:
    own = {**current_settings(experiment), **experiment.settings}
    knobs = {name for phase in asked.phases for name in turned_by(phase)}
    ways = {name: way_of(knob_named(name, experiment.knobs), experiment) for name in knobs}
    no_way = {name for name, way in ways.items() if isinstance(way, NoWay)}
    return outline(asked.plan, asked.phases, extend=asked.extend, options=asked.options, own=own, no_way=no_way)


def plan_as_json(planned: PlannedPhases, experiment: Experiment) -> dict[str, Any]:
    asked, found = planned.asked, planned.expected
    phases = phases_of(planned.walk, asked, limits=experiment.limits, left_out=planned.left_out)
    proposal = planned.walk.proposal
    told: dict[str, Any] = to_json(
        {
            "study": planned.folder.name,
            "folder": str(planned.folder),
            "command": fill_placeholders(experiment.workload.command, config=None),
            **phases_to_json(phases),
            **outline_json(asked.phases, asked.plan.options),
            "next": None if proposal is None else {"settings": proposal.settings, "reason": proposal.reason},
            "trials_at_most": found.trials,
            "to_fit_at_most": found.to_fit,
            "once_more_at_most": found.again,
            "scout_runs_at_most": found.scouts,
            "race_launches_at_most": found.race,
            "trial_s": list(found.each_s) if found.measured else None,
            "trial_s_at_most": found.each_s[1],
            "from_measured_trials": found.measured,
            "at_most_s": found.trials_s,
            "besides_at_most_s": found.besides_s,
            "race_at_most_s": found.race_s,
        }
    )
    return told


def _known(planned: PlannedPhases) -> list[str]:
    """What the journal has of it."""
    walk = planned.walk
    lines = [f"left out  {left_out_text(sorted(planned.left_out))}"] if planned.left_out else []
    if not walk.trials:
        return lines
    lines.append(f"known     {trials_text(walk.trials)}: they are not run again")
    own = [record for record in planned.records if record.trial in walk.trials and has_rate(record)]
    seen = Measured({record.trial: record for record in planned.records}, walk.baseline, metric_of(own))
    for outcome in walk.phases:
        for line in rung_lines(outcome.rungs, seen):
            told = f"  phase {outcome.phase.number}: {line.sign} {line.word} {line.turned}: {line.told}"
            lines.append(harmless(told, 1000))
    best = seen.rate(walk.best.trial) if walk.best is not None else None
    baseline = walk.baseline
    if baseline is not None:
        startup = baseline.measurement.startup_s
        took = f", {seconds(startup)} of them before its first loader" if startup is not None else ""
        lines.append(f"  your own settings took {seconds(baseline.seconds)}{took}; best so far {rate(best)} samples/s")
    return [harmless(line, 1000) for line in lines]
