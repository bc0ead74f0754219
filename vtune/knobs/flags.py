"""Which flag of the training's command a knob is, where the command itself carries one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vtune.domain.effects import Scalar
from vtune.domain.knob import Knob
from vtune.errors import UsageError
from vtune.knobs.arguments import FLAG, named_arguments, own_words, plain_name
from vtune.knobs.other_loaders import of_another_loader
from vtune.knobs.settings import FALSE, TRUE, parse_setting, shown

# argparse takes a flag's beginning for it. That far into the last word no other common flag begins alike:
# --num-wo is no --num-warmup-steps, --batch-si no --batch-sampler.
LETTERS_OF_LAST_WORD = 2
# --worker, but not --work: that may be a folder.
LETTERS_OF_ONLY_WORD = 5
_SHORT = re.compile(r"-(?P<letter>[A-Za-z])(?P<glued>=?[0-9]+)?")
_NEGATED = re.compile(r"--?no[-_](?P<name>[A-Za-z][\w-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One place in the command that is the knob, with a value that can be replaced."""

    # In the user's spelling: --num-workers, -j, data.batch_size.
    typed: str
    position: int
    # What stands before the value in the same word.
    prefix: str
    # The value as typed: what replaces it is written in the same manner.
    text: str
    value: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class UnclearFlag:
    """The command says something of the knob that vtune would rather not edit."""

    why: str
    # A switch tells its value all the same.
    value: Scalar = None


@dataclass(frozen=True, slots=True)
class _Match:
    typed: str
    position: int | None
    prefix: str
    text: str


def find_flag(knob: Knob, command: Sequence[str]) -> Flag | UnclearFlag | None:
    """Only what is literally there counts: a flag that the training may not know is never added."""
    matches = list(_matches(knob, command))
    if not matches:
        return None
    if len(matches) > 1:
        named = " and ".join(dict.fromkeys(match.typed for match in matches))
        return UnclearFlag(why=f"the command names {knob.name} more than once ({named})")
    (match,) = matches
    if match.position is None:
        return UnclearFlag(why=f"{match.typed} is a switch without a value", value=match.text == "true")
    try:
        value = parse_setting(knob, match.text)
    except UsageError:
        return UnclearFlag(why=f"{match.typed} of the command is {shown(match.text)}")
    return Flag(typed=match.typed, position=match.position, prefix=match.prefix, text=match.text, value=value)


def word_with(flag: Flag, value: Scalar) -> str:
    """The word of the command that holds the value, with another one in the spelling of the old."""
    return flag.prefix + (_spelt_like(flag.text, value) if isinstance(value, bool) else str(value))


def _spelt_like(text: str, value: bool) -> str:
    words = TRUE if text.lower() in TRUE else FALSE
    word = (TRUE if value else FALSE)[words.index(text.lower())]
    return word.upper() if text.isupper() else word.title() if text[:1].isupper() else word


def _matches(knob: Knob, command: Sequence[str]) -> Iterator[_Match]:
    own, is_script = own_words(command)
    for argument in named_arguments(command):
        flag = argument.typed.startswith("-")
        if argument.position in own and _means(knob, argument.name, abbreviated=flag):
            switch = knob.kind == "bool" and argument.value.lower() not in TRUE + FALSE and not argument.prefix
            if not switch:
                yield _Match(argument.typed, argument.position, argument.prefix, argument.value)
    for at in own:
        word = command[at]
        following = command[at + 1] if at + 1 in own else None
        if knob.kind == "bool":
            yield from _switches(knob, word, following)
        short = _SHORT.fullmatch(word)
        # A launcher's or an unknown program's letters mean something else: make -j 4.
        if short is None or not is_script or short["letter"] not in knob.flags:
            continue
        letter = f"-{short['letter']}"
        if short["glued"]:
            digits = short["glued"].lstrip("=")
            yield _Match(letter, at, word[: len(word) - len(digits)], digits)
        elif following is not None and not following.startswith("-"):
            yield _Match(letter, at + 1, "", following)


def _switches(knob: Knob, word: str, following: str | None) -> Iterator[_Match]:
    """--pin-memory without a value, and --no-pin-memory."""
    negated = _NEGATED.fullmatch(word)
    if negated is not None:
        if _means(knob, plain_name(negated["name"]), abbreviated=True):
            yield _Match(word, None, "", "false")
        return
    flag = FLAG.fullmatch(word)
    if flag is None or flag["value"] is not None or not _means(knob, plain_name(flag["name"]), abbreviated=True):
        return
    if following is None or following.lower() not in TRUE + FALSE:
        yield _Match(word, None, "", "true")


def _means(knob: Knob, name: str, *, abbreviated: bool) -> bool:
    *sections, last = name.split(".")
    if any(map(of_another_loader, sections)):
        return False
    known = {dotted.rpartition(".")[2] for dotted in knob.config_keys}
    known |= {flag for flag in knob.flags if len(flag) > 1}
    return last in known or (abbreviated and not sections and any(_abbreviates(last, full) for full in known))


def _abbreviates(begun: str, full: str) -> bool:
    head, _, _ = full.rpartition("_")
    least = len(head) + 1 + LETTERS_OF_LAST_WORD if head else LETTERS_OF_ONLY_WORD
    return len(begun) >= least and full.startswith(begun)
