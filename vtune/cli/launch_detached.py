"""`vtune launch --detach`: the same launch in a process of its own, whose beginning is waited for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from vtune import api
from vtune.cli import exits
from vtune.cli.console import console
from vtune.cli.interrupts import terminations_as_interrupts
from vtune.cli.launch_lines import LaunchLines
from vtune.domain.launch import LaunchEvent, LaunchResult
from vtune.errors import VtuneError
from vtune.execution.launch_detach import detached
from vtune.launcher.plan import PlannedLaunch
from vtune.launcher.telling import LaunchProgress
from vtune.reporting.commands import near
from vtune.reporting.launch_words import ended_lines, launch_to_json


def launch_detached(planned: PlannedLaunch, *, as_json: bool, quiet: bool) -> int:
    launch = planned.study.launch(planned.number)
    # Beside the launch's folder, which its own process makes.
    log = launch.root.with_name(f".{launch.root.name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    told = detached(log, lambda tell: _guard(planned, tell))
    if os.path.exists(log) and os.path.exists(launch.root):
        log.replace(launch.log)
    if "error" in told:
        return exits.report_error(told["error"], told["hint"], told["exit_code"], as_json=as_json)
    if "result" in told:
        # It was over before it could be said to run.
        if as_json:
            exits.print_json(told["result"])
        else:
            print("\n".join(told["lines"]), file=sys.stderr)
        return int(told["result"]["exit_code"])
    if "pid" not in told:
        return exits.report_error(
            "the guard of the launch ended before it began",
            f"its words are in {launch.log if os.path.exists(launch.log) else log}",
            exits.DEFECT,
            as_json=as_json,
        )
    attempt = launch.attempt(1)
    if as_json:
        exits.print_json(
            {
                "study": planned.spec.study,
                "launch": planned.number,
                "trial": planned.record.trial,
                "settings": dict(planned.settings),
                "status": "running",
                "promised_samples_per_s": planned.spec.promise.samples_per_s,
                "achieved_samples_per_s": None,
                "promised_run_s": planned.spec.promise.run_s,
                "step_downs": [],
                "pid": told["pid"],
                "guard_pid": told["guard_pid"],
                "stdout": str(attempt.stdout.absolute()),
                "stderr": str(attempt.stderr.absolute()),
                "events": str(launch.events.absolute()),
                "exit_code": 0,
            }
        )
    elif not quiet:
        print(f"launch {planned.number} runs as process {told['pid']}, guarded by process {told['guard_pid']}")
        print(f"its words: {near(attempt.stdout.absolute())}, {near(attempt.stderr.absolute())}")
        print(f"what happens to it: {near(launch.events.absolute())}")
        print(f"to end it: kill {told['guard_pid']} lets it save")
    return exits.DONE


def _guard(planned: PlannedLaunch, tell: Callable[[Mapping[str, Any]], None]) -> int:
    lines = LaunchLines(console(stderr=True))

    def notify(event: LaunchEvent | LaunchProgress) -> None:
        lines(event)
        if isinstance(event, LaunchEvent) and event.kind == "started":
            tell({"pid": event.data["pid"], "guard_pid": event.data["guard_pid"]})

    try:
        with terminations_as_interrupts():
            result: LaunchResult = api.launch(planned, notify=notify)
    except VtuneError as error:
        tell({"error": error.message, "hint": error.hint, "exit_code": error.exit_code})
        return exits.report_error(error.message, error.hint, error.exit_code, as_json=False)
    code, words = exits.exit_code_of(result.ended), list(ended_lines(result))
    print("\n".join(words), file=sys.stderr)
    tell({"result": launch_to_json(result, code), "lines": words})
    return code
