"""Measured values against known ones: pure functions, each with its tolerance and the reason for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev

from vtune.domain.numbers import bytes_, rate
from vtune.domain.selftest import Verdict

# The kernel slews its clocks by at most 500 ppm, and a stamp comes up to a millisecond late on a busy core: over two
# seconds that is a tenth of a percent. A clock that is off by more than this is not late, it is wrong.
CLOCK = 0.005
# Counting steps is exact; the two counts stamp each step some 20 µs apart.
RATE = 0.03
WAITING = 0.03
# The kernel batches the counting of pages by processor, and an interpreter grows a little meanwhile.
MEMORY = 0.05
# A step of the training costs this much at least, whatever a step of 10 ms adds to itself.
INSTRUMENTATION = 0.01
SAMPLER = 0.01
WINDOW = 0.03
GONE_WITHIN_S = 10.0
# From here on a failure may be the neighbours', and is tried once more.
DISTURBED_CORES = 0.3
# Quantile of Student's t for 95 %, by degrees of freedom; the last one stands for all above.
_T95 = {4: 2.78, 5: 2.57, 7: 2.36, 9: 2.26, 11: 2.20, 14: 2.14, 19: 2.09, 29: 2.05, 39: 2.02, 59: 2.00}


def passed(sentence: str) -> Verdict:
    return Verdict(status="passed", sentence=sentence)


def failed(sentence: str) -> Verdict:
    return Verdict(status="failed", sentence=sentence)


def inconclusive(sentence: str) -> Verdict:
    return Verdict(status="inconclusive", sentence=sentence)


def not_carried_out(why: str) -> Verdict:
    """Nothing was measured, so nothing was measured wrongly."""
    return Verdict(status="not_judged", sentence=f"not judged, could not be carried out: {why}")


def judged(good: bool, sentence: str) -> Verdict:
    return passed(sentence) if good else failed(sentence)


def clocks(paces: Mapping[str, float], outside_s: float) -> Verdict:
    """`paces`: seconds of each clock in a second of the kernel's boot clock. `outside_s`: how far the training's stamps
    lie outside the time in which the parent, by its own reading of the same clock, ran it."""
    seen = ", ".join(f"{name} {pace:.5f}" for name, pace in paces.items())
    wrong = {name: pace for name, pace in paces.items() if abs(pace - 1) > CLOCK}
    if wrong:
        name, pace = max(wrong.items(), key=lambda item: abs(item[1] - 1))
        return failed(
            f"{name} ran at {pace:.4f} s a second of the kernel's boot clock, expected 1 within {CLOCK:.1%};"
            f" all: {seen}"
        )
    if outside_s > 0:
        return failed(
            f"the training's stamps lie up to {outside_s:.3f} s outside the time in which the parent ran it,"
            " expected one clock for both"
        )
    return passed(f"one pace within {CLOCK:.1%}: {seen}")


def tree_memory(seen_bytes: int | None, known_bytes: int, children: Sequence[tuple[int, int]]) -> Verdict:
    """What the tree took in all, each page once, and (seen, known) resident bytes of each child."""
    if seen_bytes is None:
        return failed(f"expected {bytes_(known_bytes)} of anonymous memory in the tree, seen: nothing")
    off = seen_bytes / known_bytes - 1
    if abs(off) > MEMORY:
        return failed(
            f"expected {bytes_(known_bytes)} of anonymous memory in the tree, seen {bytes_(seen_bytes)}: {off:+.1%},"
            f" allowed ±{MEMORY:.0%}"
        )
    for number, (seen, known) in enumerate(children):
        if abs(seen / known - 1) > MEMORY:
            return failed(
                f"expected child {number} to hold {bytes_(known)} more, seen {bytes_(seen)} resident:"
                f" allowed ±{MEMORY:.0%}"
            )
    each = (
        f"; {len(children)} children hold {bytes_(children[0][0])} each, known {bytes_(children[0][1])}"
        if children
        else ""
    )
    return passed(f"{bytes_(seen_bytes)} in the tree, known {bytes_(known_bytes)} ({off:+.1%}){each}")


def mapped_file(tree_grew_bytes: int | None, resident_grew: Sequence[int], file_bytes: int) -> Verdict:
    """The children read the file through mappings: resident in each, but memory of the tree it is not."""
    if tree_grew_bytes is None:
        return failed("expected the tree's memory beside the mapped file, seen: nothing")
    readers = len(resident_grew)
    unread = [grew for grew in resident_grew if grew < (1 - MEMORY) * file_bytes]
    if unread:
        return failed(
            f"expected {bytes_(file_bytes)} mapped and read in each of {readers} processes, seen {bytes_(min(unread))}"
            " resident"
        )
    if tree_grew_bytes > MEMORY * file_bytes:
        return failed(
            f"expected a file of {bytes_(file_bytes)} that {readers} processes map to count as page cache, seen"
            f" {bytes_(tree_grew_bytes)} more in the tree's memory"
        )
    return passed(
        f"{bytes_(file_bytes)} read by {readers} processes through mappings added {bytes_(max(0, tree_grew_bytes))} to"
        " the tree's memory"
    )


def rates(seen: float | None, own: float | None, wait: float | None, own_wait: float | None, known: float) -> Verdict:
    """Samples a second as measured and by the training's own count of the same steps; the shares spent waiting."""
    if seen is None or not own:
        return failed(f"expected about {rate(known)} samples/s, measured {rate(seen)}, counted {rate(own)}")
    off = seen / own - 1
    words = (
        f"{rate(seen)} samples/s, the training itself counted {rate(own)} ({off:+.2%}), {rate(known)} by construction"
    )
    if abs(off) > RATE:
        return failed(f"measured {words}: allowed ±{RATE:.0%}")
    if wait is None or own_wait is None:
        return failed(f"the share of waiting was not seen; {words}")
    waits = f"waiting {wait:.1%}, counted {own_wait:.1%}"
    if abs(wait - own_wait) > WAITING:
        return failed(f"measured {waits}: allowed ±{WAITING:.0%} of the time; {words}")
    return passed(f"{words}; {waits}")


def workers(known: int, resident: int, seen_by_worker: Mapping[int, int], used_by_worker: Mapping[int, int]) -> Verdict:
    """Batches that each worker was seen to make against those of its that the training used."""
    if resident != known:
        return failed(f"expected {known} workers with their memory, seen {resident}")
    for worker in range(known):
        seen, used = seen_by_worker.get(worker, 0), used_by_worker.get(worker, 0)
        if seen < used:
            return failed(
                f"expected the {used} batches of worker {worker} that the training used, seen {seen}: this worker is"
                f" {'not watched' if seen == 0 else 'watched in part'}"
            )
    counts = " + ".join(str(seen_by_worker.get(worker, 0)) for worker in range(known))
    return passed(f"{known} workers, {counts} batches seen, at least the {sum(used_by_worker.values())} that were used")


def instrumentation(plain_s: Sequence[float], watched_s: Sequence[float], step_s: float, added_cpu_s: float) -> Verdict:
    """Seconds a step on the wall in blocks that took turns; each pair was measured side by side. Judged is the interval
    of what that adds, not its mean. Processor time is only told: it is less disturbed by neighbours, but it is not what
    a run lasts."""
    if len(plain_s) < 5 or len(plain_s) != len(watched_s):
        return inconclusive(f"only {len(plain_s)} pairs of blocks were measured")
    added = [watched / plain - 1 for plain, watched in zip(plain_s, watched_s, strict=True)]
    # A neighbour that comes for one block hits one side of one pair: the outermost pairs tell of it, not of us.
    cut = len(added) // 10
    kept = sorted(added)[cut : len(added) - cut]
    # What is cut is pulled in to the outermost that is kept, not forgotten: by the spread of the kept alone the
    # interval would hold the truth in 85 of 100 self-tests only (Tukey and McLaughlin 1963, Yuen 1974).
    pulled_in = [kept[0]] * cut + kept + [kept[-1]] * cut
    error = stdev(pulled_in) * math.sqrt(len(added)) / len(kept)
    middle, half = mean(kept), _t95(len(kept) - 1) * error
    low, high = middle - half, middle + half
    words = f"{middle:+.2%} (95 %: {low:+.2%} to {high:+.2%}) of a step of {step_s * 1e3:.3g} ms, {len(added)} pairs;"
    words += f" {added_cpu_s * 1e6:+.0f} µs of processor time a step"
    if high <= INSTRUMENTATION:
        return passed(f"watching adds {words}")
    if low > INSTRUMENTATION:
        return failed(f"expected watching to add at most {INSTRUMENTATION:.0%}, seen {words}")
    return inconclusive(f"the interval holds {INSTRUMENTATION:.0%}: {words}")


def short_and_long(
    shorts: Sequence[float | None], long: float | None, steps: tuple[int, int], others_cores: float | None = None
) -> Verdict:
    """The short ones were measured before and after the long one. A window of a second meets a slow moment of the
    machine now and then; one that misleads does so each time, so the nearest is judged."""
    told = [rate(short) for short in shorts]
    seen = [short for short in shorts if short]
    if not long or not seen or len(seen) != len(shorts):
        return failed(
            f"expected one rate from {steps[0]} and from {steps[1]} steps, seen {' and '.join(told)} and {rate(long)}"
        )
    off = [short / long - 1 for short in seen]
    words = (
        f"{' and '.join(told)} samples/s over {steps[0]} steps, {rate(long)} over {steps[1]} between them"
        f" ({', '.join(f'{one:+.2%}' for one in off)})"
    )
    if min(map(abs, off)) <= WINDOW:
        return passed(words)
    decides = others_cores is None or others_cores < DISTURBED_CORES
    return failed(f"{words}: allowed ±{WINDOW:.0%}") if decides else inconclusive(f"not the same machine: {words}")


def killed(seconds: float | None, left: Mapping[str, int]) -> Verdict:
    """After SIGKILL to the training: processes, segments and folders of it that are still there."""
    still = ", ".join(f"{count} {what}" for what, count in left.items() if count)
    if seconds is None or still:
        return failed(
            f"expected nothing of a killed training after {GONE_WITHIN_S:g} s, still there: {still or 'unknown'}"
        )
    if seconds > GONE_WITHIN_S:
        return failed(f"a killed training was gone after {seconds:.1f} s, allowed {GONE_WITHIN_S:g} s")
    return passed(f"processes, shared memory and temporary files were gone {seconds:.1f} s after SIGKILL")


def sampler_cost(core: float | None, processes: int, others_cores: float | None = None) -> Verdict:
    """The share of a core that looking takes, at the rhythm of a trial. Neighbours on the same cores empty its caches:
    the same work then takes twice as long."""
    if core is None:
        return failed("the sampler's own time was not measured")
    words = f"{core:.2%} of a core for a tree of {processes} processes"
    if core <= SAMPLER:
        return passed(words)
    decides = others_cores is None or others_cores < DISTURBED_CORES
    return failed(f"expected at most {SAMPLER:.0%}, seen {words}") if decides else inconclusive(words)


def _t95(freedom: int) -> float:
    return next((t for limit, t in reversed(_T95.items()) if limit <= freedom), 2.78)
