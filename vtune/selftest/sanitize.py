"""What leaves this machine in a bundle: numbers and names of ours, nothing that tells whose machine it was."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

# Never carried over, whatever is in them.
DROPPED = frozenset(("env", "cwd", "token", "tmpdir", "boot_id", "host", "processes_of_others", "pci", "visible"))
# Words of the protocol, which a replay reads: an account that is called "step" must not rename them.
OWN_WORDS = frozenset(
    ("fact", "kind", "status", "stage", "ended_by", "origin", "type", "what", "way", "device", "cell", "autocast",
     "autocast_dtype", "matmul", "parameters", "matmul_precision", "start_method", "reason", "dataset", "class")
)  # fmt: skip
# A value of the environment that is shorter stands for a switch, not for a secret.
SHORTEST_VALUE = 4
UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
# From the first slash on; a name with a suffix is left, the folders are not.
PATH = re.compile(r"(?<![\w.<>~-])~?(?:/[^/\s:'\"<>,;()\[\]{}|]+)+/?")
# What lies below the user's own folders is theirs; below Python's and vtune's own it is everybody's.
BELOW = re.compile(r"<(home|here|env|host|user)>/[^\s:'\"<>,;()\[\]{}|]+")
OUR_FILES = frozenset(("training.py", "memory_tree.py", "device_memory.py"))
MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
MAC = re.compile(r"\b[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}\b")


class Sanitizer:
    def __init__(self, replaced: Mapping[str, str], words: Mapping[str, str]) -> None:
        # Anywhere in a text, the longest first: a home folder is part of longer paths.
        self._replaced = sorted(replaced.items(), key=lambda item: -len(item[0]))
        # Only as whole words: a user may be called "a".
        self._words = [
            (re.compile(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", re.IGNORECASE), by)
            for word, by in sorted(words.items(), key=lambda item: -len(item[0]))
        ]

    def text(self, text: str) -> str:
        for secret, by in self._replaced:
            text = text.replace(secret, by)
        text = UUID.sub(lambda found: hashed_uuid(found[0]), text)
        text = MAIL.sub("<mail>", MAC.sub("<mac>", text))
        text = PATH.sub(_without_folders, BELOW.sub(r"<\1>/…", text))
        for word, by in self._words:
            text = word.sub(by, text)
        return text

    def value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, Mapping):
            return {str(name): self.value(item, str(name)) for name, item in value.items() if str(name) not in DROPPED}
        if isinstance(value, (list, tuple)):
            return [self.value(item, key) for item in value]
        if isinstance(value, str) and key not in OWN_WORDS:
            return self.text(value)
        return value


def this_machines(results: Path, python: str) -> Sanitizer:
    """All that this machine, this account and this shell could give away."""
    folders = {
        "<results>": results, "<here>": Path.cwd(), "<home>": Path.home(), "<python>": Path(python).parent.parent,
        "<own python>": Path(sys.prefix), "<vtune>": Path(__file__).resolve().parent.parent,
    }  # fmt: skip
    replaced: dict[str, str] = {}
    for by, folder in folders.items():
        replaced |= {str(one): by for one in (folder, folder.absolute(), folder.resolve()) if len(str(one)) > 1}
    words: dict[str, str] = {}
    for name, value in os.environ.items():
        if name in ("LANG", "TERM", "LC_ALL"):
            continue
        for part in {value, *value.split(os.pathsep)}:
            # A folder anywhere, also before a file's name; but not one that every machine has (/bin, /tmp).
            if "/" in part and part.count("/") > 1:
                replaced.setdefault(part, "<env>")
            elif "/" not in part and len(part) >= SHORTEST_VALUE:
                words.setdefault(part, "<env>")
    words |= {name: "<host>" for name in _host_names() if name}
    words |= {name: "<user>" for name in _user_names() if name}
    return Sanitizer(replaced, words)


def hashed_uuid(uuid: str) -> str:
    """The same device stays the same, and a UUID stays one: a replay joins two lists by it."""
    digest = hashlib.sha256(uuid.lower().encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def _without_folders(found: re.Match[str]) -> str:
    name = found[0].rstrip("/").rsplit("/", 1)[-1]
    return f"<path>/{name}" if name in OUR_FILES else "<path>"


def _host_names() -> Iterable[str]:
    name = platform.node()
    return {name, name.split(".")[0], os.environ.get("HOSTNAME", "")}


def _user_names() -> Iterable[str]:
    names = {os.environ.get(variable, "") for variable in ("USER", "LOGNAME", "SUDO_USER")}
    try:
        import pwd  # there is none on Windows, where reports can be read all the same

        account = pwd.getpwuid(os.getuid())
    except KeyError:  # a container's number without a name
        return names
    # The full name stands before the first comma.
    return names | {account.pw_name, account.pw_gecos.split(",")[0]}
