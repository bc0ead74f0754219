"""How a trial ended, as a status with its evidence: one sentence that a user can act on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vtune.analysis.memory_ended import no_sign_of_memory, out_of_memory
from vtune.analysis.root_cause import (
    SHELLS_OFFSET,
    SIGBUS,
    SIGKILL,
    Failure,
    Root,
    failed_thread,
    root_of,
    signal_name,
    signal_of,
)
from vtune.analysis.silence import where_it_hangs
from vtune.domain.events import ProcessStack
from vtune.domain.experiment import Window
from vtune.domain.numbers import bytes_
from vtune.domain.trial import Passed, RamGuard, TrialOutcome, TrialStatus

# A training that ends by itself after fewer measured steps says too little about a long run.
ENOUGH_STEPS = 20
# With this many steps the time cap leaves a usable, if wide, answer: 18 s a step gives ten of them in three minutes.
PROVISIONAL_STEPS = 5

# The words of a script that stops itself because its loss is no number any more.
NO_NUMBER = re.compile(
    r"(?i)\b(?:loss(?:es)?|grad(?:ient)?s?|grad(?:ient)? norm|weights?|parameters?)\b[^\n]{0,60}"
    r"\b(?:nans?|inf|infinite|infinity|non-?finite|not finite|diverged)\b"
    r"|\b(?:nans?|inf|infinite|non-?finite)\b[^\n]{0,40}\b(?:loss(?:es)?|grad(?:ient)?s?|weights?)\b"
    r"|returned nan values|\btraining (?:has )?diverged"
)
# The best loss before the first one, as scripts tell it.
BEST_SO_FAR = re.compile(
    r"(?i)\bfrom inf(?:inity)?\b|\binf(?:inity)?\s*(?:-+>|=+>|→)|\bbest\b[^\n]{0,60}\binf(?:inity)?\b"
    # A value that somebody wrote.
    r"|'(?:inf|nan)'|\"(?:inf|nan)\""
)
# Such words end a training when they are the last ones; further up they are a warning among others.
LAST_LINES = 3
BY_OTHERS = {
    "SIGTERM": "which vtune did not send: a scheduler, a time limit or somebody ended it",
    "SIGINT": "which vtune did not send: somebody interrupted it",
    "SIGHUP": "which vtune did not send: its terminal or session was closed",
}


FOLDER_REMOVED = (
    "the folder of the trial was removed while it ran, and with it all that was seen of the training: does it clear a"
    " folder that --results lies in?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of the training before it ended."""

    pythons: int
    hello: bool
    steps: int
    measured: int
    backwards: int
    batches: int
    last_words: str
    ram_peak_bytes: int | None = None
    ram_limit_bytes: int | None = None
    # The fullest device over the VRAM limit, what was used of it, and what the limit is there.
    over_vram: tuple[int, int, int] | None = None
    # The end of its standard output, where last_words are of standard error.
    stdout_words: str = ""
    # The process that steps.
    leader: int | None = None
    # All that step the same training, it included.
    ranks: Sequence[int] = ()
    failures: Sequence[Failure] = ()
    # Loader workers by pid, with their numbers.
    workers: Mapping[int, int] = field(default_factory=dict)
    # Of a trial that fell silent.
    stacks: Sequence[ProcessStack] = ()
    # At the last look, and of the machine.
    ram_available_bytes: int | None = None
    ram_bytes: int | None = None
    shm_used_bytes: int | None = None
    shm_bytes: int | None = None
    # From this step on, a parameter was `nan` or `inf`.
    diverged_at_step: int | None = None
    diverged_to: str | None = None
    # It ended by itself, and not through Python's own end: what it had not written yet is lost.
    left_abruptly: bool = False
    # Of a trial that was ended because another is surely faster: by how much, in words.
    beaten: str | None = None

    @property
    def or_more(self) -> str:
        return " or more" if self.left_abruptly else ""


def status_of(outcome: TrialOutcome, window: Window, seen: Seen) -> tuple[TrialStatus, str | None]:
    status, detail = _status_of(outcome, window, seen)
    # A rate was measured all the same, but nobody wants a run of this.
    if seen.diverged_at_step is not None and status in (
        TrialStatus.COMPLETED,
        TrialStatus.TOO_SHORT,
        TrialStatus.CRASHED,
    ):
        why = f"a parameter was {seen.diverged_to or 'no number'} after step {seen.diverged_at_step + 1}"
        return TrialStatus.DIVERGED, f"{why}; {detail}" if detail and status is not TrialStatus.COMPLETED else why
    return status, detail


def _status_of(outcome: TrialOutcome, window: Window, seen: Seen) -> tuple[TrialStatus, str | None]:
    if outcome.folder_removed and outcome.ended_by != "interrupt":
        return TrialStatus.NOT_OBSERVED, FOLDER_REMOVED
    match outcome.ended_by:
        case "interrupt":
            return TrialStatus.INTERRUPTED, f"ended by hand after {seen.measured} measured steps"
        case "window":
            return TrialStatus.COMPLETED, None
        case "beaten":
            return TrialStatus.COMPLETED, seen.beaten
        case "trial_time":
            return _time_is_up(window, seen)
        case "startup_time":
            return TrialStatus.NOT_OBSERVED, _nothing_seen(seen, f"within {window.startup_time_s:g} s")
        case "hang":
            return TrialStatus.HUNG, _hung(f"for {window.hang_time_s:g} s or more", seen)
        case "standstill":
            return TrialStatus.HUNG, _hung(f"for long when its trial time of {window.trial_time_s:g} s was up", seen)
        case "limit":
            return _over_a_limit(outcome.over, outcome.ram_guard, seen)
        case "disk":
            return _disk_is_used_up(outcome.over, window, seen)
        case "lost" | "parent_lost":
            return TrialStatus.INTERRUPTED, _lost(outcome)
        case "itself":
            return _ended_itself(outcome, window, seen)


def _lost(outcome: TrialOutcome) -> str:
    if outcome.defect is None:
        return "vtune or its supervisor was killed while the trial ran"
    return f"a defect of vtune's: the trial's supervisor failed with {outcome.defect}; supervisor.log has the trace"


def _over_a_limit(over: Passed | None, guard: RamGuard | None, seen: Seen) -> tuple[TrialStatus, str]:
    stopped = f"stopped by vtune after {seen.steps} steps"
    if over is not None:
        used, most, left = bytes_(over.used_bytes), bytes_(over.limit_bytes), bytes_(over.left_bytes)
        match over.what:
            case "ram":
                return TrialStatus.OUT_OF_RAM, f"{stopped}: {used} of RAM in use, over {_named(guard, most)}"
            case "kernel":
                return TrialStatus.OUT_OF_RAM, (
                    f"ended by the kernel after {seen.steps} steps: its control group passed {_named(guard, most)}"
                )
            case "machine":
                return TrialStatus.OUT_OF_RAM, (
                    f"{stopped}, before the machine suffers: it had {left} of RAM left, less than the floor of {most}"
                )
            case "shm":
                return TrialStatus.OUT_OF_SHM, f"{stopped}: /dev/shm had {left} left of {most}"
    ram, limit = seen.ram_peak_bytes, seen.ram_limit_bytes
    over_ram = limit is not None and ram is not None and ram > limit
    if seen.over_vram is not None and not over_ram:
        index, in_use, allowed = seen.over_vram
        return TrialStatus.OUT_OF_VRAM, (
            f"{stopped}: {bytes_(in_use)} of VRAM in use on GPU {index}, over the limit of {bytes_(allowed)}"
        )
    return TrialStatus.OUT_OF_RAM, f"{stopped}: {bytes_(ram)} of RAM in use, over the limit of {bytes_(limit)}"


def _disk_is_used_up(over: Passed | None, window: Window, seen: Seen) -> tuple[TrialStatus, str]:
    most = "" if over is None else f" of {bytes_(over.limit_bytes)}"
    ended = f"ended because it filled the disk space that a trial may fill{most}; --trial-disk sets another limit"
    if seen.measured >= min(ENOUGH_STEPS, window.steps):
        return TrialStatus.COMPLETED, f"{ended}; {_of_window(window, seen)} were measured"
    if seen.steps == 0:
        return TrialStatus.NOT_OBSERVED, f"{ended}; no step was seen"
    return TrialStatus.TOO_SHORT, f"{ended}; {seen.measured} steps were measured"


def _named(guard: RamGuard | None, most: str) -> str:
    if guard is None or not guard.is_default:
        return f"the limit of {most}"
    less = f" less {bytes_(guard.reserve_bytes)} for everybody else" if guard.reserve_bytes is not None else ""
    return f"the default limit of {most}: what the machine had left when it started{less}; --ram-limit sets another"


def _time_is_up(window: Window, seen: Seen) -> tuple[TrialStatus, str]:
    if seen.measured >= PROVISIONAL_STEPS:
        return TrialStatus.COMPLETED, (
            f"ended by the trial time of {window.trial_time_s:g} s after {_of_window(window, seen)}"
        )
    if seen.steps == 0:
        return TrialStatus.NOT_OBSERVED, _nothing_seen(seen, f"within the trial time of {window.trial_time_s:g} s")
    return TrialStatus.TIMED_OUT, (
        f"only {seen.measured} measured steps within the trial time of {window.trial_time_s:g} s"
    )


def _of_window(window: Window, seen: Seen) -> str:
    """A window may grow beyond its steps."""
    of = f" of {window.steps}" if seen.measured < window.steps else ""
    return f"{seen.measured}{of} steps"


def _hung(how_long: str, seen: Seen) -> str:
    said = f"no step, batch or backward {how_long}, after {seen.steps} steps or more"
    where = where_it_hangs(seen.stacks, seen.leader, seen.workers)
    thread = failed_thread(seen.last_words)
    return "; ".join(part for part in (f"{said}: {where}" if where else said, thread) if part)


def _ended_itself(outcome: TrialOutcome, window: Window, seen: Seen) -> tuple[TrialStatus, str | None]:
    if outcome.start_error is not None:
        return TrialStatus.CRASHED, f"the command could not be started: {outcome.start_error}"
    if outcome.exit_code != 0 or outcome.signal is not None:
        return _failed(outcome, seen)
    few = seen.measured < min(ENOUGH_STEPS, window.steps)
    if few and (words := _own_word_of_divergence(None, seen)) is not None:
        return TrialStatus.DIVERGED, f"the training stopped itself after {seen.steps} steps{seen.or_more}: {words}"
    if seen.steps == 0:
        return TrialStatus.NOT_OBSERVED, _nothing_seen(seen, "before the training ended by itself with exit code 0")
    if few:
        abruptly = ", without Python's own end (os._exit)" if seen.left_abruptly else ""
        return TrialStatus.TOO_SHORT, (
            f"the training ended by itself after {seen.steps} steps{seen.or_more}, {seen.measured} of them measured"
            f"{abruptly}"
        )
    return TrialStatus.COMPLETED, f"the training ended by itself after {seen.measured} measured steps{seen.or_more}"


def _failed(outcome: TrialOutcome, seen: Seen) -> tuple[TrialStatus, str]:
    # The last moment's records are lost with a process that is killed.
    is_lost = signal_of(outcome) is not None or seen.left_abruptly
    how = f"{_how(outcome)} after {seen.steps} steps{' or more' if is_lost else ''}"
    root = root_of(outcome, seen.last_words, seen.failures, seen.workers, seen.ranks)
    memory = out_of_memory(
        outcome,
        root,
        seen.last_words,
        available_bytes=seen.ram_available_bytes,
        ram_bytes=seen.ram_bytes,
        shm_bytes=seen.shm_bytes,
        shm_used_bytes=seen.shm_used_bytes,
    )
    if memory is not None:
        status, why = memory
        return status, f"{how}: {why}"
    words = _own_word_of_divergence(root, seen)
    if words is not None:
        return TrialStatus.DIVERGED, f"{how}: {words}"
    crash = _why_crashed(outcome, root, seen)
    if crash is None:
        return TrialStatus.CRASHED, f"{how}, without a word"
    return TrialStatus.CRASHED, f"{how}: {crash}" if crash else how


def _why_crashed(outcome: TrialOutcome, root: Root, seen: Seen) -> str | None:
    """None: it said nothing at all."""
    own = signal_of(outcome)
    if root.signal == SIGKILL:
        # From vtune's own hand it would have been ended_by something else.
        return no_sign_of_memory(root) + _last_said(root)
    if root.signal == SIGBUS:
        who = root.who or "it"
        return f"{who} met a bus error with room left in /dev/shm: was a file that it maps made shorter meanwhile?"
    if root.who is None and own is not None and (whose := BY_OTHERS.get(signal_name(own))):
        return whose + _last_said(root)
    sentence = root.sentence()
    if not sentence and not seen.last_words.strip():
        return None
    return sentence


def _own_word_of_divergence(root: Root | None, seen: Seen) -> str | None:
    """The training's own sentence about a loss that is no number."""
    if root is not None and root.signal is not None:
        return None
    if root is not None and root.error and _tells_of_no_number(root.error):
        return root.sentence()
    if root is not None and root.is_error:
        return None
    for words in (seen.last_words, seen.stdout_words):
        for line in [line.strip() for line in words.splitlines() if line.strip()][-LAST_LINES:]:
            if _tells_of_no_number(line):
                return line[:300]
    return None


def _tells_of_no_number(words: str) -> bool:
    return NO_NUMBER.search(BEST_SO_FAR.sub("", words)) is not None


def _how(outcome: TrialOutcome) -> str:
    signum = signal_of(outcome)
    if outcome.signal is not None:
        return f"the training was killed by {signal_name(outcome.signal)}"
    code = f"the training ended with exit code {outcome.exit_code}"
    if signum is not None:
        code += f" ({SHELLS_OFFSET} + {signum}: killed by {signal_name(signum)} under a shell)"
    return code


def _last_said(root: Root) -> str:
    return f"; its last words: {root.error}" if root.who is None and root.error else ""


def _nothing_seen(seen: Seen, when: str) -> str:
    where = where_it_hangs(seen.stacks, seen.leader, seen.workers)
    return f"{_what_was_not_seen(seen, when)}{f'; {where}' if where else ''}"


def _what_was_not_seen(seen: Seen, when: str) -> str:
    if not seen.hello:
        if seen.pythons == 0:
            return f"no Python process could be instrumented {when}: is it started with -E, -I or -S, or not Python?"
        return f"torch's loader and optimizers were never imported {when}"
    what = []
    if seen.backwards:
        what.append(f"{seen.backwards} backward passes")
    if seen.batches:
        what.append(f"{seen.batches} batches from loaders")
    return f"no optimizer step was seen {when}; seen instead: {' and '.join(what) or 'nothing of a training'}"
