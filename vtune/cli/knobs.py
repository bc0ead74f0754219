"""`vtune knobs`: what may be turned on this machine, and by which way in this training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtune.cli import options

if TYPE_CHECKING:
    from vtune.api import KnobsResult
    from vtune.domain.experiment import Experiment
    from vtune.knobs.describe import KnobView


def knobs(
    command: options.Command = None,
    config: options.Config = None,
    study: options.StudyName = None,
    results: options.Results = Path("results"),
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show every knob: its values here, what it does to the results, how it would be set.

    Starts and writes nothing. Without a training: the knobs of this machine.
    """
    from vtune import api
    from vtune.cli import exits
    from vtune.cli.asked import asked_experiment, has_last_study
    from vtune.cli.console import console, print_list
    from vtune.config.command_line import CommandLine
    from vtune.reporting.knobs_table import knobs_table

    experiment = None
    if config is not None or command or study is not None or has_last_study(results):
        asked = asked_experiment(config, command, CommandLine(study=study), results, verb="knobs", starts=False)
        stderr = console(stderr=True, quiet=quiet)
        for note in asked.notes:
            stderr.print(note, markup=False, soft_wrap=True)
        experiment = asked.experiment
    result = api.knobs(experiment, results=results)
    if json:
        exits.print_json(_as_json(result, experiment))
    else:
        print_list(knobs_table(result.machine, experiment, result.knobs))


def _as_json(result: KnobsResult, experiment: Experiment | None) -> dict[str, Any]:
    from vtune.journal.files import to_json

    workload = experiment.workload if experiment is not None else None
    told: dict[str, Any] = to_json(
        {
            "study": experiment.study if experiment is not None else None,
            "command": workload.command if workload is not None else None,
            "config": workload.config_path if workload is not None else None,
            "machine": {
                "cores": result.machine.cores,
                "declared_cores": result.machine.declared_cores,
                "ram_bytes": result.machine.ram_bytes,
            },
            "knobs": [_knob(view) for view in result.knobs],
        }
    )
    return told


def _knob(view: KnobView) -> dict[str, Any]:
    knob, way = view.knob, view.way
    return {
        "name": knob.name,
        "doc": knob.doc,
        "kind": knob.kind,
        "numerics": knob.numerics,
        "numerics_reason": knob.numerics_reason,
        "values": view.values,
        "values_note": view.values_note,
        "current": way.current if way is not None else None,
        "current_from": way.current_from if way is not None else None,
        "way": way.way if way is not None else None,
        "through": way.through if way is not None else None,
        "how": way.how if way is not None else None,
        "why_not": way.why_not if way is not None else None,
    }
