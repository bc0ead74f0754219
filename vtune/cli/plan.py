"""--dry-run: what would be started, with nothing started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vtune.cli.files_plan import files_line
from vtune.domain.effects import (
    Effect,
    FindCeiling,
    LimitVram,
    SetArgument,
    SetConfigKey,
    SetDataLoaderOption,
    SetEnv,
)
from vtune.domain.experiment import Experiment
from vtune.domain.numbers import bytes_, money, seconds
from vtune.domain.steady import GROUND_S, GROUND_STEPS
from vtune.execution.ram_limits import ram_limits
from vtune.journal.files import to_json
from vtune.journal.ignored_flags import heeding
from vtune.journal.paths import StudyPaths
from vtune.knobs.plan import effects_of, fill_placeholders, needs_scout, turned_command
from vtune.knobs.registry import knob_named
from vtune.knobs.ways import ThroughHook, way_of
from vtune.reporting.inert import harmless


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    study: Path
    experiment: Experiment
    scout: bool
    effects: tuple[Effect, ...]
    # Option of the loader → why not by the flag or the key that reads like it.
    because: Mapping[str, str]
    # A second launch, fed from memory.
    ceiling: bool = False
    # What a trial may take where nobody named a limit, as of now.
    ram_default_bytes: int | None = None

    def as_json(self) -> dict[str, Any]:
        window = self.experiment.window
        return {
            "study": self.study.name,
            "folder": str(self.study),
            "trials": 1 + self.ceiling,
            "scout": self.scout,
            "ceiling": self.ceiling,
            "command": list(self._command()),
            "cwd": str(self.experiment.workload.cwd),
            "settings": to_json(self.experiment.settings),
            "effects": self._effects(),
            "steps": window.steps,
            "max_steps": window.max_steps,
            "ram_default_bytes": self.ram_default_bytes,
            "at_most_s": window.trial_time_s * (1 + self.scout + self.ceiling),
        }

    def as_text(self) -> str:
        window = self.experiment.window
        grows = f", up to {window.max_steps} until the interval is narrow" if window.max_steps > window.steps else ""
        grows += f", and {GROUND_STEPS} steps in {GROUND_S:.0f} s at least" if window.ground else ""
        limits = self.experiment.limits
        named = [f"{name} {limit.text}" for name, limit in (("RAM", limits.ram), ("VRAM", limits.vram)) if limit]
        usable = self.ram_default_bytes
        if usable is not None and limits.ram is None:
            named.insert(0, f"RAM {bytes_(usable)}, to leave the machine usable: nobody named one")
        elif usable is not None and limits.ram is not None and (limits.ram.bytes or 0) > usable:
            named[0] += f" (more than the {bytes_(usable)} that leave the machine usable)"
        price = self.experiment.price
        at_most = f"{seconds(window.trial_time_s)}{' each' if self.ceiling else ''}"
        lines = [
            f"study     {self.study}",
            f"trials    {self._trials()}",
            f"command   {harmless(' '.join(self._command()))}",
            f"in        {self.experiment.workload.cwd}",
            f"window    {window.steps} measured steps{grows}",
            f"time      start-up, then at most {at_most}; how long a step takes is not known yet",
            *([f"limits    {', '.join(named)}"] if named else []),
            files_line(self.experiment, self.study),
            *([f"price     {money(price.per_hour, price)} an hour"] if price else []),
            *(f"turns     {text}" for text in self._effects()),
        ]
        return "\n".join([*lines, "", "nothing was started"])

    def _trials(self) -> str:
        scout = " and a short scout run first, to learn which loader feeds the steps" if self.scout else ""
        second = (
            "; then a second launch, if the first completes: after a few batches its loader is drained for at\n"
            "          most 40 s; then one batch is fed from memory, doubled for a minute or until it does not fit"
        )
        return f"1{scout}{second if self.ceiling else ''}"

    def _effects(self) -> list[str]:
        texts = []
        for effect in self.effects:
            because = self.because.get(effect.option) if isinstance(effect, SetDataLoaderOption) else None
            texts.append(effect_text(effect) + (f": {harmless(because)}" if because else ""))
        return texts

    def _command(self) -> tuple[str, ...]:
        """`{config}` stays: the file that it means is not written yet."""
        return fill_placeholders(turned_command(self.experiment.workload, self.effects), config=None)


def plan_of(experiment: Experiment, results: Path, *, ceiling: bool = False) -> Plan:
    experiment = heeding(experiment, StudyPaths(results / experiment.study))
    because: dict[str, str] = {}
    for name in experiment.settings:
        knob = knob_named(name, experiment.knobs)
        way = way_of(knob, experiment)
        if isinstance(way, ThroughHook) and way.because is not None and knob.loader_option is not None:
            because[knob.loader_option] = way.because
    return Plan(
        because=because,
        ceiling=ceiling,
        ram_default_bytes=ram_limits(None).ram_bytes,
        study=results / experiment.study,
        experiment=experiment,
        scout=needs_scout(experiment.settings, experiment),
        effects=effects_of(experiment.settings, experiment, train_loader="(learnt by the scout run)"),
    )


def effect_text(effect: Effect) -> str:
    match effect:
        case SetConfigKey():
            return f"{'.'.join(effect.path)} = {to_json(effect.value)} in the trial's copy of the config"
        case SetArgument():
            return f"{harmless(effect.argument)} = {to_json(effect.value)} in the command"
        case SetEnv():
            return f"{effect.name}={effect.value} in the environment"
        case SetDataLoaderOption():
            return f"{effect.option} = {to_json(effect.value)} of the training's loader, from inside"
        case FindCeiling():
            return f"one batch fed from memory, doubled for up to {seconds(effect.ladder_s)}"
        case LimitVram():
            most = f"{effect.fraction:.0%}" if effect.bytes is None else bytes_(effect.bytes)
            return f"the training's own allocator is held to {most} of each device"
