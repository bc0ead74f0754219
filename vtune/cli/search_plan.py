"""`vtune search --dry-run`: what may be turned and what may not, how many trials that is at most, and how long; nothing
is started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vtune.analysis.comparable import has_rate, metric_of
from vtune.api import PlannedSearch
from vtune.cli.files_plan import files_line
from vtune.domain.experiment import Experiment
from vtune.domain.numbers import rate, seconds, trials_text
from vtune.domain.search import Hunt, Space
from vtune.errors import UsageError
from vtune.journal.files import to_json
from vtune.knobs.plan import fill_placeholders
from vtune.reporting.inert import harmless
from vtune.reporting.phase_words import Measured
from vtune.reporting.search_of_study import search_of, search_to_json
from vtune.reporting.search_words import asked_text, dimension_text, left_out_text, not_turned_lines, space_text, span
from vtune.reporting.words import settings_text


def plan_as_text(planned: PlannedSearch, experiment: Experiment) -> str:
    asked, hunt, window = planned.asked, planned.hunt, experiment.window
    grows = f", up to {window.max_steps} until the interval is narrow" if window.max_steps > window.steps else ""
    space, *knobs = [*space_lines(planned.space, hunt), *not_turned_lines(planned.space.left_out)]
    lines = [
        f"study     {planned.folder}",
        f"command   {harmless(' '.join(fill_placeholders(experiment.workload.command, config=None)))}",
        f"search    {asked_text(asked.sampler, asked.trials, asked.budget_s)}",
        f"space     {space}",
        *(f"          {line}" for line in knobs),
        *_known(planned),
        f"window    {window.steps} measured steps{grows}",
        f"limits    {limits_text(experiment)}",
        files_line(experiment, planned.folder),
        *(f"{'trials' if at == 0 else '':<10}{line}" for at, line in enumerate(planned.expected.lines)),
    ]
    if (proposal := hunt.proposal) is not None:
        foretold = f", predicted {span(proposal.predicted)} samples/s" if proposal.predicted is not None else ""
        tried = settings_text(proposal.settings)
        if hunt.stage == "confirm":
            lines.append(f"confirm   {f'{tried}: ' if tried else ''}{proposal.reason}{foretold}")
        else:
            lines.append(f"{'next ' if hunt.trials else 'first'}     {tried or proposal.reason}{foretold}")
    if hunt.ended is not None:
        lines.append(
            f"ended     {hunt.ended}{': what is left confirms the winner' if hunt.proposal is not None else ''}"
        )
    if hunt.stopped is not None:
        lines.append(f"stopped   {hunt.stopped}")
    return "\n".join([*(harmless(line, 1000) for line in lines), "", "nothing was started"])


def check_results(results: Path) -> None:
    """A plan whose results nobody could write is none; as far as that is seen without writing."""
    there = next(one for one in (results.absolute(), *results.absolute().parents) if os.path.exists(one))
    if not os.path.isdir(there) or not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write to {results}", hint="name another folder with --results")


def space_lines(space: Space, hunt: Hunt) -> Iterator[str]:
    """Its size, then each knob that is turned."""
    yield space_text(
        len(space.settings), len(space.dimensions), over_a_limit=hunt.over_a_limit, fell=hunt.ruled_out_by_failures
    )
    yield from (dimension_text(one) for one in space.dimensions)


def limits_text(experiment: Experiment) -> str:
    limits = experiment.limits
    named = [f"{name} {limit.text}" for name, limit in (("RAM", limits.ram), ("VRAM", limits.vram)) if limit]
    return " and ".join(named) if named else "none but what leaves the machine usable"


def plan_as_json(planned: PlannedSearch, experiment: Experiment) -> dict[str, Any]:
    asked, hunt, found = planned.asked, planned.hunt, planned.expected
    told = search_of(
        hunt,
        planned.space,
        trials=asked.trials,
        budget_s=asked.budget_s,
        limits=experiment.limits,
        left_out=planned.left_out,
    )
    proposal = hunt.proposal
    plain: dict[str, Any] = to_json(
        {
            "study": planned.folder.name,
            "folder": str(planned.folder),
            "command": fill_placeholders(experiment.workload.command, config=None),
            "search": search_to_json(told),
            "next": proposal
            and {"settings": proposal.settings, "reason": proposal.reason, "predicted": proposal.predicted},
            "trials_at_most": found.trials,
            "confirmations_at_most": found.confirmations,
            "trial_s": list(found.each_s) if found.measured else None,
            "trial_s_at_most": found.each_s[1],
            "from_measured_trials": found.measured,
            "at_most_s": found.most_s,
        }
    )
    return plain


def _known(planned: PlannedSearch) -> Iterator[str]:
    """What the journal has of it."""
    hunt = planned.hunt
    if planned.left_out:
        yield f"left out  {left_out_text(sorted(planned.left_out))}"
    if not hunt.trials:
        return
    what = "it is" if len(hunt.trials) == 1 else "they are"
    yield f"known     {trials_text(hunt.trials)}: {what} not run again"
    own = [record for record in planned.records if record.trial in hunt.trials and has_rate(record)]
    seen = Measured({record.trial: record for record in planned.records}, hunt.baseline, metric_of(own))
    if (baseline := hunt.baseline) is not None:
        startup = baseline.measurement.startup_s
        took = f", {seconds(startup)} of them before its first loader" if startup is not None else ""
        best = seen.rate(hunt.best.trial) if hunt.best is not None else None
        yield f"          your own settings took {seconds(baseline.seconds)}{took}; best so far {rate(best)} samples/s"
