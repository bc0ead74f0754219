"""How long a command waits for other programs to leave the cores, as it was typed."""

from __future__ import annotations


def busy_wait_s(text: str | None) -> float:
    from vtune.config.quantities import parse_duration
    from vtune.errors import UsageError
    from vtune.execution.quiet import BUSY_WAIT_S

    if text is None:
        return BUSY_WAIT_S
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--busy-wait {error}", hint="for example --busy-wait 60s") from None


def typed_again(*, anyway: bool, busy_wait: str | None) -> list[str]:
    """For the line that goes on: the study does not remember them."""
    return [*(["--anyway"] if anyway else []), *(["--busy-wait", busy_wait] if busy_wait is not None else [])]
