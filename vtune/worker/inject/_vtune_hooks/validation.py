"""What a validation takes of the device: the most that was allocated from its first batch on, told while it lasts.

Its batches come without gradients, or from a loader whose batches lead to no backward. Only of the main thread, and
only where there is a device. Not yet run on a GPU.
"""

from __future__ import annotations

from typing import Any

from _vtune_hooks import memory, passes, recorder

# As for the moments of a step: loaders asked one right after the other feed the same.
AT_ONCE_S = 0.002
TELL_EVERY_S = 1.0
# One batch before a backward may feed it, whatever its gradients; that many without one do not.
SURELY = 3


class _Segment:
    """A pass, or a part of one, that leads to no step."""

    def __init__(self, found: passes.Pass) -> None:
        self.found = found
        self.batches = 0
        self.shape: tuple[int, ...] = ()
        self.span: memory.Span | None = None
        self.index = 0
        self.told_s = 0.0


class Validation:
    def __init__(self) -> None:
        self._segment: _Segment | None = None
        self._returned_s = 0.0
        # Delivered since the last backward: what it may be made from.
        self._recent: dict[str, tuple[passes.Pass, bool]] = {}
        # Keys of loaders whose batches led to a backward, by whether gradients were on when they came.
        self._feeding: dict[bool, set[str]] = {True: set(), False: set()}

    def batch_came(
        self, found: passes.Pass, shape: tuple[Any, ...] | None, asked: float, returned: float, grad: bool
    ) -> None:
        key = found.seen.key
        if asked - self._returned_s > AT_ONCE_S:
            self._recent.clear()
        self._returned_s = returned
        self._recent[key] = found, grad
        if key in self._feeding[grad] or (grad and not self._feeding[True]):
            # The training's, or nobody knows yet whose.
            self._close(returned)
            return
        segment = self._segment
        if segment is None or segment.found is not found:
            self._close(returned)
            segment = self._segment = _Segment(found)
        segment.batches += 1
        self._look(segment, returned)
        if shape is not None and _size(shape) > _size(segment.shape):
            segment.shape = tuple(int(size) for size in shape)

    def backward_begins(self, now: float) -> None:
        if not self._recent:
            return
        segment = self._segment
        is_one = segment is not None and (segment.batches >= SURELY or segment.found.ended)
        for key, (found, grad) in self._recent.items():
            if not found.ended and not (is_one and segment is not None and found is segment.found):
                self._feeding[grad].add(key)
        self._recent.clear()
        if is_one:
            self._close(now)
        elif segment is not None:
            memory.end_span(segment.span)
            self._segment = None

    def end(self, now: float) -> None:
        self._close(now)

    def lasts(self) -> bool:
        return self._segment is not None

    def _look(self, segment: _Segment, now: float) -> None:
        if segment.span is None:
            device = memory.meet()
            if device is None or not memory.has_held(device, index := int(device.index_now())):
                return
            segment.index, segment.span, segment.told_s = index, memory.begin_span(), now
        elif segment.batches >= SURELY and (
            now - segment.told_s >= TELL_EVERY_S or segment.batches & (segment.batches - 1) == 0
        ):
            self._tell(segment, now)

    def _close(self, now: float) -> None:
        segment, self._segment = self._segment, None
        if segment is not None and segment.span is not None:
            self._tell(segment, now)
            memory.end_span(segment.span)

    def _tell(self, segment: _Segment, now: float) -> None:
        segment.told_s = now
        most = None if segment.span is None else memory.most_in(segment.span)
        if most is not None:
            recorder.fact(
                "validation",
                device=segment.index,
                loader=segment.found.loader,
                batches=segment.batches,
                allocated_peak=most,
                shape=segment.shape,
                **{"pass": segment.found.number},
            )


def _size(shape: tuple[Any, ...]) -> int:
    size = 1 if shape else 0
    for one in shape:
        size *= int(one)
    return size
