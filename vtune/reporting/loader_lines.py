"""The line of Python that sets an argument of the training's loader, as it has to read."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vtune.domain.effects import Scalar
from vtune.reporting.own_options import feeding, tree_of, words_to_type

# Arguments of DataLoader that may be given without their name, by their place.
PLACES = {"batch_size": 1, "num_workers": 5, "pin_memory": 7}


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonLine:
    option: str
    value: Scalar
    file: Path | None = None
    # Of the value as it is set, or of the call that has to get it.
    line: int | None = None
    # That line as it is, and as it has to be; None where it has to be thought about.
    before: str | None = None
    after: str | None = None
    # The expression that stands there: it is set elsewhere, and a number in its place would take that away.
    fed_by: str | None = None
    # What the script's own command line takes for it, where its source plainly says so.
    typed: tuple[str, ...] | None = None

    @property
    def where(self) -> str:
        return "where the script makes it" if self.file is None else f"{self.file}:{self.line}"


def python_lines(
    options: Mapping[str, Scalar], loader_at: str | None, scripts: Sequence[Path] = ()
) -> list[PythonLine]:
    """`loader_at`: file:line of the loader's making, as a trial has learnt it. `scripts`: where options of the command
    line may be defined besides."""
    file, _, number = (loader_at or "").rpartition(":")
    call = _call_at(Path(file), int(number)) if file and number.isdecimal() else None
    if call is None:
        where = (Path(file), int(number)) if file and number.isdecimal() else (None, None)
        return [PythonLine(option=o, value=v, file=where[0], line=where[1]) for o, v in options.items()]
    parsed = [tree_of(one) for one in dict.fromkeys((Path(file), *scripts))]
    return list(_lines(options, Path(file), *call, [one[0] for one in parsed if one is not None]))


def _lines(
    options: Mapping[str, Scalar], file: Path, call: ast.Call, source: list[str], trees: list[ast.Module]
) -> Iterator[PythonLine]:
    for option, value in options.items():
        named = next((one.value for one in call.keywords if one.arg == option), None)
        place = PLACES.get(option)
        if named is None and place is not None and len(call.args) > place:
            named = call.args[place]
        if named is None:
            line = call.lineno
            yield PythonLine(option=option, value=value, file=file, line=line, before=source[line - 1].strip())
            continue
        text = source[named.lineno - 1]
        if not _is_literal(named):
            name = feeding(named)
            yield PythonLine(
                option=option,
                value=value,
                file=file,
                line=named.lineno,
                before=text.strip(),
                fed_by=ast.unparse(named),
                typed=words_to_type(trees, name, value) if name is not None else None,
            )
            continue
        after = None
        if named.lineno == named.end_lineno and named.end_col_offset is not None:
            raw = text.encode()
            changed = raw[: named.col_offset] + repr(value).encode() + raw[named.end_col_offset :]
            after = changed.decode().strip()
        yield PythonLine(option=option, value=value, file=file, line=named.lineno, before=text.strip(), after=after)


def _call_at(file: Path, line: int) -> tuple[ast.Call, list[str]] | None:
    """The innermost call around that line that looks like a loader's; a frame may name any line of a call."""
    parsed = tree_of(file)
    if parsed is None:
        return None
    tree, text = parsed
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    named = [one for one in calls if _name(one).endswith("Loader")]
    if not named:
        return None
    # As Python counts them: a form feed begins no line.
    return min(named, key=lambda one: (one.end_lineno or one.lineno) - one.lineno), text.split("\n")


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError):
        return False
    return True


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", None) or getattr(call.func, "id", None) or ""
