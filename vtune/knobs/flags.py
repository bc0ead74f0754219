"""Which flag of the training's command a knob is, where the command itself carries one."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vtune.domain.effects import Scalar
from vtune.domain.knob import Knob
from vtune.errors import UsageError
from vtune.knobs.arguments import FLAG, OVERRIDE, own_words, plain_name, what_runs
from vtune.knobs.batch import ACCUMULATE_STEPS
from vtune.knobs.doubts import flag_doubt, list_doubt, override_doubt, place_doubt, scripts_among, section_doubt
from vtune.knobs.other_loaders import of_another_loader
from vtune.knobs.settings import FALSE, TRUE, parse_setting, shown
from vtune.knobs.written import word_as

# argparse takes a flag's beginning for it. That far into the last word no other common flag begins alike:
# --num-wo is no --num-warmup-steps, --batch-si no --batch-sampler.
LETTERS_OF_LAST_WORD = 2
# --worker may be --workers, or the number of one; --work is a folder.
LETTERS_OF_ONLY_WORD = 5
_SHORT = re.compile(r"-(?P<letter>[A-Za-z])(?P<glued>=?[0-9]+)?")
# A key of a config in words: with a section or of several words, as `batch` alone may be anything.
_NAME = re.compile(r"[A-Za-z]\w*[._][\w.]*")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    typed: str
    # None: there is no word that holds the value.
    position: int | None = None
    prefix: str = ""
    text: str = ""
    # Why it may be something else than the knob.
    doubt: str | None = None


def find_flag(knob: Knob, command: Sequence[str]) -> Flag | UnclearFlag | None:
    """Only what is literally there counts: a flag that the training may not know is never added."""
    matches = list(_matches(knob, command))
    if not matches:
        return None
    if len(matches) > 1:
        named = " and ".join(dict.fromkeys(match.typed for match in matches))
        return UnclearFlag(why=f"the command names {knob.name} more than once ({named})")
    (match,) = matches
    if match.doubt is not None:
        return UnclearFlag(why=match.doubt)
    if match.position is None:
        return UnclearFlag(why=f"{match.typed} is a switch without a value", value=match.text == "true")
    try:
        value = parse_setting(knob, match.text)
    except UsageError:
        return UnclearFlag(why=f"{match.typed} of the command is {shown(match.text)}")
    return Flag(typed=match.typed, position=match.position, prefix=match.prefix, text=match.text, value=value)


def word_with(flag: Flag, knob: Knob, value: Scalar) -> str:
    """The word of the command that holds the value, with another one in the spelling of the old."""
    return flag.prefix + word_as(knob, value, flag.text)


def _matches(knob: Knob, command: Sequence[str]) -> Iterator[_Match]:
    index = _indexed(tuple(command))
    # No options behind a bare --, but a launcher may hand them on.
    own, rest = index.own, range(index.own.stop + 1, len(command))
    places = index.places(knob)
    for at in (place for place in places if place in own):
        for match in _matches_at(knob, command, own, at, by_python=index.by_python):
            doubt = match.doubt or place_doubt(command, index.scripts, at, match.typed, index.behind)
            yield replace(match, doubt=doubt)
    for at in (place for place in places if place in rest):
        for match in _matches_at(knob, command, rest, at, by_python=index.by_python):
            yield replace(match, doubt=f"{match.typed} of the command stands behind a bare --")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Indexed:
    """A command's words by the names that they may say: thousands of knobs look for theirs among thousands of words."""

    own: range
    by_python: bool
    behind: str | None
    scripts: Sequence[int]
    by_name: Mapping[str, Sequence[int]]

    def places(self, knob: Knob) -> list[int]:
        """Of each word that may be the knob, in their order; others among them."""
        full = {dotted.rpartition(".")[2] for dotted in knob.config_keys} | set(knob.flags)
        # argparse takes a flag's beginning for it.
        begun = {name[:length] for name in full for length in range(1, len(name) + 1)}
        return sorted({at for name in begun for at in self.by_name.get(name, ())})


@functools.lru_cache(maxsize=4)
def _indexed(command: tuple[str, ...]) -> _Indexed:
    own, by_python = own_words(command)
    by_name: dict[str, list[int]] = {}
    for at, word in enumerate(command):
        name = plain_name(word.lstrip("-+").partition("=")[0]).rpartition(".")[2]
        short = word.startswith("-") and not word.startswith("--")
        for said in {name, name.lower(), name.removeprefix("no_"), *(word[1:2] if short else ())}:
            by_name.setdefault(said, []).append(at)
    behind, scripts = what_runs(command).behind, scripts_among(command, own)
    return _Indexed(own=own, by_python=by_python, behind=behind, scripts=scripts, by_name=by_name)


def _matches_at(knob: Knob, command: Sequence[str], own: range, at: int, *, by_python: bool) -> Iterator[_Match]:
    word = command[at]
    following = command[at + 1] if at + 1 in own else None
    # A launcher's or an unknown program's letters mean something else: make -j 4.
    short = _SHORT.fullmatch(word) if by_python else None
    negated = _NEGATED.fullmatch(word) if knob.kind == "bool" else None
    flag, override = FLAG.fullmatch(word), OVERRIDE.fullmatch(word)
    if negated is not None:
        if _means(knob, plain_name(negated["name"]), abbreviated=True):
            yield _Match(typed=word, text="false", doubt=flag_doubt(command, own, at))
    elif short is not None and short["letter"] in knob.flags:
        letter, doubt = f"-{short['letter']}", flag_doubt(command, own, at)
        if short["glued"]:
            digits = short["glued"].lstrip("=")
            yield _Match(typed=letter, position=at, prefix=word[: len(word) - len(digits)], text=digits, doubt=doubt)
        else:
            yield _with_value_behind(command, own, at, letter, doubt)
    elif flag is not None and _means(knob, plain_name(flag["name"]), abbreviated=True):
        typed = word[: flag.end("name")]
        doubt = _name_doubt(knob, typed, flag["name"]) or flag_doubt(command, own, at)
        if flag["value"] is not None:
            yield _Match(typed=typed, position=at, prefix=f"{typed}=", text=flag["value"][1:], doubt=doubt)
        elif knob.kind == "bool" and (following is None or following.lower() not in TRUE + FALSE):
            yield _Match(typed=word, text="true", doubt=doubt)
        else:
            yield _with_value_behind(command, own, at, word, doubt)
    elif override is not None and _means(knob, override["name"]):
        prefix = word[: override.start("value")]
        typed = prefix[:-1]
        doubt = _name_doubt(knob, typed, override["name"]) or override_doubt(command, own, at)
        yield _Match(typed=typed, position=at, prefix=prefix, text=override["value"], doubt=doubt)
    elif _is_pair(knob, word, following):
        yield _Match(typed=word, doubt=f"{word} {following} of the command may set it by two words")


def _with_value_behind(command: Sequence[str], own: range, at: int, typed: str, doubt: str | None) -> _Match:
    if at + 1 not in own or command[at + 1].startswith("-"):
        return _Match(typed=typed, doubt=doubt or f"{typed} of the command has no value that can be replaced")
    doubt = doubt or list_doubt(command, own, at + 1, typed)
    return _Match(typed=typed, position=at + 1, text=command[at + 1], doubt=doubt)


def _is_pair(knob: Knob, word: str, following: str | None) -> bool:
    """`DATALOADER.NUM_WORKERS 4`, which overrides a config as name=value does."""
    if following is None or not _NAME.fullmatch(word) or not _means(knob, word.lower()):
        return False
    try:
        parse_setting(knob, following)
    except UsageError:
        return False
    return True


def _name_doubt(knob: Knob, typed: str, name: str) -> str | None:
    if "." not in name and "_" not in plain_name(name) and not _means(knob, name):
        return f"{typed} of the command may be an abbreviation, or another option"
    own = {section for key in knob.config_keys for section in key.split(".")[:-1]}
    return section_doubt(typed, name.split(".")[:-1], own, optimizer=knob is ACCUMULATE_STEPS)


def _means(knob: Knob, name: str, *, abbreviated: bool = False) -> bool:
    *sections, last = name.split(".")
    if any(map(of_another_loader, sections)):
        return False
    if last in knob.common_words:
        return name in knob.config_keys
    known = {dotted.rpartition(".")[2] for dotted in knob.config_keys} - knob.common_words
    known |= {flag for flag in knob.flags if len(flag) > 1}
    return last in known or (abbreviated and not sections and any(_abbreviates(last, full) for full in known))


def _abbreviates(begun: str, full: str) -> bool:
    head, _, _ = full.rpartition("_")
    least = len(head) + 1 + LETTERS_OF_LAST_WORD if head else LETTERS_OF_ONLY_WORD
    return len(begun) >= least and full.startswith(begun)
