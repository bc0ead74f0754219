"""The line of Python that sets an argument of the training's loader, as it has to read."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vtune.domain.effects import Scalar
from vtune.reporting.own_options import feeding, tree_of, words_to_type

# Arguments of DataLoader that may be given without their name, by their place.
PLACES = {"batch_size": 1, "num_workers": 5, "pin_memory": 7}
# An argument that no loader has.
TRIED = "vtune_tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonLine:
    option: str
    value: Scalar
    file: Path | None = None
    # Of the value as it is set, or of the last argument of the call that has to get it.
    line: int | None = None
    # That line as it is, and as it has to be with all that changes in it; None where it has to be thought about.
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
    return _lines(options, Path(file), *call, [one[0] for one in parsed if one is not None])


@dataclass(frozen=True, slots=True)
class _Edit:
    """Of bytes of one line."""

    start: int
    end: int
    text: str


def _lines(
    options: Mapping[str, Scalar], file: Path, call: ast.Call, source: list[str], trees: list[ast.Module]
) -> list[PythonLine]:
    edits: dict[int, list[_Edit]] = defaultdict(list)
    # With the line that its edit is of, where there is one.
    found: list[tuple[PythonLine, int | None]] = []
    room = _room(call, source)
    for option, value in options.items():
        told = PythonLine(option=option, value=value, file=file)
        given = _given(call, option)
        edited, line = None, given.lineno if given is not None else call.lineno
        if given is None:
            if room is not None:
                edited = line = room[0]
                edits[line].append(_Edit(room[1], room[1], f"{', ' if _arguments(call) else ''}{option}={value!r}"))
        elif not _is_literal(given):
            name = feeding(given)
            typed = words_to_type(trees, name, value) if name is not None else None
            told = replace(told, fed_by=ast.unparse(given), typed=typed)
        elif given.lineno == given.end_lineno and given.end_col_offset is not None:
            edited = line
            edits[line].append(_Edit(given.col_offset, given.end_col_offset, repr(value)))
        found.append((replace(told, line=line, before=source[line - 1].strip()), edited))
    return [
        told if edited is None else replace(told, after=_edited(source[edited - 1], edits[edited]).strip())
        for told, edited in found
    ]


def _edited(line: str, edits: Sequence[_Edit]) -> str:
    """From the right, so that the places further left stay; of several at one place the first comes first."""
    raw = line.encode()
    for _, edit in sorted(enumerate(edits), key=lambda item: (item[1].start, item[0]), reverse=True):
        raw = raw[: edit.start] + edit.text.encode() + raw[edit.end :]
    return raw.decode()


def _given(call: ast.Call, option: str) -> ast.expr | None:
    named = next((one.value for one in call.keywords if one.arg == option), None)
    place = PLACES.get(option)
    if named is None and place is not None and len(call.args) > place:
        return call.args[place]
    return named


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _room(call: ast.Call, source: Sequence[str]) -> tuple[int, int] | None:
    """Line and byte behind the last argument, for one more. None where another one may be given already, through `**`,
    or where the text cannot take one there (behind a parenthesis of the last argument's own)."""
    if any(keyword.arg is None for keyword in call.keywords) or call.end_lineno is None or not call.end_col_offset:
        return None
    ends = [(one.end_lineno or 0, one.end_col_offset or 0) for one in _arguments(call)]
    line, column = max(ends, default=(call.end_lineno, call.end_col_offset - 1))
    name = f"{TRIED}=0"
    tried = [*source]
    tried[line - 1] = _edited(tried[line - 1], [_Edit(column, column, f", {name}" if ends else name)])
    try:
        tree = ast.parse("\n".join(tried))
    except SyntaxError:
        return None
    taken = any(
        isinstance(node, ast.Call)
        and (node.lineno, node.col_offset) == (call.lineno, call.col_offset)
        and any(keyword.arg == TRIED for keyword in node.keywords)
        for node in ast.walk(tree)
    )
    return (line, column) if taken else None


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
