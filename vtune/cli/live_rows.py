"""What stays on stderr, and rows below it that are drawn over while a trial runs. Off a terminal only what stays."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from vtune.cli.live import ENDING, whole_fields
from vtune.reporting.inert import harmless


class LiveRows:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._runs = self._ending_told = False

    def __enter__(self) -> LiveRows:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def are_live(self) -> bool:
        return self._live is not None

    @property
    def is_terminal(self) -> bool:
        return self._console.is_terminal

    @property
    def width(self) -> int:
        return self._console.width

    def interrupted(self) -> None:
        """Ending a training takes seconds."""
        if self._runs and not self._ending_told:
            self._ending_told = True
            self.say(f"  {ENDING}", hang=2)

    def begin(self) -> None:
        """A trial runs from now on."""
        self.end()
        self._runs = True
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            # Drawn when the loop tells something, twice a second: more would cost the cores that are being measured.
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    def draw(self, trial: str, status: str) -> None:
        if self._live is not None:
            row, dim = (whole_fields(harmless(line, 1000), self._console.width) for line in (trial, status))
            dim.stylize("dim")
            self._live.update(Group(row, dim), refresh=True)

    def end(self) -> None:
        self._runs = False
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str, *, hang: int = 0) -> None:
        """Of a terminal the width is kept, and what is wrapped stands below its own beginning."""
        plain = Text(harmless(text, 1000))
        if not (self._console.is_terminal and hang):
            self._console.print(plain, soft_wrap=not self._console.is_terminal)
            return
        for row, part in enumerate(plain.wrap(self._console, max(20, self._console.width - hang))):
            self._console.print(Text(" " * hang * (row > 0)) + part)
