"""Progress on stderr: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from vtune.analysis.others_words import MARK, use_text
from vtune.domain.numbers import bytes_, rate, seconds
from vtune.domain.progress import (
    FilesPutBack,
    KeptFromInside,
    Notice,
    TrialDisturbed,
    TrialFinished,
    TrialProgress,
    TrialStarted,
    TuningEvent,
    UnprovenLeft,
    WaitingForQuiet,
)
from vtune.reporting.inert import harmless

ENDING = "ending the trial, what was measured is kept; Ctrl-C once more leaves at once"


def whole_fields(line: str, width: int) -> Text:
    """One row, whatever the width: one that wraps leaves rests behind when the terminal is resized. The last fields go
    first, and whole: half of a number is another number."""
    while cell_len(line) > width and " · " in line:
        line = line.rpartition(" · ")[0]
    return Text(line, no_wrap=True, overflow="ellipsis")


def notice_text(event: Notice) -> str:
    if isinstance(event, WaitingForQuiet):
        return f"Waiting up to {seconds(event.left_s)} for quiet: {use_text(event.others)}."
    if isinstance(event, TrialDisturbed):
        return f"Trial {event.trial} does not count and is launched again: {use_text(event.others, 'used')}."
    if isinstance(event, KeptFromInside):
        return (
            f"No overlay can be laid over {event.folders[0]} ({event.because}). vtune keeps your files from inside the"
            " training instead: its Python code and torch.save. Other programs, and libraries that write in C or C++,"
            " write for real."
        )
    if isinstance(event, FilesPutBack):
        return _put_back_text(event)
    one = len(event.trials) == 1
    return (
        f"{'trial' if one else 'trials'} {', '.join(event.trials)} {'was' if one else 'were'} cut off, and nothing"
        f" proves that this account started {'it' if one else 'them'}: whatever may be left of that is left alone"
    )


def _put_back_text(event: FilesPutBack) -> str:
    text = (
        f"the trial in {event.trial} was cut off: {event.put_back} of your files put back as they were, {event.moved}"
        " new ones moved into its folder"
    )
    if not event.not_put_back:
        return text
    path, reason = event.not_put_back[0]
    more = len(event.not_put_back) - 1
    others = f"; {more} more in {event.trial}/not-restored.json" if more else ""
    return f"{text}; NOT PUT BACK: {path} ({reason}){others}"


def so_far_mark(event: TrialProgress) -> str:
    others = event.provisional.others if event.provisional is not None else None
    return f" ({MARK})" if others is not None and others.busy else ""


class Rows:
    """Drawn over while a trial runs, on a terminal; elsewhere there are none."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._runs = self._said_ending = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def interrupted(self) -> None:
        """Ending a training takes seconds."""
        if self._runs and not self._said_ending:
            self._said_ending = True
            # As text: markup is slow the first time, and a second Ctrl-C in the middle of it would pass for the first.
            self._console.print(Text(ENDING), soft_wrap=True)

    def _tell(self, event: Notice) -> None:
        self._console.print(Text(notice_text(event)), soft_wrap=True)

    def _begin(self) -> None:
        self._runs = True
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            # Drawn when the loop tells something, twice a second: more would cost the cores that are being measured.
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    def _draw(self, *rows: Text) -> None:
        if self._live is not None:
            self._live.update(Group(*rows), refresh=True)

    def _end(self) -> None:
        self._runs = False
        self._stop()

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


class Progress(Rows):
    """Receives the loop's events. Shows a provisional answer after a few steps: nobody waits in the dark."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._said_provisional = False
        self._heading = ""

    def __call__(self, event: TuningEvent) -> None:
        match event:
            case UnprovenLeft() | KeptFromInside() | FilesPutBack() | WaitingForQuiet() | TrialDisturbed():
                self._tell(event)
            case TrialStarted():
                self._start(event)
            case TrialProgress():
                self._show(event)
            case TrialFinished():
                self._end()

    def _start(self, event: TrialStarted) -> None:
        self._stop()
        self._said_provisional = False
        spec = event.spec
        self._heading = "scout" if event.scout else f"trial {spec.trial}"
        command = harmless(" ".join(spec.command), 160)
        for line in (Text(f"{self._heading}: {spec.reason}"), Text(f"  {command}", style="dim")):
            self._console.print(line, soft_wrap=True)
        self._begin()

    def _show(self, event: TrialProgress) -> None:
        if self._live is not None:
            self._draw(whole_fields(self._line(event), self._console.width))
        elif event.provisional is not None and event.provisional.samples_per_s and not self._said_provisional:
            self._said_provisional = True
            self._console.print(Text(self._line(event)), soft_wrap=True)

    def _line(self, event: TrialProgress) -> str:
        if event.phase == "starting":
            return f"{self._heading}: starting the training, {event.seconds:.0f} s"
        memory = f" · RAM {bytes_(event.ram_bytes)}" if event.ram_bytes else ""
        if event.sizes_tried is not None:
            tried = f"batch size {event.sizes_tried}" if event.sizes_tried else "the loader alone"
            ending = " · ending the training" if event.phase == "ending" else ""
            return f"{self._heading}: fed from memory, {tried}, {event.seconds:.0f} s{ending or memory}"
        count = f"{event.steps}/{event.steps_wanted}" if event.steps <= event.steps_wanted else f"{event.steps}"
        head = f"{self._heading}: {count} steps, {event.seconds:.0f} s"
        if event.phase == "ending":
            return f"{head} · ending the training"
        seen = event.provisional
        if seen is None or seen.samples_per_s is None:
            return head + memory
        wait = f" · waiting for data {seen.data_wait_fraction:.0%}" if seen.data_wait_fraction is not None else ""
        mark, run_s = so_far_mark(event), seen.projected.run_s
        run = f" · whole run {seconds(run_s)}" if run_s is not None and not mark else ""
        return f"{head} · so far {rate(seen.samples_per_s)} samples/s{mark}{wait}{run}{memory}"
