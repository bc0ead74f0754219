"""Trials of a surface in virtual time: nothing sleeps, nothing is started, and the folder looks like any other's."""

from __future__ import annotations

from collections.abc import Callable

from vtune.analysis.measure import steps_measured
from vtune.domain.effects import FindCeiling
from vtune.domain.machine import Machine
from vtune.domain.progress import TrialProgress, TuningEvent
from vtune.domain.trial import TrialOutcome, TrialSpec
from vtune.errors import UsageError
from vtune.execution.engines.simulated.folder import write_folder, write_spec
from vtune.execution.engines.simulated.launch import Launch
from vtune.execution.engines.simulated.memory import Held
from vtune.execution.engines.simulated.recording import Recording, record
from vtune.execution.engines.simulated.surface import Surface, settings_of
from vtune.execution.engines.simulated.telemetry import gpu_of, look_on
from vtune.execution.engines.simulated.training import Training
from vtune.execution.engines.simulated.watching import End, follow, interrupted
from vtune.execution.engines.simulated.weather import Weather
from vtune.execution.observer import Watch
from vtune.journal.paths import TrialPaths

LEADER_PID = 4000
# Between the end of a trial and the start of the next one.
BETWEEN_TRIALS_S = 2.0


class SimulatedEngine:
    """Its clock goes on from trial to trial, so that the machine's drift is the same for all that run in an hour."""

    def __init__(self, surface: Surface, *, launch_seed: int = 0, clock_s: float = 0.0) -> None:
        self.surface = surface
        self.clock_s = clock_s
        self._launches = 1_000_000 * launch_seed
        self._weather = Weather(surface.noise, surface.seed + 7919 * launch_seed)

    def run(
        self, spec: TrialSpec, folder: TrialPaths, watch: Watch, notify: Callable[[TuningEvent], None]
    ) -> TrialOutcome:
        _refuse_ceiling(spec, watch)
        folder.output.mkdir(exist_ok=True)
        write_spec(folder, spec)
        settings = settings_of(self.surface, spec.settings)
        launch = Launch(self.surface, settings, self._launches + spec.trial, self._weather)
        training = Training(self.surface, settings, launch, started_s=self.clock_s, pid=LEADER_PID)
        end, recording = _run_to_its_end(training, spec, watch, notify)
        outcome = TrialOutcome(
            ended_by=end.by, exit_code=end.exit_code, signal=end.signal, seconds=end.at_s - training.started_s
        )
        device = self.surface.device
        write_folder(
            folder,
            recording=recording,
            telemetry=look_on(training, Held(training), self._weather, end.at_s),
            gpus=() if device is None else (gpu_of(device),),
            started_s=training.started_s,
            pid=training.pid,
            outcome=outcome,
            last_words=end.words,
        )
        self.clock_s = end.at_s + BETWEEN_TRIALS_S
        return outcome


def machine_of(surface: Surface) -> Machine:
    """As the survey of a machine would tell of it."""
    box, device = surface.box, surface.device
    return Machine(
        host="simulated",
        kernel="none",
        cpu_model=None,
        cores=box.cores * box.threads_by_core,
        ram_bytes=box.ram_bytes,
        shm_bytes=box.shm_bytes,
        gpus=() if device is None else (device.name,),
        gpu_driver=None if device is None else "simulated",
    )


def _refuse_ceiling(spec: TrialSpec, watch: Watch) -> None:
    """An ordinary trial in its place would look like an answer."""
    if watch.ceiling or any(isinstance(effect, FindCeiling) for effect in spec.effects):
        raise UsageError(
            "a simulated training cannot be fed from memory: it has no ceiling to be found",
            hint="its rate without a loader is true_rate of the surface with samples that cost nothing",
        )


def _run_to_its_end(
    training: Training, spec: TrialSpec, watch: Watch, notify: Callable[[TuningEvent], None]
) -> tuple[End, Recording]:
    try:
        end = follow(training, watch, lambda steps: notify(_progress(training, spec, watch, steps)), beat=spec.beat)
        recording = _recording(training, end)
        steps = steps_measured(recording.roles, recording.loaded, recording.facts)
        notify(_progress(training, spec, watch, steps, end))
    except KeyboardInterrupt:
        # The first Ctrl-C keeps what was measured; a second one leaves.
        end = interrupted(training)
        recording = _recording(training, end)
    return end, recording


def _recording(training: Training, end: End) -> Recording:
    return record(training, end.at_s, end_reason="stop" if end.by_its_own_hand else None)


def _progress(training: Training, spec: TrialSpec, watch: Watch, steps: int, end: End | None = None) -> TrialProgress:
    return TrialProgress(
        spec=spec,
        phase="stepping" if end is None else "ending",
        steps=steps,
        steps_wanted=watch.window.steps,
        seconds=(training.now_s if end is None else end.at_s) - training.started_s,
        provisional=None if end is None else end.estimate,
    )
