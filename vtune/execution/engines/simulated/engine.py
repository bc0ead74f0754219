"""Trials of a surface in virtual time: nothing sleeps, nothing is started, and the folder looks like any other's."""

from __future__ import annotations

from collections.abc import Callable

from vtune.analysis.measure import steps_measured
from vtune.domain.machine import Machine
from vtune.domain.progress import TrialProgress, TuningEvent
from vtune.domain.record import Measurement
from vtune.domain.trial import TrialOutcome, TrialSpec
from vtune.execution.engines.simulated.folder import write_folder, write_spec
from vtune.execution.engines.simulated.launch import Launch
from vtune.execution.engines.simulated.memory import Held
from vtune.execution.engines.simulated.recording import Recording, record
from vtune.execution.engines.simulated.surface import Surface, settings_of
from vtune.execution.engines.simulated.telemetry import gpu_of, look_on
from vtune.execution.engines.simulated.training import Training
from vtune.execution.engines.simulated.watching import follow
from vtune.execution.engines.simulated.weather import Weather
from vtune.execution.trial import Watch
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
        folder.output.mkdir(exist_ok=True)
        write_spec(folder, spec)
        settings = settings_of(self.surface, spec.settings)
        launch = Launch(self.surface, settings, self._launches + spec.trial, self._weather)
        training = Training(self.surface, settings, launch, started_s=self.clock_s, pid=LEADER_PID)
        end = follow(training, watch)
        held = Held(training)
        recording = record(training, end.at_s, end_reason="stop" if end.by_its_own_hand else None)
        outcome = TrialOutcome(
            ended_by=end.by, exit_code=end.exit_code, signal=end.signal, seconds=end.at_s - training.started_s
        )
        device = self.surface.device
        write_folder(
            folder,
            recording=recording,
            telemetry=look_on(training, held, self._weather, end.at_s),
            gpus=() if device is None else (gpu_of(device),),
            started_s=training.started_s,
            pid=training.pid,
            outcome=outcome,
            last_words=end.words,
        )
        self.clock_s = end.at_s + BETWEEN_TRIALS_S
        notify(_progress(spec, recording, watch, outcome.seconds, end.estimate))
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


def _progress(
    spec: TrialSpec, recording: Recording, watch: Watch, seconds: float, estimate: Measurement | None
) -> TrialProgress:
    return TrialProgress(
        spec=spec,
        phase="ending",
        steps=steps_measured(recording.roles, recording.loaded),
        steps_wanted=watch.window.steps,
        seconds=seconds,
        provisional=estimate,
    )
