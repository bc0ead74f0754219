"""What to try next, with what the replay says it would bring."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vtune.analysis.compare import CORES_FULL
from vtune.analysis.doubts import is_calm
from vtune.analysis.host import outside
from vtune.analysis.repeated_words import how_to_mend
from vtune.domain.advice import Advice
from vtune.domain.effects import Scalar
from vtune.domain.machine import Machine
from vtune.domain.numbers import rate, seconds, workers_text
from vtune.domain.record import Bottleneck, Change, Measurement, Pause, TrialRecord, WhatIf
from vtune.domain.trial import TrialStatus

# Below this nothing in the loader can win more than noise.
WAITS_LITTLE = 0.05
# Work of every n-th step that takes more of the time than this is the first thing to look at.
PERIOD_MUCH = 0.25
# A gain below this is noise and not worth a word.
WORTH_SAYING = 1.05
# Data for free that gains less than this, beside a loader that could feed so many times the rate: the steps take it.
LITTLE_BY_DATA, LOADER_TO_SPARE = 1.1, 2.0
# Others that keep more than this share of a core busy make every number here a lower bound.
OTHERS_CORES = 0.3
# A process that waits for a core for this share of the time would wait longer beside one more.
QUEUED_MUCH = 0.25
# However little a worker computes, its queues and copies cost something.
MOST_WAITING = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """How this very trial is asked for: what is tried next goes on from its settings, in its study."""

    study: str | None = None
    # The folder of all studies, where it is another one than a command looks into by itself.
    results: str | None = None
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    # The limit it runs under.
    ram_limit_bytes: int | None = None
    # Its window went on until it had seen enough for a steady rate, as --precise asks for.
    precise: bool = False
    # Settings of the study's other trials that were no faster than this one.
    no_faster: tuple[Mapping[str, Scalar], ...] = ()

    def is_tried(self, name: str, value: Scalar, effective: Mapping[str, Scalar]) -> bool:
        """In vain: beside this one setting they ran as this trial does."""
        wanted = {**{knob: effective[knob] for knob in ("workers", "batch_size") if knob in effective}, **self.settings}
        wanted[name] = value
        return any(all(tried.get(knob) == asked for knob, asked in wanted.items()) for tried in self.no_faster)

    def but(self, changed: Mapping[str, Scalar], *, before: str = "try ", after: str = "") -> Advice:
        return self.with_only({**self.settings, **changed}, before=before, after=after)

    def with_only(self, settings: Mapping[str, Scalar], *, before: str, after: str = "") -> Advice:
        """Whatever this trial was asked for with."""
        return Advice(f"{before}{self._line(settings)}{after}", asks=settings)

    def _line(self, settings: Mapping[str, Scalar]) -> str:
        """To paste."""
        words = ["vtune", "probe", *(["--study", self.study] if self.study is not None else [])]
        words += ["--results", self.results] if self.results is not None else []
        words += [word for name, value in settings.items() for word in ("--set", f"{name}={str(value).lower()}")]
        return shlex.join(words)


def next_steps(measured: Measurement, bottleneck: Bottleneck, machine: Machine, again: Again) -> list[Advice]:
    settings = measured.effective_settings
    to_mend = measured.repeated if measured.repeated is not None and measured.repeated.is_shown else None
    lines = [Advice(how_to_mend(to_mend))] if to_mend is not None else []
    waited = (measured.data_wait_fraction or 0.0) - (measured.other_loaders_wait_fraction or 0.0)
    if waited >= WAITS_LITTLE:
        lines += [*_workers(measured, machine, again), *_queue(measured, again)]
        if measured.fed_by:
            turned = f"settings turn the loader made at {measured.fed_by[0]}"
            lines.append(Advice(f"{turned}; the other loaders stay as they are"))
    # What workers gather goes with them at the epoch's end: where they persist it would last for the run.
    gather = any(one.who == "workers" for one in measured.ram_growth)
    if not gather and (without_s := _epoch_without_restarts(measured, again)) is not None:
        not_known = "; whether their memory would grow on then, a trial of it shows"
        anew = (
            f": starting workers anew is felt in so short an epoch (without it an epoch would take {seconds(without_s)}"
            f" instead of {seconds(_pass_s(measured))}){not_known if 'ram_growth' in measured.unknown else ''}"
        )
        lines.append(again.but({"persistent_workers": True}, after=anew))
    if bottleneck in ("validation", "checkpoint"):
        lines += [Advice(_less_often(pause)) for pause in in_rate_as(measured, bottleneck)]
    if bottleneck == "host":
        lines.append(Advice(_host(measured, waits=waited >= WAITS_LITTLE)))
    if bottleneck == "transfer":
        if settings.get("pin_memory") is False:
            lines.append(again.but({"pin_memory": True}, after=": copies from pinned memory need not be waited for"))
        overlap = "copies overlap with computing only with .to(device, non_blocking=True) from pinned memory"
        lines.append(Advice(overlap))
    if bottleneck == "compute":
        lines.append(Advice(_compute(measured)))
        if measured.tree_cores is not None and measured.tree_cores > CORES_FULL * machine.cores:
            threads = "the number of threads (OMP_NUM_THREADS) may matter more than workers"
            lines.append(Advice(f"all cores are busy: {threads}"))
    if again.precise or to_mend is not None:
        return lines  # a longer window was had already, or the mend changes the rate
    if measured.unsteady_because and measured.steps_measured and not is_calm(measured):
        lines.append(Advice("measure longer with --precise to be sure"))
    elif measured.tail is not None and measured.tail.matters and waited >= WAITS_LITTLE:
        lines.append(Advice("rare slow batches carry much of the time: --precise sees more of them"))
    return lines


def _compute(measured: Measurement) -> str:
    cost = measured.training_cost
    if (share := periodic_share(measured)) is not None and cost is not None and share > PERIOD_MUCH:
        return (
            f"look at what the training does every {cost.period_steps} steps: it takes {share:.0%} of the time"
            f" ({seconds(cost.period_extra_s or 0.0)} each)"
        )
    return "more workers or prefetching cannot help; a larger batch or cheaper compute may"


def periodic_share(measured: Measurement) -> float | None:
    """Of the time: what every n-th step does beside what all do."""
    cost, steps = measured.training_cost, measured.step_time_s
    if cost is None or not cost.period_steps or cost.period_extra_s is None or steps is None or steps.mean <= 0:
        return None
    return cost.period_extra_s / (cost.period_steps * steps.mean)


def no_faster(earlier: Sequence[TrialRecord], measured: Measurement) -> tuple[Mapping[str, Scalar], ...]:
    """Settings that were measured, of which nobody needs to hear that they are worth a try."""
    rate_ = measured.samples_per_s
    return tuple(
        record.settings
        for record in earlier
        if rate_ is not None
        and record.status is TrialStatus.COMPLETED
        and record.measurement.samples_per_s is not None
        and record.measurement.samples_per_s <= rate_
    )


def in_rate_as(measured: Measurement, *kinds: Bottleneck) -> list[Pause]:
    """Pauses of these kinds that come between the steps so often that the rate holds them."""
    return [pause for pause in measured.pauses if pause.what in kinds and pause.time_fraction is not None]


def gain_of(measured: Measurement, change: Change) -> tuple[WhatIf, float] | None:
    """Worth a word, or None."""
    found = next((one for one in measured.what_if if one.change == change), None)
    if found is None or not measured.samples_per_s:
        return None
    gain = found.samples_per_s / measured.samples_per_s
    return (found, gain) if gain >= WORTH_SAYING else None


def _predicted(found: tuple[WhatIf, float] | None) -> str:
    return f" (predicted: {rate(found[0].samples_per_s)} samples/s, {found[1]:.2g}×)" if found is not None else ""


def _workers(measured: Measurement, machine: Machine, again: Again) -> list[Advice]:
    workers = measured.effective_settings.get("workers")
    if not isinstance(workers, int):
        return []
    if measured.repeated is not None:
        return []  # they would only repeat more
    return [_steps_are_the_limit(measured) or _how_many(workers, measured, machine, again)]


def _how_many(workers: int, measured: Measurement, machine: Machine, again: Again) -> Advice:
    cost = measured.worker_cost
    if cost is not None and cost.delivering is not None and cost.delivering < workers:
        return Advice(
            f"only {cost.delivering} of {workers} workers still deliver: give the data set at least as many parts"
            " (shards, files) as workers"
        )
    more = min(max(1, workers * 2), _useful_workers(measured, machine))
    gain = gain_of(measured, "twice_the_workers")
    if more > workers and _cores_are_short(measured):
        return Advice(
            f"the cores are the limit ({machine.cores:g}), its processes wait for one: make a sample cheaper, or"
            " give it more cores"
        )
    if more <= workers:
        cores = machine.cores_to_plan_for
        return Advice(f"workers are as many as cores ({cores:g}): make a sample cheaper, or load less of it")
    if measured.what_if and gain is None:
        return Advice(
            f"{workers_text(more)} would hardly help: the replay of the loader says so; make a sample cheaper"
        )
    told = _predicted(gain) if more == max(1, workers * 2) else ""
    fit = _fitting_workers(workers, measured, again.ram_limit_bytes)
    if fit is not None and fit < more:
        if fit <= workers:
            return Advice(
                f"{workers_text(more)} would hardly fit the RAM limit{told}: make a worker smaller, or a sample cheaper"
            )
        more, told = fit, "; more would hardly fit the RAM limit"
    if again.is_tried("workers", more, measured.effective_settings):
        return Advice(f"{workers_text(more)}: measured in this study, and no faster; make a sample cheaper")
    unproven = _unproven(measured, again.ram_limit_bytes)
    return again.but({"workers": more}, before=f"try {workers_text(more)}: ", after=f"{told}{unproven}")


def _steps_are_the_limit(measured: Measurement) -> Advice | None:
    """The loader could feed much faster steps: a cheaper sample, or more workers, would win nothing."""
    made, loader = measured.samples_per_s, measured.loader_samples_per_s
    free = next((one.samples_per_s for one in measured.what_if if one.change == "data_free"), None)
    if not made or loader is None or free is None or gain_of(measured, "twice_the_workers") is not None:
        return None
    if free >= LITTLE_BY_DATA * made or loader < LOADER_TO_SPARE * made:
        return None
    return Advice(
        f"the steps are the limit: with data for free they would make {rate(free)} samples/s ({free / made:.3g}×), and"
        f" the loader alone could deliver {rate(loader)}; a larger batch or cheaper compute may help"
    )


def _queue(measured: Measurement, again: Again) -> list[Advice]:
    prefetch = measured.effective_settings.get("prefetch_factor")
    lines = []
    gain = gain_of(measured, "twice_the_prefetch")
    tried = isinstance(prefetch, int) and again.is_tried("prefetch_factor", 2 * prefetch, measured.effective_settings)
    worth = gain is not None or (isinstance(prefetch, int) and prefetch < 2 and not measured.what_if)
    if isinstance(prefetch, int) and worth and not tried:
        slack = f": more in advance gives slack for a slow batch{_predicted(gain)}"
        lines.append(again.but({"prefetch_factor": 2 * prefetch}, after=slack))
    unordered = gain_of(measured, "order_not_kept")
    if unordered is not None and not again.is_tried("in_order", False, measured.effective_settings):
        come = f" hands them over as they come{_predicted(unordered)}; the order of samples changes with it"
        lines.append(again.but({"in_order": False}, before="slow batches hold up finished ones: ", after=come))
    if (stored := gain_of(measured, "storage_free")) is not None:
        lines.append(Advice(f"faster storage, or data that fits the page cache, would help{_predicted(stored)}"))
    return lines


def _less_often(pause: Pause) -> str:
    fewer = ", or of fewer batches" if pause.what == "validation" else ""
    every = "" if pause.every_steps is None else f" than every {pause.every_steps:.0f} steps"
    return f"a {pause.what} less often{every}{fewer}: each takes {seconds(pause.seconds)}"


def _host(measured: Measurement, *, waits: bool) -> str:
    cannot = "" if waits else "; more workers cannot help"
    parts = outside(measured)
    if parts is not None:
        took = seconds(parts.seconds[parts.longest])
        match parts.longest:
            case "prepare":
                return (
                    f"look at what the training does with a batch before its model has it ({took} a step): in the data"
                    " set or its collate_fn, loader workers would do it beside the step"
                )
            case "loss":
                where = f"in its loss ({took} a step)"
            case "between":
                where = f"between two steps ({took})"
        return f"look at what the training does {where}: losses, metrics, .item() or logging{cannot}"
    longest = max(measured.stages, key=lambda one: one.host_s, default=None)
    where = f", most of all in the {longest.stage} stage ({seconds(longest.host_s)})" if longest is not None else ""
    return (
        f"look at what the training does between its kernels{where}: a loss or metric on the CPU, .item() or"
        f" logging every step{cannot}"
    )


def _unproven(measured: Measurement, limit_bytes: int | None) -> str:
    interval = measured.ram_projected_ci95
    if limit_bytes is None or interval is None or interval[1] <= limit_bytes:
        return ""
    return "; whether a whole run of it stays under the RAM limit, so short a trial cannot show"


def _cores_are_short(measured: Measurement) -> bool:
    """Workers that wait for a core would take it from each other, or from the training; not where others took it."""
    if (measured.others_cores or 0.0) >= OTHERS_CORES:
        return False
    queued = [use.queued_fraction for use in measured.processes if use.queued_fraction is not None]
    return max(queued, default=0.0) >= QUEUED_MUCH


def _useful_workers(measured: Measurement, machine: Machine) -> int:
    """As many as the cores can feed: workers that mostly wait for storage leave their core to others."""
    computing = measured.worker_cost.cpu_fraction if measured.worker_cost is not None else None
    return max(1, int(machine.cores_to_plan_for / max(computing if computing is not None else 1.0, MOST_WAITING)))


def _fitting_workers(workers: int, measured: Measurement, limit_bytes: int | None) -> int | None:
    """Under the limit, if one more takes as much as what is there takes on average, the training itself included."""
    needs = max(measured.ram_peak_bytes or 0, measured.ram_projected_bytes or 0)
    if limit_bytes is None or not needs or not workers:
        return None
    return workers + max(0, int((limit_bytes - needs) / (needs / (workers + 1))))


def _epoch_without_restarts(measured: Measurement, again: Again) -> float | None:
    """Seconds, where workers that stay would win something: of several epochs, and of a loader that stays, too."""
    settings, epoch_s = measured.effective_settings, _pass_s(measured)
    waited = measured.first_batch_s if measured.epoch_restart_wait_s is None else measured.epoch_restart_wait_s
    if not settings.get("workers") or settings.get("persistent_workers") is not False or measured.loader_rebuilt:
        return None
    if again.is_tried("persistent_workers", True, settings):
        return None
    if waited is None or not epoch_s or (measured.projected.epochs == 1 and measured.part_s is None):
        return None
    # Their first batch has to be made all the same.
    batch_s = measured.worker_cost.batch_s if measured.worker_cost is not None else 0.0
    without_s = epoch_s - max(0.0, min(waited, epoch_s) - batch_s)
    return without_s if epoch_s >= WORTH_SAYING * without_s else None


def _pass_s(measured: Measurement) -> float | None:
    """Seconds of one pass over the loader: of an epoch, or of the part that its loader gives."""
    return measured.projected.epoch_s if measured.part_s is None else measured.part_s
