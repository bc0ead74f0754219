"""What a walk that turned one knob at a time did not see, as far as the model can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vtune.analysis.compare import widening_for
from vtune.analysis.model.predict import Model
from vtune.domain.effects import Scalar
from vtune.domain.experiment import Limits
from vtune.domain.phases import Missed
from vtune.domain.record import TrialRecord

# Less than this is no news: in a race, settings that are hardly closer count as equal.
LEAST_GAIN = 1.03


def missed(
    model: Model, candidates: Sequence[Mapping[str, Scalar]], best: TrialRecord, limits: Limits | None = None
) -> Missed | None:
    """The fastest of the candidates that fit, where even the least of what it is predicted to gain over the best that
    was measured is worth a word. The fastest of many predictions is fast by luck as well, so that least holds for all
    of them together."""
    limits = limits or Limits()
    ran = {**best.settings, **best.measurement.effective_settings}
    known = [
        (predicted.samples_per_s, predicted, settings)
        for settings, predicted in zip(candidates, model.predict_all(candidates), strict=True)
        if predicted is not None
    ]
    wider = widening_for(len(known))
    for _, predicted, settings in sorted(known, key=lambda one: -one[0]):
        gain = model.gain(settings, over=ran)
        if gain is None or gain.value <= LEAST_GAIN:
            return None
        if gain.ci95 is None:
            continue
        least = gain.value * (gain.ci95[0] / gain.value) ** wider
        if least > LEAST_GAIN and model.fits(settings, limits):
            return Missed(settings=dict(settings), predicted=predicted, gain=gain.value, least_gain=least)
    return None
