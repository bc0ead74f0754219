"""What changes from step to step: pure functions of its number, so there is no state to save."""

import math
from dataclasses import dataclass

from vtune.pipelines.unet3d.settings import TrainingSettings


def learning_rate(steps_done: int, training: TrainingSettings) -> float:
    """Linear warm-up, then half a cosine down to zero at the end of the last epoch."""
    total = training.max_epochs * training.train_iterations_per_epoch
    warmup = min(training.warmup_steps, total)
    if steps_done < warmup:
        return training.learning_rate * (steps_done + 1) / warmup
    progress = min(1.0, (steps_done - warmup) / max(1, total - warmup))
    return training.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))


def measures_surface(step: int, training: TrainingSettings) -> bool:
    """Whether a step of an epoch, counted from 0, has the surface distance in its loss. The first one has: what breaks
    or needs most memory should do so at once."""
    return step % training.surface_distance_interval == 0


@dataclass(frozen=True, slots=True)
class SurfaceSamples:
    """By their numbers in the stream, for workers that compute their part of the surface distance ahead of the step."""

    training: TrainingSettings
    ranks: int

    def __call__(self, number: int) -> bool:
        samples_per_step = self.training.accumulate_steps * self.training.train_batch_size * self.ranks
        step = number // samples_per_step % self.training.train_iterations_per_epoch
        return measures_surface(step, self.training)
