"""When a word that reads like a knob may be something else.

What is left to the hook costs one short scout run; a stranger's word that is replaced starts another training, which
may write into the folder of another run. So a doubt decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from vtune.knobs.arguments import Argument, is_script, named_arguments, own_words, plain_name

# Sections of a config below which a knob's name is the training's loader, or its trainer.
SECTIONS = frozenset(
    ("training", "train", "trainer", "fit", "data", "dataloader", "dataloaders", "data_loader", "loader", "loaders",
     "train_loader", "train_dataloader", "train_data", "train_dataset", "dataset", "datasets", "datamodule",
     "data_module", "dm", "init_args", "loader_args", "loader_kwargs", "dataloader_kwargs", "dataloader_args")
)  # fmt: skip
# A whole config, or what holds all of a program's options: it says nothing of whose they are.
_WHOLE = frozenset(
    ("cfg", "config", "conf", "args", "params", "hparams", "hp", "options", "opts", "settings", "common")
)
# accumulate_steps is nobody's loader's.
_OPTIMIZER = frozenset(("optim", "optimizer", "optimization", "solver"))
# What stands behind these are name=value words for the training's config.
_TAKES_OVERRIDES = frozenset(
    ("set", "sets", "opts", "options", "override", "overrides", "cfg_options", "cfg_opts", "cfg_override",
     "cfg_overrides", "config_options", "config_override", "config_overrides", "hydra_override", "hydra_overrides")
)  # fmt: skip
# Of hydra and its like: a switch takes no value, the others take one and leave the next word alone.
_SWITCHES = frozenset(("multirun", "m", "resolve"))
_ONE_VALUE = frozenset(
    ("config_name", "cn", "config_path", "cp", "config_dir", "cd", "config", "cfg", "config_file", "c")
)
# By the last word of their name they take text, and some parsers (click, optparse) take any word for it, dashes or not.
_TAKES_TEXT = frozenset(
    ("name", "title", "note", "notes", "comment", "comments", "message", "msg", "desc", "description", "tag", "tags",
     "label", "group", "suffix", "prefix", "text", "prompt", "args", "arguments", "argv", "flags", "command", "cmd",
     "exp", "experiment", "id")
)  # fmt: skip
# A list of whole numbers goes on with one, or with a word by which trainings ask for a choice of their own.
_ALSO_A_VALUE = re.compile(r"[+-]?[0-9][0-9.,_e+-]*|auto|max|none|null|default|true|false", re.IGNORECASE)
_DASHED = re.compile(r"-{1,2}(?P<name>[A-Za-z][\w.-]*)")


def section_doubt(typed: str, sections: Sequence[str], own: AbstractSet[str], *, optimizer: bool) -> str | None:
    """A well-known section is the training's, and `own` are those in which this knob usually stands; one that nobody
    knows may be a model's or a metric's."""
    known = SECTIONS | _WHOLE | own | (_OPTIMIZER if optimizer else frozenset())
    stranger = next((section for section in sections if plain_name(section) not in known), None)
    return None if stranger is None else f'{typed} of the command may be another part\'s: "{stranger}" is not known'


def sure_arguments(command: Sequence[str]) -> Iterator[Argument]:
    """Of the training's own words; what may be the value of another flag is left out."""
    own, _ = own_words(command)
    for argument in named_arguments(command):
        if argument.position not in own:
            continue
        dashed = argument.typed.startswith("-")
        at = argument.position if argument.prefix else argument.position - 1
        if (flag_doubt if dashed else override_doubt)(command, own, at) is None:
            yield argument


def override_doubt(command: Sequence[str], own: range, at: int) -> str | None:
    """name=value is a word of its own only where no flag in front may have taken it for its value."""
    before = at - 1
    while before >= own.start and not _DASHED.match(command[before]):
        before -= 1
    flag = _DASHED.fullmatch(command[before]) if before >= own.start else None
    if flag is None or re.fullmatch(r"-[A-Za-z][0-9]+", command[before]):
        return None  # --flag=value and -j4 have theirs
    name = plain_name(flag["name"])
    if name in _TAKES_OVERRIDES or name in _SWITCHES or name.startswith("no_"):
        return None
    if before == at - 1:
        return f"{command[at]} of the command may be the value of {command[before]}"
    if name in _ONE_VALUE:
        return None
    return f"{command[at]} of the command may be one more value of {command[before]}"


def flag_doubt(command: Sequence[str], own: range, at: int) -> str | None:
    """A word with dashes is a flag, but behind one that takes text it may be that text."""
    before = _DASHED.fullmatch(command[at - 1]) if at > own.start else None
    if before is None or plain_name(before["name"]).rpartition("_")[2] not in _TAKES_TEXT:
        return None
    return f"{command[at]} of the command may be the text of {command[at - 1]}"


def list_doubt(command: Sequence[str], own: range, value_at: int, typed: str) -> str | None:
    """`--batch-size 4 8`. A path behind a number is a word of its own: no list of numbers goes on with it."""
    following = value_at + 1
    if following in own and _ALSO_A_VALUE.fullmatch(command[following]):
        return f"{typed} of the command is a list ({command[value_at]} {command[following]} ...)"
    return None


def scripts_among(command: Sequence[str], own: range) -> tuple[int, ...]:
    """Scripts that are no flag's value."""
    return tuple(
        at
        for at in own
        if is_script(command[at]) and not (command[at - 1].startswith("-") and "=" not in command[at - 1])
    )


def place_doubt(command: Sequence[str], scripts: Sequence[int], at: int, typed: str, behind: str | None) -> str | None:
    """Whose word it is, where the command starts more than one program."""
    if behind is not None:
        return f"{typed} may be a word of {behind}, not of the training behind it"
    script = next((later for later in scripts if later > at), None)
    return None if script is None else f"{typed} stands in front of {command[script]}, and may not be meant for it"
