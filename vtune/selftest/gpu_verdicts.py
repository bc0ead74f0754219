"""The verdicts of the GPU cells: pure, like those of the others. Tested with made-up values; not yet run on a GPU."""

from __future__ import annotations

from collections.abc import Mapping

from vtune.domain.numbers import bytes_
from vtune.domain.selftest import Verdict
from vtune.selftest.verdicts import GONE_WITHIN_S, failed, inconclusive, judged, passed

# The driver gives memory in pages of 2 MiB, and a context grows when its first kernels are loaded.
VRAM = 0.05
VRAM_SLACK_BYTES = 64 * 2**20
# Events bracket a step: the launch of its first kernel counts, some 10 µs; the kernel itself was timed at another clock
# frequency.
DUTY_BY_EVENTS = 0.05
# The driver's counter says in how many of its intervals of up to a sixth of a second anything ran.
DUTY_BY_DRIVER = 0.10
# The slow rank computes twice as long.
STRAGGLER = 1.5


def allocation(uuid: str | None, used: Mapping[str, Mapping[str, int | None]], known_bytes: int) -> Verdict:
    """`used`: bytes in use by stage (open, held, freed), for each device by its bare uuid."""
    if uuid is None or uuid not in used:
        return failed(
            f"expected the training's device among those of the driver, seen {len(used)} others: {uuid} is missing"
        )
    stages = used[uuid]
    opened, held, freed = stages.get("open"), stages.get("held"), stages.get("freed")
    if opened is None or held is None or freed is None:
        return failed("expected the memory in use of the training's device, the driver does not tell it")
    grew, kept = held - opened, freed - opened
    allowed = max(VRAM * known_bytes, VRAM_SLACK_BYTES)
    if abs(grew - known_bytes) > allowed:
        return failed(f"expected {bytes_(known_bytes)} more on the training's device, seen {bytes_(max(0, grew))}")
    if kept > allowed:
        return failed(f"expected all of it to be given back, seen {bytes_(kept)} still in use")
    for other, theirs in used.items():
        before, during = theirs.get("open"), theirs.get("held")
        if other != uuid and before is not None and during is not None and during - before > known_bytes / 2:
            return failed(f"expected nothing on the other devices, seen {bytes_(during - before)} more on one of them")
    return passed(
        f"{bytes_(grew)} seen on the training's device, known {bytes_(known_bytes)}; {bytes_(max(0, kept))} left"
    )


def duty(known: float | None, by_events: float | None, by_driver: float | None, *, mig: bool = False) -> Verdict:
    """Share of the time in which the device works: by construction, by events in the training, by the driver."""
    if known is None or by_events is None:
        return failed("expected the device's time of each step, seen none")
    driver = (
        "not told for a MIG slice"
        if mig and by_driver is None
        else "unknown"
        if by_driver is None
        else f"{by_driver:.0%}"
    )
    words = f"known {known:.0%}, by events {by_events:.0%}, by the driver {driver}"
    if abs(by_events - known) > DUTY_BY_EVENTS:
        return failed(f"the device's busy share: {words}; allowed ±{DUTY_BY_EVENTS:.0%} by events")
    if by_driver is None:
        return passed(words) if mig else failed(f"the device's busy share: {words}")
    if abs(by_driver - known) > DUTY_BY_DRIVER:
        return failed(f"the device's busy share: {words}; allowed ±{DUTY_BY_DRIVER:.0%} by the driver")
    return passed(words)


def out_of_memory(status: str, detail: str | None) -> Verdict:
    good = status == "out_of_vram"
    return judged(good, detail or status if good else f"expected out_of_vram, seen {status}: {detail}")


def bottleneck(seen: str, expected: str, why: str) -> Verdict:
    return judged(
        seen == expected, f"{seen}: {why}" if seen == expected else f"expected {expected}, seen {seen}: {why}"
    )


def pinned(peak_bytes: int | None, *, workers: int, prefetch: int, batch_bytes: int) -> Verdict:
    """The pin thread's queue is unbounded: all that the workers may have ready, each rounded up to a power of two; one
    more is with the training and one on its way."""
    if peak_bytes is None:
        return inconclusive("this torch does not tell the peak of pinned memory")
    rounded = 1 << (batch_bytes - 1).bit_length()
    most = (workers * prefetch + 2) * rounded
    formula = f"{workers} × {prefetch} batches of {bytes_(batch_bytes)}, rounded up, and two: {bytes_(most)}"
    words = f"{bytes_(peak_bytes)} pinned; {formula}"
    if peak_bytes > most:
        return failed(f"expected at most W × P batches and two, seen {words}")
    if peak_bytes < batch_bytes:
        return failed(f"expected at least one batch to be pinned, seen {words}")
    return passed(words)


def skipped(seen: int | None, known: int) -> Verdict:
    return judged(seen == known, f"{known} steps left out by the scaler, seen {'none told' if seen is None else seen}")


def precision(seen: Mapping[str, object], expected: Mapping[str, object]) -> Verdict:
    wrong = [f"{name} {value}, seen {seen.get(name)}" for name, value in expected.items() if seen.get(name) != value]
    if wrong:
        return failed(f"expected {'; '.join(wrong)}")
    return passed(", ".join(f"{name} {value}" for name, value in expected.items()))


def vram_back(
    seconds: float | None, baseline_bytes: int | None, held_bytes: int | None, left_bytes: int | None
) -> Verdict:
    """After SIGKILL: the device's memory in use against what it was before the training."""
    if baseline_bytes is None or held_bytes is None or left_bytes is None:
        return failed("expected the memory in use of the training's device, the driver does not tell it")
    if held_bytes - baseline_bytes < VRAM_SLACK_BYTES:
        return failed(
            f"expected the training on the device, seen {bytes_(held_bytes - baseline_bytes)} more than before it"
        )
    more = left_bytes - baseline_bytes
    if seconds is None or seconds > GONE_WITHIN_S or more > VRAM_SLACK_BYTES:
        return failed(
            f"expected the device's memory back within {GONE_WITHIN_S:g} s, {bytes_(max(0, more))} are still in use"
        )
    return passed(f"{bytes_(held_bytes - baseline_bytes)} came back within {seconds:.1f} s of SIGKILL")


def straggler(busy_s: Mapping[int, float], slow_rank: int) -> Verdict:
    """Device seconds a step by rank; the steps themselves last equally long, for all wait for the slowest."""
    if len(busy_s) < 2:
        return failed(f"expected the steps of two devices, seen {len(busy_s)}")
    slowest = max(busy_s, key=lambda rank: busy_s[rank])
    rest = max(busy for rank, busy in busy_s.items() if rank != slowest)
    words = ", ".join(f"rank {rank} {busy * 1e3:.3g} ms" for rank, busy in sorted(busy_s.items()))
    if slowest != slow_rank or busy_s[slowest] < STRAGGLER * rest:
        return failed(f"expected rank {slow_rank} to be named, seen {words}")
    return passed(f"rank {slowest} is the slow one: {words}")
