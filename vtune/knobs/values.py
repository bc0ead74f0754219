"""Which values of a knob are worth a trial on this machine, for this training.

Few, and far enough apart that a handful of trials spans the range: neighbours differ by a quarter at least, but for the
number of cores and the current value, which are always among them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment
from vtune.domain.knob import Knob
from vtune.domain.machine import Machine
from vtune.domain.phases import RungValue, Times
from vtune.knobs.arguments import named_arguments, own_words
from vtune.knobs.batch import ACCUMULATE_STEPS, BATCH_SIZE
from vtune.knobs.loader import PREFETCH_FACTOR, WORKERS
from vtune.knobs.mathematics import FILTERS, PATCH_SIZE, PRECISION, SURFACE_DISTANCE_INTERVAL, THREADS
from vtune.knobs.ways import current_value

# A worker that waits for its storage leaves its core to others, so more workers than cores may pay; one that computes
# does not. Which it is, one value beyond tells, and each worker costs memory.
BEYOND_CORES = 1.5
# In flight, and in memory, are workers × prefetch batches. torch takes 2; more smooths uneven batches, and only
# postpones the first wait of a loader that is too slow on average.
PREFETCH = (1, 2, 4, 8)
# Halves win memory, and accumulation gives the effective batch back; doubles win speed until memory ends, and each
# beyond that end costs a trial that fails.
BATCH_FACTORS = (0.25, 0.5, 1, 2, 4, 8)
# Of the current value, where only one direction is faster: a smaller model or patch, a rarer loss.
FASTER = {FILTERS: (0.5, 1.0), PATCH_SIZE: (0.5, 0.75, 1.0), SURFACE_DISTANCE_INTERVAL: (1.0, 2.0, 4.0)}
# How launchers are told the number of processes on this machine, each of which has workers of its own.
RANKS = ("nproc_per_node", "nproc", "num_processes", "num_gpus")


def values_of(
    knob: Knob,
    machine: Machine,
    experiment: Experiment | None,
    *,
    now: Mapping[str, Scalar] | None = None,
    named: Mapping[str, Scalar] | None = None,
) -> tuple[Scalar, ...]:
    """In rising order, the current value among them; () where they depend on a current value that nobody knows yet.

    `now` is what the training ran with, where a trial has told it: no config or command may name it.
    `named`: the experiment's current settings, where they have been worked out already."""
    binding = experiment.binding_of(knob.name) if experiment is not None else None
    if binding is not None and binding.values:
        return binding.values  # the user knows better
    wanted = {knob, BATCH_SIZE} if knob is ACCUMULATE_STEPS else {knob}
    current = {**(now or {}), **named} if named is not None else _current(wanted, experiment, now)
    if knob.kind == "bool":
        return (False, True)
    if knob.kind == "text":
        return _words(knob, machine, current.get(knob.name))
    values: set[int] = set()
    command = experiment.workload.command if experiment is not None else ()
    cores = machine.cores_to_plan_for / ranks_of(command)
    if knob is WORKERS:
        values = _workers(cores)
    elif knob is THREADS:
        values = _threads(cores)
    elif knob is PREFETCH_FACTOR:
        values = set(PREFETCH)
    elif knob is BATCH_SIZE:
        values = _batch_sizes(current.get("batch_size"))
    elif knob is ACCUMULATE_STEPS:
        values = _accumulate_steps(current)
    elif knob in FASTER:
        turned = (resolve(Times(factor=factor), current.get(knob.name), knob) for factor in FASTER[knob])
        values = {value for value in turned if isinstance(value, int)}
    known = current.get(knob.name)
    if isinstance(known, int):
        values.add(known)
    least, most = knob.minimum, knob.maximum
    return tuple(v for v in sorted(values) if (least is None or v >= least) and (most is None or v <= most))


def resolve(value: RungValue, current: Scalar, knob: Knob) -> Scalar:
    """What a plan's value comes to; None where it is relative to what nobody knows."""
    if not isinstance(value, Times):
        return value
    if isinstance(current, bool) or not isinstance(current, int):
        return None
    if value.factor == 1:
        return current
    # Halves go up: half of a batch of 3 is 2.
    wanted = knob.multiple * math.floor(current * value.factor / knob.multiple + 0.5)
    # A part of something is never nothing.
    least, most = max(knob.minimum or 0, min(knob.multiple, current)), knob.maximum
    return max(least, wanted if most is None else min(wanted, most))


def accumulate_for(batch_size: int, now: Mapping[str, Scalar]) -> int | None:
    """How many batches of this size make the effective batch of now; None where none does, or now is unknown."""
    before, times = now.get("batch_size"), now.get("accumulate_steps")
    if not isinstance(before, int) or not isinstance(times, int) or batch_size < 1:
        return None
    steps, rest = divmod(before * times, batch_size)
    return steps if steps >= 1 and rest == 0 else None


def ranks_of(command: Sequence[str]) -> int:
    """Processes of a distributed run on this machine, as far as its launcher's own words say it."""
    own, _ = own_words(command)
    for argument in named_arguments(command):
        if argument.position < own.start and argument.name in RANKS and argument.value.isdecimal():
            return max(1, min(int(argument.value), 1024))
    return 1


def _current(
    knobs: Collection[Knob], experiment: Experiment | None, now: Mapping[str, Scalar] | None
) -> Mapping[str, Scalar]:
    """Of these knobs only: a search asks for the values of each knob before every trial."""
    shown = {knob.name: (now or {}).get(knob.name) for knob in knobs}
    if experiment is None:
        return shown
    named = {knob.name: current_value(knob, experiment) for knob in knobs}
    return {name: shown[name] if value is None else value for name, value in named.items()}


def _workers(cores: float) -> set[int]:
    """0, 1, 2, 4, 6, 8, 12, 16, 24 … up to the cores, the cores themselves, and one value beyond."""
    usable = max(1, int(cores))
    values = {0, usable, max(usable + 1, round(usable * BEYOND_CORES))}
    power = 1
    while power <= usable:
        values.add(power)
        between = power * 3 // 2
        # Between 2 and 4 there is only 3, which is the cores themselves where it matters.
        if power >= 4 and between <= usable:
            values.add(between)
        power *= 2
    return values


def _threads(cores: float) -> set[int]:
    """1, 2, 4, 8 … up to the cores, and the cores themselves."""
    usable = max(1, int(cores))
    return {usable, *(2**power for power in range(usable.bit_length()))}


def _words(knob: Knob, machine: Machine, current: Scalar) -> tuple[Scalar, ...]:
    """fp16 needs a scaler of its gradients, which trainings have for GPUs only."""
    left_out = {"fp16"} if knob is PRECISION and not machine.gpus else set()
    return tuple(word for word in knob.words if word not in left_out or word == current)


def _batch_sizes(current: Scalar) -> set[int]:
    if not isinstance(current, int) or current < 1:
        return set()
    return {int(current * factor) for factor in BATCH_FACTORS if current * factor >= 1}


def _accumulate_steps(now: Mapping[str, Scalar]) -> set[int]:
    """Those with which one of the batch sizes makes the effective batch of now."""
    partners = (accumulate_for(size, now) for size in _batch_sizes(now.get("batch_size")))
    return {steps for steps in partners if steps is not None}
