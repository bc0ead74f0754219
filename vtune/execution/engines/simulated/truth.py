"""What a training would really come to, by simulating it for long: no weather, no luck of one launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vtune.domain.effects import Scalar
from vtune.execution.engines.simulated.launch import Launch
from vtune.execution.engines.simulated.surface import Noise, Settings, Surface, settings_of
from vtune.execution.engines.simulated.training import Training
from vtune.execution.engines.simulated.weather import Weather

QUIET = Noise(launch_sd=0.0)
# Long runs are of other samples than any trial's, unless the surface is seeded.
TRUTH_LAUNCH = 2**31
# Of a long run, what is left out at its start: start-up, the first stock.
LEFT_OUT = 0.1
# Epochs of a training are alike: three of at most so many batches tell what a restart costs.
EPOCHS_SEEN = 3
LONGEST_EPOCH = 1500
ALL_STEPS = 2**62


def true_rate(surface: Surface, asked: Mapping[str, Scalar], *, batches: int = 20_000) -> float:
    """Samples a second in the long run, within one endless epoch."""
    settings = settings_of(surface, asked)
    training = quiet_training(replace(surface, samples_per_epoch=None), settings)
    steps = -(-batches // settings.accumulate)
    training.go_on(steps)
    begin = training.steps[int(LEFT_OUT * steps)].ended_s
    taken = sum(one.samples for one in training.deliveries if one.returned_s > begin)
    return taken / (training.steps[-1].ended_s - begin)


def true_whole_run_rate(surface: Surface, asked: Mapping[str, Scalar], *, batches: int = 20_000) -> float:
    """Samples a second over all of the planned epochs, start-up and restarts included."""
    settings = settings_of(surface, asked)
    rate = true_rate(surface, asked, batches=batches)
    if surface.samples_per_epoch is None:
        return rate
    samples = surface.samples_per_epoch
    seen = min(samples, LONGEST_EPOCH * settings.batch)
    training = quiet_training(
        replace(surface, samples_per_epoch=seen, epochs=EPOCHS_SEEN, seeded=surface.seeded), settings
    )
    training.go_on(ALL_STEPS)
    ends = [one.ended_s for one in training.passes if one.ended_s is not None]
    longer_s = (samples - seen) / rate
    first_s = ends[0] - training.started_s + longer_s
    epoch_s = (ends[-1] - ends[0]) / (len(ends) - 1) + longer_s
    return samples * surface.epochs / (first_s + (surface.epochs - 1) * epoch_s)


def quiet_training(surface: Surface, settings: Settings) -> Training:
    surface = replace(surface, noise=QUIET)
    launch = Launch(surface, settings, TRUTH_LAUNCH, Weather(QUIET, surface.seed))
    return Training(surface, settings, launch, started_s=0.0, pid=1)
