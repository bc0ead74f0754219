"""What a training waits for, as far as it shows from outside: processor time, states, and where a process sleeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from vtune.analysis.watching.pace import Pace, last_looks, last_workers, paces
from vtune.domain.watching import Look, Verdict

# Shorter looks see one batch, or none.
LEAST_S = 3.0
# Nothing is said to stand still that was not seen for so long.
STILL_S = 6.0
# Threads that only wake up to look around (progress bars, uploaders) take less.
_STILL_CORES = 0.02
_BUSY, _MOSTLY = 0.85, 0.5
# Of a worker: with less of its time it cannot be what everything waits for, unless it sleeps over its work.
_SATURATED = 0.7
_GPU_BUSY = 80.0
_SHORT_OF_CORES = 0.25
_ON_DISK = 0.2
# Where a worker sleeps that waits for the next indices; a socket is waited for there, too.
_POLLS = ("poll", "select")
_PAUSE = "nanosleep"


def verdict_of(looks: Sequence[Look], *, gpu_percent: float | None = None, ended: bool = False) -> Verdict:
    """`gpu_percent`: of the devices that the training is on; None where it is on none, or nobody tells. `ended`: since
    the last look, and whose number it had may be another's by now."""
    recent = last_looks(looks) if looks else looks
    seen_s = recent[-1].t_s - recent[0].t_s if recent else 0.0
    by_pid = paces(recent)
    trainings = [pace for pace in by_pid.values() if pace.role == "training"]
    workers = last_workers(recent)
    if seen_s < LEAST_S or not trainings:
        why = "looking" if not looks or looks[-1].of("training") or seen_s < LEAST_S else "no process of it holds torch"
        return Verdict(kind="unknown", sentence=f"cannot be told yet: {why}", seen_s=seen_s)
    stopped = any(pace.stopped for pace in trainings)
    if stopped or (seen_s >= STILL_S and _stands_still(by_pid, recent, gpu_percent)):
        found = _stood_still(trainings) if ended else _still(trainings, workers, seen_s)
    elif gpu_percent is not None:
        found = _with_gpu(trainings, workers, gpu_percent)
    else:
        found = _on_cpu(trainings, workers)
    return replace(found, seen_s=seen_s)


def _stands_still(by_pid: Mapping[int, Pace], looks: Sequence[Look], gpu_percent: float | None) -> bool:
    ours = [pace for pace in by_pid.values() if pace.role in ("training", "worker")]
    return (
        sum(pace.cores for pace in ours) < _STILL_CORES
        and not any(pace.moved_bytes for pace in ours)
        and not any(pace.on_disk >= _ON_DISK for pace in ours)
        and not any(look.log_lines for look in looks[1:])
        and (gpu_percent is None or gpu_percent < 3)
    )


def _still(trainings: Sequence[Pace], workers: Sequence[Pace], seen_s: float) -> Verdict:
    sentence = f"stands still: for {seen_s:.0f} s nothing was computed, read or written"
    stopped = [pace.pid for pace in trainings if pace.stopped]
    if stopped:
        sentence = f"stands still: process {stopped[0]} was stopped by a signal; kill -CONT {stopped[0]} lets it go on"
    return Verdict(
        kind="still",
        sentence=sentence,
        evidence=(_training_words(trainings), *([_worker_words(workers)] if workers else [])),
    )


def _stood_still(trainings: Sequence[Pace]) -> Verdict:
    stopped = [pace.pid for pace in trainings if pace.stopped]
    why = f"process {stopped[0]} had been stopped by a signal" if stopped else "it had stood still before"
    return Verdict(kind="unknown", sentence=f"it has ended: {why}")


def _with_gpu(trainings: Sequence[Pace], workers: Sequence[Pace], gpu_percent: float) -> Verdict:
    busy = fmean(pace.busy for pace in trainings)
    idle = 1 - gpu_percent / 100
    gpu = f"the GPU ran something in {gpu_percent:.0f} % of the time"
    words = (gpu, _training_words(trainings), *([_worker_words(workers)] if workers else []))
    if gpu_percent >= _GPU_BUSY:
        return Verdict(kind="gpu", sentence="GPU: the device is the one that is busy", evidence=words, wait_share=None)
    if busy >= _BUSY:
        return Verdict(kind="host", sentence="host: the GPU waits for the training's own process", evidence=words)
    starved = _starved(workers, busy, trainings)
    if starved is not None:
        share = min(idle, 1 - busy)
        return Verdict(kind="starved", sentence=f"starved for data: {starved}", evidence=words, wait_share=share)
    return Verdict(kind="unknown", sentence=f"cannot be told: {gpu}, and no process was busy", evidence=words)


def _on_cpu(trainings: Sequence[Pace], workers: Sequence[Pace]) -> Verdict:
    busy = fmean(pace.busy for pace in trainings)
    words = (_training_words(trainings), *([_worker_words(workers)] if workers else []))
    if busy >= _BUSY:
        sentence = "busy computing on CPU"
        queued = fmean(pace.queued or 0.0 for pace in trainings)
        if queued >= _SHORT_OF_CORES:
            sentence += f", short of cores: its main process waits for one in {queued:.0%} of the time"
        if not workers:
            sentence += "; without loader workers, loading is part of that: vtune probe tells them apart"
        return Verdict(kind="cpu", sentence=sentence, evidence=words, wait_share=1 - busy if workers else None)
    starved = _starved(workers, busy, trainings)
    if starved is not None:
        return Verdict(kind="starved", sentence=f"starved for data: {starved}", evidence=words, wait_share=1 - busy)
    waits = "sleeps by itself, for no batch" if _pauses(trainings) else "waits"
    what = f"its main process {waits}, and so do its workers" if workers else f"its main process {waits}"
    return Verdict(kind="unknown", sentence=f"cannot be told: {what}", evidence=words)


def _starved(workers: Sequence[Pace], busy: float, trainings: Sequence[Pace]) -> str | None:
    """Why data are late; None where it does not look so."""
    if not workers:
        on_disk = fmean(pace.on_disk for pace in trainings)
        return "without loader workers, it waits for storage itself" if on_disk >= _ON_DISK else None
    on_disk = fmean(pace.on_disk for pace in workers)
    cores, at_work = fmean(pace.cores for pace in workers), fmean(min(1.0, p.busy + p.on_disk) for p in workers)
    many = f"its {len(workers)} workers" if len(workers) > 1 else "its worker"
    verb, verb_do = ("are", "wait") if len(workers) > 1 else ("is", "waits")
    if at_work >= _SATURATED:
        if on_disk > cores:
            return f"{many} {verb_do} for storage"
        queued = fmean(pace.queued or 0.0 for pace in workers)
        if queued >= _SHORT_OF_CORES:
            return f"{many} {verb} at work all the time, and short of cores ({queued:.0%} of it waiting for one)"
        return f"{many} {verb} at full CPU"
    if on_disk >= _ON_DISK:
        return f"{many} {verb_do} for storage"
    polls = [pace.sleeps_in is None or any(word in pace.sleeps_in for word in _POLLS) for pace in workers]
    if busy < _MOSTLY and not all(polls) and not _pauses(trainings):
        sleep = "sleep" if len(workers) > 1 else "sleeps"
        return f"{many} {sleep} over the data: a slow network, a lock, a pause; neither CPU nor a disk of this machine"
    return None


def _pauses(trainings: Sequence[Pace]) -> bool:
    """In a pause of its own, which nobody who waits for a batch is in."""
    return all(pace.sleeps_in is not None and _PAUSE in pace.sleeps_in for pace in trainings)


def _training_words(trainings: Sequence[Pace]) -> str:
    cores = fmean(pace.cores for pace in trainings)
    who = "main process" if len(trainings) == 1 else f"{len(trainings)} ranks, each"
    return f"{who} at {cores:.0%} of a core{_asleep(trainings)}"


def _worker_words(workers: Sequence[Pace]) -> str:
    cores, on_disk = fmean(pace.cores for pace in workers), fmean(pace.on_disk for pace in workers)
    who = "worker" if len(workers) == 1 else f"{len(workers)} workers, each"
    disk = f", waiting for storage in {on_disk:.0%} of the looks" if on_disk >= 0.05 else ""
    return f"{who} at {cores:.0%} of a core{disk}{_asleep(workers)}"


def _asleep(found: Sequence[Pace]) -> str:
    """Who computes sleeps in nothing worth telling."""
    names = Counter(pace.sleeps_in for pace in found if pace.sleeps_in and pace.busy < _BUSY)
    return f", asleep in {names.most_common(1)[0][0]}" if names else ""
