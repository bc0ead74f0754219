"""A launch's folder, before anything runs in it."""

from __future__ import annotations

from vtune.errors import UsageError
from vtune.execution.launch_prepare import locks_of
from vtune.execution.launch_running import settle
from vtune.execution.sweep import sweep_stale
from vtune.journal.launch_files import write_launch
from vtune.journal.links import refuse_links
from vtune.journal.paths import LaunchPaths
from vtune.launcher.plan import PlannedLaunch


def make_launch(launch: LaunchPaths, planned: PlannedLaunch) -> None:
    refuse_links(planned.study)
    settle(planned.study)
    try:
        launch.root.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(
            f"launch {planned.number} of study {planned.spec.study} was begun by another vtune this moment",
            hint="vtune report shows what runs",
        ) from None
    for number in planned.study.launch_numbers():
        # Whose guard and supervisor were killed both.
        sweep_stale(planned.study.launch(number).attempts)
    for lock in locks_of(planned.experiment.workload, planned.study):
        lock.parent.mkdir(parents=True, exist_ok=True)
    write_launch(launch, planned.spec)
