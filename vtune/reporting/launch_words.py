"""A launch in words: what would be started, and what became of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vtune.analysis.renewal_words import renewal_text
from vtune.domain.launch import LaunchResult, LaunchSpec
from vtune.domain.numbers import rate, seconds
from vtune.domain.secrets import MASK
from vtune.journal.renewals import renewal_to_json
from vtune.reporting.commands import near
from vtune.reporting.inert import harmless
from vtune.reporting.words import settings_text

# An error's words are told whole.
WHOLE = 10_000
STEP_DOWN_KEYS = ("from", "to", "trial", "why", "resumed_from_step")


def plan_lines(spec: LaunchSpec, notes: tuple[str, ...]) -> Iterator[str]:
    yield from _head_lines(spec, notes)
    if spec.config is not None:
        yield f"resolved config: {near(Path(spec.config))}"
    yield from _hook_lines(spec)


def dry_lines(spec: LaunchSpec, notes: tuple[str, ...], config: str | None) -> Iterator[str]:
    """`config`: what is changed in it. There is no such file yet, so its lines have to be told."""
    yield from _head_lines(spec, notes)
    if spec.config is not None:
        changed = ", changed so:" if config else ""
        yield f"resolved config, written when it is launched: {near(Path(spec.config))}"
        yield f"it is your config without a vtune section{changed}"
        yield from (f"  {harmless(line)}" for line in (config or "").splitlines())
    yield from _hook_lines(spec)


def _head_lines(spec: LaunchSpec, notes: tuple[str, ...]) -> Iterator[str]:
    promise = spec.promise
    yield (
        f"launch {spec.launch} of {spec.study}: the settings of trial {promise.trial}, "
        f"{settings_text(spec.settings) or 'as they are'}"
    )
    steady = "" if promise.samples_per_s is None else ", steady" if promise.steady else ", not shown to be steady"
    long = "" if promise.run_s is None else f"; {seconds(promise.run_s)} for the whole run, start-up and pauses too"
    yield f"promised: {rate(promise.samples_per_s)} samples/s{steady}{long}"
    for note in notes:
        yield harmless(note)
    env = [f"{name}={MASK}" for name in spec.env]
    yield f"command, in {near(Path(spec.cwd)) or '.'}: {harmless(shlex.join([*env, *spec.command]))}"


def _hook_lines(spec: LaunchSpec) -> Iterator[str]:
    for line in spec.by_hook:
        yield f"set by vtune's hook, as this line would: {harmless(line)}"


def plan_to_json(spec: LaunchSpec, notes: tuple[str, ...], config: str | None) -> dict[str, Any]:
    return {
        "study": spec.study,
        "launch": spec.launch,
        "trial": spec.promise.trial,
        "settings": dict(spec.settings),
        "command": list(spec.command),
        "cwd": spec.cwd,
        "env": dict.fromkeys(spec.env, MASK),
        "config": spec.config,
        "config_diff": config,
        "by_hook": list(spec.by_hook),
        "notes": list(notes),
        "effective_batch": spec.promise.effective_batch,
        "effective_batch_before": spec.promise.effective_batch_before,
        "promised_samples_per_s": spec.promise.samples_per_s,
        "promised_run_s": spec.promise.run_s,
        "exit_code": 0,
    }


def ended_lines(result: LaunchResult) -> Iterator[str]:
    promise, achieved = result.promise, result.achieved
    detail = f": {harmless(result.detail, WHOLE)}" if result.detail else ""
    or_more = " or more" if achieved.or_more else ""
    steps = "its steps unknown" if achieved.counters_gone else f"{achieved.steps} steps{or_more}"
    yield f"launch {result.launch} {result.status} after {seconds(achieved.seconds)}, {steps}{detail}"
    unseen = achieved.samples_per_s is None and promise.samples_per_s is not None and achieved.steps > 0
    why = ": it never stepped for long enough without a pause" if unseen else ""
    yield f"samples/s, steady: {against(achieved.samples_per_s, promise.samples_per_s)}{why}"
    yield (
        "samples/s, start-up and pauses included: "
        f"{against(achieved.samples_per_s_whole, promise.samples_per_s_whole_run, or_more)}"
    )
    yield from _time_lines(result)
    for renewal in result.renewals:
        yield f"{renewal_text(renewal)}; the next launch with these settings promises that"
    if result.next_command is not None:
        note = "" if result.next_note is None else f", {harmless(result.next_note, WHOLE)}"
        yield f"to go on{note}: {harmless(result.next_command, WHOLE)}"


def against(achieved: float | None, promised: float | None, or_more: str = "") -> str:
    if achieved is None or promised is None:
        return f"{rate(achieved)} achieved, {rate(promised)} promised"
    return f"{rate(achieved)}{or_more} achieved, {rate(promised)} promised ({achieved / promised - 1:+.1%})"


def _time_lines(result: LaunchResult) -> Iterator[str]:
    promise, achieved = result.promise, result.achieved
    if result.status != "completed":
        if result.run_s is not None:
            yield f"whole run, at the pace so far: {time_against(result.run_s, promise.run_s)}"
    elif promise.run_s is not None:
        as_planned = achieved.counters_gone or promise.steps in (None, achieved.steps)
        or_more = " or more" if achieved.or_more else ""
        of = "" if as_planned else f" with {achieved.steps}{or_more} of {promise.steps} steps"
        yield f"whole run{of}: {time_against(result.run_s, promise.run_s)}"


def time_against(takes_s: float | None, promised_s: float | None) -> str:
    if takes_s is None or not promised_s:
        return f"{seconds(takes_s)}, {seconds(promised_s)} promised"
    return f"{seconds(takes_s)}, {seconds(promised_s)} promised ({takes_s / promised_s - 1:+.1%})"


def launch_to_json(result: LaunchResult, exit_code: int) -> dict[str, Any]:
    downs = (
        (dict(one.settings_before), dict(one.settings), one.trial, one.why, one.resumed_from_step)
        for one in result.step_downs
    )
    return {
        "study": result.study,
        "launch": result.launch,
        "trial": result.promise.trial,
        "settings": dict(result.settings),
        "status": result.status,
        "ended": str(result.ended),
        "detail": result.detail,
        "effective_batch": result.promise.effective_batch,
        "effective_batch_before": result.promise.effective_batch_before,
        "promised_samples_per_s": result.promise.samples_per_s,
        "achieved_samples_per_s": result.achieved.samples_per_s,
        "promised_samples_per_s_whole_run": result.promise.samples_per_s_whole_run,
        "achieved_samples_per_s_whole_run": result.achieved.samples_per_s_whole,
        "promised_run_s": result.promise.run_s,
        "run_s": result.run_s,
        "steps": result.achieved.steps if not result.achieved.counters_gone else None,
        "steps_are_the_least": result.achieved.or_more,
        "steps_at_end": result.promise.steps,
        "seconds": result.achieved.seconds,
        "step_downs": [dict(zip(STEP_DOWN_KEYS, one, strict=True)) for one in downs],
        "renewed": [renewal_to_json(one) for one in result.renewals],
        "retries": [{"why": one.why, "resumed_from_step": one.resumed_from_step} for one in result.retries],
        "go_on": result.next_command,
        "go_on_note": result.next_note,
        "exit_code": exit_code,
    }
