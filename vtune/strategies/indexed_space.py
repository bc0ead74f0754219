"""A space of settings as numbers, which is all that a sampler sees: of each dimension the place of its choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vtune.domain.effects import Scalar
from vtune.domain.search import Dimension, Space

# One place for each dimension, in the space's order.
Code = tuple[int, ...]
# Of a dimension that has no meaning at these settings: prefetch without workers.
IDLE = -1
_ABSENT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """Plain numbers: they travel to another process."""

    sizes: tuple[int, ...]
    # Dimensions that mean nothing without workers; where the workers are chosen, and which places of it are none.
    conditional: tuple[int, ...] = ()
    workers: int | None = None
    without_workers: tuple[int, ...] = ()

    def idle(self, code: Sequence[int]) -> tuple[int, ...]:
        none = self.workers is not None and code[self.workers] in self.without_workers
        return self.conditional if none else ()

    def code(self, places: Sequence[int]) -> Code:
        """What asks for the same is the same."""
        idle = self.idle(places)
        return tuple(IDLE if at in idle else place for at, place in enumerate(places))


class IndexedSpace:
    """Settings leave out what the training is set to anyway; what that is, shows in the settings that do name it."""

    def __init__(self, space: Space) -> None:
        dimensions = space.dimensions
        workers = next((at for at, one in enumerate(dimensions) if one.name == "workers"), None)
        none = () if workers is None else enumerate(dimensions[workers].choices)
        self.axes = Axes(
            sizes=tuple(len(one.choices) for one in dimensions),
            conditional=tuple(at for at, one in enumerate(dimensions) if one.needs_workers),
            workers=workers,
            without_workers=tuple(place for place, choice in none if choice.get("workers") == 0),
        )
        self._places = tuple(_Places(one, space.settings) for one in dimensions)

    def code(self, settings: Mapping[str, Scalar]) -> Code | None:
        """None where they are not of this space. Names that it does not turn are not looked at."""
        places = [one.of(settings) for one in self._places]
        known = [IDLE if place is None else place for place in places]
        idle = self.axes.idle(known)
        if any(place is None and at not in idle for at, place in enumerate(places)):
            return None
        for at in idle:
            known[at] = IDLE
        return tuple(known)


class _Places:
    """Where settings stand in one dimension."""

    def __init__(self, dimension: Dimension, settings: Iterable[Mapping[str, Scalar]]) -> None:
        self._choices = dimension.choices
        self._names = tuple(sorted({name for choice in dimension.choices for name in choice}))
        self._known: dict[tuple[object, ...], int | None] = {}
        shown = {self._shown(one) for one in settings}
        self._own = self._never_named(shown)

    def of(self, settings: Mapping[str, Scalar]) -> int | None:
        shown = self._shown(settings)
        try:
            return self._known[shown]
        except KeyError:
            return self._known.setdefault(shown, self._find(shown))

    def _shown(self, settings: Mapping[str, Scalar]) -> tuple[object, ...]:
        # Asked for each of many thousand settings; a generator would take twice as long.
        if len(self._names) == 1:
            return (settings.get(self._names[0], _ABSENT),)
        return tuple([settings.get(name, _ABSENT) for name in self._names])

    def _find(self, shown: tuple[object, ...]) -> int | None:
        fits = self._fits(shown)
        if not fits:
            return None
        own = self._choices[self._own] if self._own is not None else {}
        if all(value is _ABSENT for value in shown):
            return self._own

        def as_own(place: int) -> int:
            """How much of what is left out is as the user has it."""
            left_out = [name for name, value in zip(self._names, shown, strict=True) if value is _ABSENT]
            return sum(self._choices[place].get(name, _ABSENT) == own.get(name, _ABSENT) for name in left_out)

        return max(fits, key=lambda place: (as_own(place), -place))

    def _fits(self, shown: tuple[object, ...]) -> list[int]:
        named = [(name, value) for name, value in zip(self._names, shown, strict=True) if value is not _ABSENT]
        return [
            place
            for place, choice in enumerate(self._choices)
            if all(choice.get(name, _ABSENT) == value for name, value in named)
        ]

    def _never_named(self, all_shown: Iterable[tuple[object, ...]]) -> int | None:
        """The user's own choice: the only one that no settings have to name."""
        if {} in self._choices:
            return self._choices.index({})
        named: set[int] = set()
        for shown in all_shown:
            fits = self._fits(shown) if any(value is not _ABSENT for value in shown) else []
            if len(fits) == 1:
                named.add(fits[0])
        return next((place for place in range(len(self._choices)) if place not in named), None)
