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

from vtune.selftest.environment import secrets_of

# Never carried over, whatever is in them.
DROPPED = frozenset(("env", "cwd", "token", "tmpdir", "boot_id", "host", "processes_of_others", "pci", "visible"))
# Words of the protocol, which a replay reads: an account that is called "step" must not rename them.
OWN_WORDS = frozenset(
    ("fact", "kind", "status", "stage", "ended_by", "origin", "type", "what", "way", "device", "cell", "autocast",
     "autocast_dtype", "matmul", "parameters", "matmul_precision", "start_method", "reason", "dataset", "class")
)  # fmt: skip
# As such words look; anything longer or odder in these fields is no word of ours.
OWN_WORD = re.compile(r"[\w .,:×-]{0,60}")
OUR_FILES = frozenset(("training.py", "memory_tree.py", "device_memory.py"))
# Every machine has these, and what cannot be measured is often about them.
EVERYBODYS = frozenset(("/dev/shm", "/dev/null", "/proc", "/sys"))

UUID = r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
# Ids of machines, containers, commits and tokens; the digits behind a decimal point are a number.
HEX = r"(?<![\w])(?<!\d\.)[0-9a-fA-F]{12,}(?!\w)"
IDS = re.compile(rf"(?P<uuid>{UUID})|(?P<hex>{HEX})")
# Keys as services give them out: long, with digits, small and capital letters.
KEY = re.compile(r"(?<!\w)(?=\w*\d)(?=\w*[A-Z])(?=\w*[a-z])\w{20,}")
NAMED_SECRET = re.compile(
    r"(?i)\b([\w-]*(?:passwo?r?d|secret|token|api[_-]?key|credential)[\w-]*)(\s*[=:]\s*)(?!<)[^\s,;]+"
)
PLAIN_PATH = re.compile(r"(?:/[\w.@+-]+)+/?")
URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")
MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
MAC = re.compile(r"\b[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}\b")
PCI = re.compile(r"\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b")
IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)")
_GROUPS = r"[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4})"
IPV6 = re.compile(rf"(?<![\w:])(?:{_GROUPS}{{3,7}}|(?:{_GROUPS}*)?::(?:{_GROUPS}*)?)(?![\w:])")

_END = r"\s:'\"<>,;()\[\]{}|"
_PART = rf"[^/{_END}]+"
# A folder may hold spaces when another slash follows; a file, when it ends like one. Too much goes rather than a name.
_SPACED = rf"(?: {{1,3}}{_PART}){{1,8}}"
_FOLDERS = rf"(?:/{_PART}(?:{_SPACED}(?=/))?)+"
_FILE = rf"(?:(?: {_PART}){{0,5}} [^/{_END}]*\.[A-Za-z]\w{{0,5}}\b)?"
QUOTED = re.compile(r"(?<!\w)(?P<quote>['\"])(?P<path>[^'\"\n]*[/\\][^'\"\n]*)(?P=quote)(?!\w)")
PATH = re.compile(rf"(?<![\w.<>~/-])(?:~|\.{{1,2}})?{_FOLDERS}/?{_FILE}")
# Two words with a slash: a path below some folder, unless it is a unit or a fraction.
RELATIVE = re.compile(rf"(?<![\w.<>~/-])[\w.@+=-]+(?:/{_PART})+")
NO_PATH = re.compile(r"\w*/(?:s|step|min|h)|\d+/\d+|N/A|n/a")
# What lies below the user's own folders is theirs.
_OWN = "home|here|env|host|user|results"
BELOW = re.compile(rf"<({_OWN})>{_FOLDERS}/?{_FILE}")
ALL_BELOW = re.compile(rf"<({_OWN})>/.*")
# What lies below Python's folder is everybody's only where it is Python's own or torch.
BELOW_PYTHON = re.compile(rf"<(own python|python)>({_FOLDERS})")
OF_PYTHON = re.compile(
    r"/bin/python[\d.]*|/lib(?:64)?/python[\d.]+/(?:(?:site|dist)-packages/)?(\w+)(?:\.py|/[\w./-]+)"
)
KNOWN_PACKAGES = frozenset(("torch", "numpy", "vtune")) | sys.stdlib_module_names


class Sanitizer:
    def __init__(self, replaced: Mapping[str, str], words: Mapping[str, str], environment: Iterable[str] = ()) -> None:
        values = set(environment)
        # Plain paths go by the rules for paths, which know what is Python's own, and what they leave goes last; all
        # other values before folders: what stands below a folder of ours may be a part of one.
        self._plain_paths = _any_of(value for value in values if PLAIN_PATH.fullmatch(value))
        self._environment = _any_of(value for value in values if not PLAIN_PATH.fullmatch(value))
        # Anywhere in a text, the longest first: a home folder is part of longer paths.
        self._replaced = sorted(replaced.items(), key=lambda item: -len(item[0]))
        # Only as whole words: a user may be called "a".
        self._words = [
            (re.compile(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", re.IGNORECASE), by)
            for word, by in sorted(words.items(), key=lambda item: -len(item[0]))
        ]

    def text(self, text: str) -> str:
        if self._environment is not None:
            text = self._environment.sub("<env>", text)
        for secret, by in self._replaced:
            text = text.replace(secret, by)
        text = IDS.sub(lambda found: hashed_uuid(found[0]) if found["uuid"] else "<id>", text)
        text = MAIL.sub("<mail>", URL.sub("<url>", text))
        text = NAMED_SECRET.sub(r"\1\2<secret>", text)
        for pattern, by in ((MAC, "<mac>"), (PCI, "<pci>"), (IPV4, "<address>"), (IPV6, "<address>")):
            text = pattern.sub(by, text)
        text = QUOTED.sub(lambda found: found["quote"] + _quoted(found["path"]) + found["quote"], text)
        text = BELOW_PYTHON.sub(_only_pythons, BELOW.sub(r"<\1>/…", text))
        text = PATH.sub(lambda found: _without_folders(found[0]), text)
        text = RELATIVE.sub(lambda found: found[0] if NO_PATH.fullmatch(found[0]) else "<path>", text)
        text = KEY.sub("<secret>", text)
        if self._plain_paths is not None:
            text = self._plain_paths.sub("<env>", text)
        for word, by in self._words:
            text = word.sub(by, text)
        return text

    def value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, Mapping):
            return {str(name): self.value(item, str(name)) for name, item in value.items() if str(name) not in DROPPED}
        if isinstance(value, (list, tuple)):
            return [self.value(item, key) for item in value]
        if isinstance(value, str) and not (key in OWN_WORDS and OWN_WORD.fullmatch(value)):
            return self.text(value)
        return value


def this_machines(results: Path, python: str) -> Sanitizer:
    """All that this machine, this account and this shell could give away."""
    everybodys = {
        "<python>": Path(python).parent.parent, "<own python>": Path(sys.prefix),
        "<vtune>": Path(__file__).resolve().parent.parent,
    }  # fmt: skip
    own = {"<results>": results, "<here>": Path.cwd(), "<home>": Path.home()}
    replaced: dict[str, str] = {}
    for by, folder in (own | everybodys).items():
        replaced |= {str(one): by for one in (folder, folder.absolute(), folder.resolve()) if len(str(one)) > 1}
    known = {str(one) for folder in everybodys.values() for one in (folder, folder.resolve(), folder / "bin")}
    known |= {str(one) for folder in own.values() for one in (folder.absolute(), folder.resolve())}
    words = {name: "<host>" for name in _host_names() if name}
    words |= {name: "<user>" for name in _user_names() if name}
    return Sanitizer(replaced, words, secrets_of(os.environ) - known - set(words))


def hashed_uuid(uuid: str) -> str:
    """The same device stays the same, and a UUID stays one: a replay joins two lists by it."""
    digest = hashlib.sha256(uuid.lower().encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def _any_of(values: Iterable[str]) -> re.Pattern[str] | None:
    """The longest first. A short one only as a whole word: "main" is also a part of "domain"."""
    kept = sorted(set(values), key=lambda value: (-len(value), value))
    if not kept:
        return None
    return re.compile("|".join(_bounded(value) for value in kept), re.IGNORECASE)


def _bounded(value: str) -> str:
    before = r"(?<![A-Za-z0-9])" if value[0].isalnum() and len(value) < 8 else ""
    after = r"(?![A-Za-z0-9])" if value[-1].isalnum() and len(value) < 8 else ""
    return before + re.escape(value) + after


def _quoted(path: str) -> str:
    """Spaces and all."""
    if not path.startswith("<"):
        return path if NO_PATH.fullmatch(path) else _without_folders(path)
    return ALL_BELOW.sub(r"<\1>/…", path)


def _without_folders(path: str) -> str:
    if path in EVERYBODYS:
        return path
    name = path.rstrip("/").rsplit("/", 1)[-1]
    return f"<path>/{name}" if name in OUR_FILES else "<path>"


def _only_pythons(found: re.Match[str]) -> str:
    own = OF_PYTHON.fullmatch(found[2])
    known = own is not None and (own[1] is None or own[1] in KNOWN_PACKAGES)
    return found[0] if known else f"<{found[1]}>/…"


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
