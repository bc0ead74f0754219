"""From a trial's events to its numbers. Unknown stays None."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vtune.analysis.another_batch import batch_ratio
from vtune.analysis.consumed import with_consumed
from vtune.analysis.device import with_device
from vtune.analysis.draws import SlowShare
from vtune.analysis.gpus import with_gpus
from vtune.analysis.growth import run_length, with_growth
from vtune.analysis.growth_disk import with_disk
from vtune.analysis.host import with_outside
from vtune.analysis.memory import with_memory
from vtune.analysis.observed import Observed as Observed
from vtune.analysis.others import with_others
from vtune.analysis.pauses import Stop, seldom, stops_of
from vtune.analysis.project import project
from vtune.analysis.queues import with_queues
from vtune.analysis.rates import Rated, with_rates, workers_are_seen
from vtune.analysis.roles import Roles, settings_in_common
from vtune.analysis.steady import with_ground
from vtune.analysis.storage import with_storage
from vtune.analysis.tail import with_tail
from vtune.analysis.twin import REPLICATES
from vtune.analysis.validation import with_validation
from vtune.analysis.voxels import with_voxels
from vtune.analysis.what_if import with_what_if
from vtune.analysis.window import StepWindow, start_up_steps, step_windows, steps_of_stock
from vtune.domain.events import BatchLoaded, Fact
from vtune.domain.experiment import PlannedRun, Price
from vtune.domain.record import Measurement

# Replicates of a provisional answer: an interval that is good enough to end a window by.
QUICK = 60


def windows_measured(roles: Roles | None, loaded: Sequence[BatchLoaded], facts: Sequence[Fact]) -> Sequence[StepWindow]:
    """Steps after the start-up, epoch boundaries and seldom pauses apart: what the window counts."""
    if roles is None:
        return ()
    windows = step_windows(roles)
    return _regular(windows, roles, loaded, seldom(stops_of(roles, facts), windows))


def steps_measured(roles: Roles | None, loaded: Sequence[BatchLoaded], facts: Sequence[Fact]) -> int:
    return len(windows_measured(roles, loaded, facts))


def measure(
    observed: Observed,
    planned: PlannedRun,
    price: Price | None,
    *,
    batch_factor: float = 1.0,
    own: Measurement | None = None,
    earlier: SlowShare | None = None,
    cores: float | None = None,
    provisional: bool = False,
) -> Measurement:
    """`batch_factor`: the trial's effective batch over that of the run as it is planned, by the settings; `own`: of the
    user's own settings, by which it is measured. `earlier`: what the study's
    other trials know of slow batches. `provisional`: the rates alone, and quickly, for a trial that still runs."""
    roles = observed.roles
    windows = step_windows(roles) if roles is not None else []
    stops = stops_of(roles, observed.facts) if roles is not None else []
    apart = seldom(stops, windows)
    regular = _regular(windows, roles, observed.loaded, apart) if roles is not None else []
    measured = with_memory(Measurement(startup_s=_startup_s(observed)), observed.telemetry, roles)
    measured = with_others(measured, observed.telemetry, regular, cores)
    measured = with_gpus(
        measured,
        telemetry=observed.telemetry,
        gpus=observed.gpus,
        facts=observed.facts,
        spans=[(window.started_s, window.ended_s) for window in regular],
    )
    measured = with_device(
        measured,
        device_steps=observed.device_steps,
        stages=observed.stages,
        facts=observed.facts,
        roles=roles,
        regular=regular,
        stops=stops,
    )
    measured = with_validation(measured, roles, observed.facts)
    if roles is None:
        return replace(measured, effective_settings=settings_in_common(observed.facts))
    measured = replace(
        measured,
        first_batch_s=_first_batch_s(roles),
        effective_settings=roles.settings,
        steps_measured=len(regular),
        ranks=len(roles.ranks),
        loader_rebuilt=roles.rebuilds_its_loader,
        fed_by=tuple(one.loader.where for one in roles.feeders) if roles.beside else (),
    )
    measured = with_queues(measured, roles, observed.facts)
    if not regular:
        return measured
    rated = with_rates(
        measured,
        roles,
        observed.loaded,
        regular,
        device_steps=observed.device_steps,
        apart=[(stop.begun_s, stop.ended_s) for stop in apart],
        earlier=earlier,
        replicates=QUICK if provisional else REPLICATES,
        both_capacities=not provisional,
    )
    measured = rated.measured
    if not provisional or planned.iterations_per_epoch:
        measured = with_consumed(measured, observed)
    ratio = batch_ratio(measured, own) if own is not None else None
    batch_factor = batch_factor if ratio is None else ratio
    if not provisional:
        measured = with_storage(measured, observed.telemetry, observed.loaded, roles, regular)
        measured = _explained(with_voxels(measured, roles, observed.facts), rated, earlier, cores)
    measured = project(
        measured,
        planned,
        price,
        roles=roles,
        windows=windows,
        regular=regular,
        loaded=observed.loaded,
        stops=stops,
        started_s=observed.started_s,
        costs=None if provisional else rated.costs,
        batch_factor=batch_factor,
    )
    if provisional:
        return measured
    measured = with_outside(measured)
    length = run_length(measured, planned, batch_factor)
    measured = with_growth(
        measured,
        roles=roles,
        telemetry=observed.telemetry,
        facts=observed.facts,
        regular=regular,
        length=length,
        loaded=observed.loaded,
    )
    measured = with_disk(measured, roles, observed.facts, length.epoch)
    return with_ground(
        measured, rated.costs, roles=roles, regular=regular, facts=observed.facts, planned=planned, cores=cores
    )


def _explained(measured: Measurement, rated: Rated, earlier: SlowShare | None, cores: float | None) -> Measurement:
    if rated.costs is None:
        return measured
    return with_what_if(with_tail(measured, rated.costs, earlier), rated.costs, rated.slow, cores)


def _regular(
    windows: Sequence[StepWindow], roles: Roles, loaded: Sequence[BatchLoaded], apart: Sequence[Stop]
) -> list[StepWindow]:
    """A replayed window need not wait for the stock to be gone."""
    first = start_up_steps(windows)
    if not workers_are_seen(roles, loaded):
        first = max(first, *(steps_of_stock(windows, one.stock, one.loader.numbers) for one in roles.feeders), 0)
    stopped = {stop.step for stop in apart}
    return [window for window in windows[first:] if not window.boundary and window.number not in stopped]


def _first_batch_s(roles: Roles) -> float | None:
    """From asking for the first iterator to holding its first batch."""
    if not roles.batches:
        return None
    first = roles.batches[0]
    begun = next((p.begun_s for p in roles.passes if p.number == first.pass_number), None)
    return first.returned_s - (first.asked_s if begun is None else begun)


def _startup_s(observed: Observed) -> float | None:
    """From the start of the process to the training's first request for a batch (or its first step)."""
    roles = observed.roles
    if roles is None or observed.started_s is None:
        return None
    first = roles.batches[0].asked_s if roles.batches else roles.steps[0].ended_s
    begun = [one.begun_s for one in roles.passes if one.begun_s is not None]
    return max(0.0, min([first, *begun]) - observed.started_s)
