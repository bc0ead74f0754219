"""What a training's log tells: steps, epochs, a progress bar's rate, errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from vtune.domain.watching import LogProgress, Mark, Told

# Longer ones count nothing: they are an identifier, a hash, a date.
_COUNT = r"(\d{1,12})"
_OF = rf"(?:\s*(?:/|of)\s*{_COUNT}(?!\d))?"
_BAR = re.compile(rf"(?<!\d){_COUNT}/{_COUNT} \[[\d:]+<[^,\]]*,\s*(?:(\d{{1,12}}(?:\.\d*)?)\s?(\w+)/(\w+))?")
_STEP = re.compile(
    r"(?<![\w.])(?:(?:train|global)[ _-]?)*(?:steps?|iter(?:ation)?s?|it|batch)(?:[\s:=#\[(]+|(?=\d))"
    rf"{_COUNT}(?![\d.]){_OF}",
    re.IGNORECASE,
)
_EPOCH = re.compile(rf"(?<![\w.])epochs?(?:[\s:=#\[(]+|(?=\d)){_COUNT}(?![\d.]){_OF}", re.IGNORECASE)
_RAISED = re.compile(r"\s*(?:\[rank\d+\]:\s*)?[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b(?::.*)?$")
_ERRORS = tuple(
    re.compile(pattern)
    for pattern in (
        r"Traceback \(most recent call last\)",
        r"CUDA out of memory|CUDA error|OutOfMemoryError",
        r"^\s*Killed\s*$|is killed by signal|Bus error|Segmentation fault|exited unexpectedly",
        r"(?i:loss|grad|norm)\S*\s*[:=]?\s*(?:tensor\()?(?:nan|NaN|NAN|inf)\b|(?i:non-?finite)",
    )
)
# Rates are of the last minute: a validation should be over in the number soon.
_RATE_OVER_S = 60.0


def told_by(line: str) -> Told | None:
    """None of a line that tells nothing."""
    error = line.strip() if any(kind.search(line) for kind in _ERRORS) or _RAISED.match(line) else None
    bar, epoch = _BAR.search(line), _EPOCH.search(line)
    # Behind the bar its own figures would be read as steps.
    step = _STEP.search(line) if bar is None else None
    if not (error or bar or epoch or step):
        return None
    of_epoch = {"epoch": _number(epoch, 1), "epochs": _number(epoch, 2)}
    if bar is not None:
        return Told(step=int(bar[1]), steps=int(bar[2]), steps_per_s=_rate(bar), error=error, **of_epoch)
    return Told(step=_number(step, 1), steps=_number(step, 2), error=error, **of_epoch)


def progress_of(marks: Sequence[Mark], *, epochs: int | None = None) -> LogProgress:
    """`epochs`: what the user says that the run has."""
    if not marks:
        return LogProgress(epochs=epochs)
    newest = {
        name: next((v for mark in reversed(marks) if (v := getattr(mark.told, name)) is not None), None)
        for name in ("step", "steps", "epoch", "epochs", "steps_per_s")
    }
    rate = _measured_rate(marks) or newest["steps_per_s"]
    step, steps, epoch = newest["step"], newest["steps"], newest["epoch"]
    epochs = epochs or newest["epochs"]
    left_s = None
    if rate and step is not None and steps and step <= steps:
        to_come = 0 if epochs is None else (None if epoch is None else max(0, epochs - epoch))
        # Without a word about epochs, the steps that are counted are taken for the run's only where no bar counts them.
        if to_come is not None and (epochs is not None or (newest["steps_per_s"] is None and epoch is None)):
            left_s = (steps - step + to_come * steps) / rate
    return LogProgress(step=step, steps=steps, epoch=epoch, epochs=epochs, steps_per_s=rate, left_s=left_s)


def errors_of(marks: Sequence[Mark], most: int = 3) -> tuple[str, ...]:
    """The last ones, each once. What was raised says more than that something was."""
    found = list(dict.fromkeys(mark.told.error for mark in marks if mark.told.error is not None))
    telling = [text for text in found if not text.endswith("(most recent call last):")]
    return tuple((telling or found)[-most:])


def _measured_rate(marks: Sequence[Mark]) -> float | None:
    """Between the first and the last line that came while we looked. Lines that came together count as their last."""
    at: dict[float, tuple[int, int | None]] = {}
    newest_s = max((mark.t_s for mark in marks if mark.t_s is not None), default=0.0)
    for mark in marks:
        if mark.t_s is not None and mark.told.step is not None and mark.t_s >= newest_s - _RATE_OVER_S:
            at[mark.t_s] = mark.told.step, mark.told.steps
    times = sorted(at)
    if len(times) < 2:
        return None
    done, furthest = 0, at[times[0]][0]
    for before, after in pairwise(times):
        (_, of), (new, _) = at[before], at[after]
        if new >= furthest:
            done += new - furthest
        elif new > furthest / 2:  # another rank's line, a little behind
            continue
        else:
            done += new + (max(0, of - furthest) if of is not None else 0)
        furthest = new
    return done / (times[-1] - times[0]) if done else None


def _rate(bar: re.Match[str]) -> float | None:
    """3.2it/s, or 1.5s/it where a step takes longer than a second."""
    if bar[3] is None:
        return None
    value = float(bar[3])
    if bar[5] == "s":
        return value
    return 1 / value if bar[4] == "s" and value > 0 else None


def _number(found: re.Match[str] | None, group: int) -> int | None:
    return int(found[group]) if found is not None and found[group] is not None else None
