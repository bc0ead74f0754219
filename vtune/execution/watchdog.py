"""Ends a trial soon after it passes its RAM limit, and before the machine suffers: when to look, and what is too much.

Far from the limit a look is a few short files, ten times a second. Near it looks come faster than the rest can fill up.
Loaded by the supervisor, like process_tree; it decides, the supervisor acts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from vtune.execution.watchdog_reading import GroupsAround, TreeReading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vtune.execution.memory_group import MemoryGroup

# What one core fills with fresh pages in a second (measured: two cores fill 4.3 GB), to be reckoned with for each
# process that has a core: the next look comes when at that pace half of the rest would be gone.
FILLED_PER_S = 2 * 2**30
CORES = os.cpu_count() or 1
RAREST_S, CLOSEST_S = 0.1, 0.01
# Where it does grow so fast that the limit is passed between two such looks.
CLOSEST_GROWING_S = 0.002
# Of a core, far from the limit; within a tenth of it the looks may cost what they must.
SHARE = 0.005
NEAR, NEAR_SHARE = 0.9, 0.1
# And where the rest could be filled before the next look that may cost no more than that.
SUDDEN_SHARE = 0.02
# And from half of the limit on, for what no cheap number shows.
MIDDLE_SHARE = 0.05
# Reading proportional sizes again and again is for the last moments before a limit only: at most this part of the time.
EXACT_SHARE = 0.15
# When it seems to be over the limit by this much, they come as fast as they can. Cheap numbers are off by no more.
SURELY = 0.02
# An exact reading takes milliseconds a process, in which the tree goes on growing: where it would grow by this part of
# the limit, the reading is left out if the sum alone will decide within that time.
OUTGROWN = 0.005
PACE_OVER_S = 0.05
# The tree is listed anew so often; sooner when memory went that no known process holds.
TREE_S = 1.0
UNACCOUNTED_BYTES = 64 * 2**20
# Near the limit sooner: when it is this part of the rest, as far as free memory tells so little.
UNACCOUNTED_OF_REST, UNACCOUNTED_LEAST = 1 / 4, 4 * 2**20
# While others fill the machine, it is seen so often whether the trial has become the one to blame.
SHORT_S = 0.5
# /dev/shm with less than this free for so long: its next page is a bus error.
SHM_FULL_BYTES, SHM_FULL_S = 64 * 2**10, 1.0


class Watchdog:
    """`limits`: the trial's limits.json. `pids`: the trial's tree, listed anew at each call."""

    def __init__(
        self,
        limits: dict[str, Any],
        group: MemoryGroup | None,
        pids: Callable[[], Sequence[int]],
        *,
        reading: TreeReading | None = None,
        now_s: float,
        clock: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self._clock, self._spent = clock, spent
        self._limit: int | None = limits.get("ram_bytes")
        self._floor: int | None = limits.get("floor_bytes")
        self._group, self._list, self._reading = group, pids, reading or TreeReading()
        self._around = GroupsAround([tuple(one) for one in limits.get("groups_around", ())])
        self._shm_bytes = self._reading.shm_bytes()
        self._shm_left_at_start = self._reading.shm_left_bytes() or 0
        self._shm_full_since_s: float | None = None
        self._shm_due_s = now_s
        self._pids: Sequence[int] = ()
        self._tree_due_s = now_s
        available, shared = self._reading.machine()
        self._available_at_start, self._shared_at_start = self._available(available), shared or 0
        self._around_left: int | None = None
        self._around_due_s = now_s
        # The last exact reading, and what the cheap numbers said at that moment.
        self._exact: int | None = None
        self._held_then = self._held_now = self._anonymous_then = self._shared_then = 0
        self._hidden_due_s = now_s
        self._pids_then: Sequence[int] = ()
        self._left_then: int | None = None
        self._left_at_listing: int | None = None
        self._exact_due_s = self._exact_next_s = now_s
        self._cannot_be_exact = False
        # How long the last exact reading took, and how fast the sum of what processes hold has grown.
        self._exact_took_s = 0.0
        self._pace = 0.0
        self._sums: list[tuple[float, int]] = []
        self._held_at_listing, self._relist_due_s = 0, now_s
        self._short_due_s = now_s
        # What listings and exact readings took of this look: they have a pace of their own.
        self._dear_s = 0.0
        # As far as the cheap numbers tell: now, and at the look before.
        self._estimate: int | None = None
        self._before: tuple[float, int] | None = None
        self._cost_s = float("inf")
        self.due_s = now_s
        # The most that was seen for sure.
        self.peak_bytes: int | None = None

    def look(self, now_s: float) -> dict[str, Any] | None:
        """What was passed, or None."""
        begun_s, self._dear_s = self._spent(), 0.0
        machine_left, shared = self._reading.machine()
        left = self._left(machine_left, now_s)
        over = (
            self._over_by_the_group()
            if self._group is not None
            else self._over_by_the_tree(machine_left, shared, now_s)
        )
        over = over or self._machine_is_short(left, now_s) or self._shm_is_full(now_s)
        self.due_s = now_s + self._pause_s(now_s, left, cost_s=self._spent() - begun_s - self._dear_s)
        return over

    # --- the trial's own limit ---

    def _over_by_the_group(self) -> dict[str, Any] | None:
        assert self._group is not None
        used = self._group.used_bytes()
        if used is not None:
            self._estimate = used
            self._sure(used)
        if self._group.oom_kills() and self._group.was_at_wall() is not False:
            return self._passed("kernel", self.peak_bytes)  # what is left of it now says nothing
        return self._passed("ram", used) if _more(used, self._limit) else None

    def _over_by_the_tree(self, left: int | None, all_shared: int | None, now_s: float) -> dict[str, Any] | None:
        if now_s >= self._tree_due_s:
            self._list_tree(left, now_s)
        anonymous, shared = self._held(all_shared)
        if now_s >= self._relist_due_s and self._is_unaccounted(left, sum(anonymous) + shared):
            self._list_tree(left, now_s)
            anonymous, shared = self._held(all_shared)
        self._held_now = sum(anonymous) + shared
        self._estimate = self._estimated(self._held_now, left)
        self._look_at_pace(sum(anonymous), now_s)
        is_doubtful = False
        if self._limit is not None and self._exact is not None and self._pids_then == self._pids:
            # Nobody forked since: whatever was added is nobody else's, so there is no need to read it exactly, …
            added = self._exact + sum(anonymous) - self._anonymous_then
            # … unless it was taken over from shared memory, or so little that the cheap numbers' own error may be it.
            sure = added - max(0, self._shared_then - shared)
            off = min(SURELY * self._limit, 2 * self._reading.lag_bytes(len(self._pids)))
            if sure > self._limit + off:
                return self._passed("ram", sure)
            grows = self._pace * self._exact_took_s
            if grows > OUTGROWN * self._limit and sure + grows > self._limit + off:
                return None  # before an exact reading were done, the sum will have decided
            is_doubtful = added > self._limit and now_s >= self._exact_next_s
        if is_doubtful or self._is_exact_reading_due(now_s):
            exact = self._read_exactly(anonymous, shared, left, now_s)
            if _more(exact, self._limit):
                return self._passed("ram", exact)
        if not self._cannot_be_exact:
            return None
        # What one process holds is sure; nobody is ended for pages that may be shared.
        largest = max(anonymous, default=0)
        return self._passed("ram", largest) if _more(largest, self._limit) else None

    def _is_exact_reading_due(self, now_s: float) -> bool:
        if self._limit is None or self._estimate is None:
            return False
        if self._estimate > self._limit + SURELY * self._limit:
            return now_s >= self._exact_next_s
        if self._estimate > self._limit:
            return now_s >= self._exact_due_s
        if self._held_now > self._limit and now_s >= self._hidden_due_s:
            return True  # copies on write do not even show in free memory while others give theirs back
        # Shortly before the limit once, so that what is added from then on is known without another one.
        return self._estimate > NEAR * self._limit and now_s >= self._exact_due_s and self._pids_then != self._pids

    def _look_at_pace(self, anonymous: int, now_s: float) -> None:
        """Processes that compute in turns seem to rest between two close looks."""
        while len(self._sums) > 1 and now_s - self._sums[1][0] >= PACE_OVER_S:
            del self._sums[0]
        if self._sums and now_s > self._sums[0][0]:
            since = (self._sums[0], self._sums[-1])
            self._pace = max(0.0, *((anonymous - then) / (now_s - then_s) for then_s, then in since))
        self._sums.append((now_s, anonymous))

    def _held(self, shared: int | None) -> tuple[list[int], int]:
        """Anonymous memory of each process, and what came to be shared memory since the start, whosever it is."""
        new_shared = max(0, shared - self._shared_at_start) if shared is not None else 0
        return self._reading.anonymous_bytes(self._pids), new_shared

    def _estimated(self, held: int, left: int | None) -> int:
        """Pages that are copied on write show in the machine's free memory, and in no cheap number of the tree."""
        if self._exact is None:
            return held
        taken = self._left_then - left if self._left_then is not None and left is not None else 0
        return min(held, self._exact + max(0, held - self._held_then, taken))

    def _read_exactly(self, anonymous: list[int], shared: int, left: int | None, now_s: float) -> int | None:
        begun_s, since_s = self._spent(), self._clock()
        reading = self._reading.exact_bytes(self._pids)
        cost_s = self._spent() - begun_s
        self._dear_s += cost_s
        self._exact_took_s = self._clock() - since_s
        self._exact_due_s, self._exact_next_s = now_s + cost_s / EXACT_SHARE, now_s + 2 * cost_s
        self._cannot_be_exact = reading is None
        if reading is None:
            # One process may be somebody else's for a moment; where all are, or the kernel is old, it stays so.
            self._exact_due_s = self._exact_next_s = self._hidden_due_s = now_s + max(RAREST_S, cost_s / MIDDLE_SHARE)
            return None
        exact, self._anonymous_then = reading
        self._exact, self._left_then, self._pids_then = exact, left, self._pids
        self._hidden_due_s = now_s + cost_s / (MIDDLE_SHARE if 2 * exact > (self._limit or 0) else SHARE)
        self._shared_then, self._held_then = shared, sum(anonymous) + shared
        self._estimate = exact
        self._sure(exact)
        return exact

    def _list_tree(self, left: int | None, now_s: float) -> None:
        begun_s = self._spent()
        self._pids = sorted(self._list())
        cost_s = self._spent() - begun_s
        self._dear_s += cost_s
        self._tree_due_s = now_s + max(TREE_S, cost_s / SHARE)
        # When others take memory all the time, the listings must not follow each of their steps.
        self._relist_due_s = now_s + 10 * cost_s
        self._left_at_listing = left
        self._held_at_listing = sum(self._reading.anonymous_bytes(self._pids))

    def _is_unaccounted(self, left: int | None, held: int) -> bool:
        if left is None or self._left_at_listing is None:
            return False
        rest = UNACCOUNTED_BYTES if self._limit is None else self._limit - (self._estimate or 0)
        most = min(UNACCOUNTED_BYTES, max(UNACCOUNTED_LEAST, UNACCOUNTED_OF_REST * rest))
        return self._left_at_listing - left > held - self._held_at_listing + most

    # --- the machine ---

    def _available(self, machine: int | None) -> int | None:
        known = [b for b in (machine, self._around.available_bytes()) if b is not None]
        return min(known, default=None)

    def _left(self, machine: int | None, now_s: float) -> int | None:
        """Of the machine, or of a group around vtune. The counts of a group are dear to read on a large machine."""
        if now_s >= self._around_due_s:
            self._around_left = self._around.available_bytes()
            rest = (self._around_left or 0) - (self._floor or 0)
            self._around_due_s = now_s + min(1.0, max(CLOSEST_S, rest / (2 * FILLED_PER_S)))
        known = [b for b in (machine, self._around_left) if b is not None]
        return min(known, default=None)

    def _machine_is_short(self, left: int | None, now_s: float) -> dict[str, Any] | None:
        if self._floor is None or left is None or left >= self._floor or now_s < self._short_due_s:
            return None
        self._short_due_s = now_s + SHORT_S
        if self._group is not None:
            used = self._group.used_bytes()
        else:
            self._list_tree(left, now_s)
            anonymous, shared = self._held(self._reading.machine()[1])
            used = self._read_exactly(anonymous, shared, left, now_s)
            used = max(anonymous, default=0) if used is None else used
        # When it is others who took the memory, ending the trial would free little.
        gone = None if self._available_at_start is None else self._available_at_start - left
        if used is None or gone is None or used < gone / 2:
            return None
        return {**self._passed("machine", used), "left_bytes": left, "limit_bytes": self._floor}

    def _shm_is_full(self, now_s: float) -> dict[str, Any] | None:
        if self._shm_left_at_start <= SHM_FULL_BYTES:
            return None
        left, size = self._reading.shm_left_bytes(), self._shm_bytes
        if left is None or left >= SHM_FULL_BYTES:
            self._shm_full_since_s = None
            return None
        self._shm_full_since_s = self._shm_full_since_s or now_s
        if now_s - self._shm_full_since_s < SHM_FULL_S or now_s < self._shm_due_s:
            return None
        begun_s = self._spent()
        held = self._reading.held_in_shm_bytes(sorted(self._list()))
        cost_s = self._spent() - begun_s
        self._dear_s += cost_s
        self._shm_due_s = now_s + max(SHM_FULL_S, cost_s / SHARE)
        # When it is others who filled it, ending the trial would free little.
        if held < (self._shm_left_at_start - left) / 2:
            return None
        return {**self._passed("shm", None), "left_bytes": left, "limit_bytes": size}

    # --- the next look ---

    def _pause_s(self, now_s: float, left: int | None, *, cost_s: float) -> float:
        rests = [] if left is None or self._floor is None else [left - self._floor]
        share, seen = SHARE, 0.0
        # A group's wall holds what comes between two looks; without one, each process may fill memory on its own core.
        fillers = 1 if self._group is not None else min(CORES, max(1, len(self._pids)))
        filled_per_s = float(FILLED_PER_S * fillers)
        # One look that found its files cold, or a busy machine, is no reason to look away for long.
        cost_s, self._cost_s = min(cost_s, self._cost_s), cost_s
        if self._limit is not None and self._estimate is not None:
            rests.append(self._limit - self._estimate)
            if self._before is not None and now_s > self._before[0]:
                seen = max(self._pace, (self._estimate - self._before[1]) / (now_s - self._before[0]))
            self._before = (now_s, self._estimate)
            if self._estimate > NEAR * self._limit:
                share = NEAR_SHARE
            elif filled_per_s * cost_s / SHARE > rests[-1]:
                share = SUDDEN_SHARE
        pace = max(filled_per_s, seen)
        rest = min(rests, default=0.2 * pace)
        pause_s = min(RAREST_S, max(CLOSEST_S, rest / (2 * pace)))
        if self._limit is not None and seen * pause_s > OUTGROWN * self._limit:
            pause_s = min(pause_s, max(CLOSEST_GROWING_S, rest / (2 * pace)))
        return max(pause_s, cost_s / share)

    def _sure(self, used: int) -> None:
        self.peak_bytes = max(used, self.peak_bytes or 0)

    def _passed(self, what: str, used: int | None) -> dict[str, Any]:
        return {"what": what, "used_bytes": used, "limit_bytes": self._limit, "left_bytes": None}


def _more(used: int | None, limit: int | None) -> bool:
    return used is not None and limit is not None and used > limit
