"""Which parts of the environment's values must not be told: all that are not known to be harmless."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

# A value that is shorter stands for a switch, not for a secret.
SHORTEST_VALUE = 4
# Switches, languages, terminals, shells: what thousands of machines say alike. Without them a sentence that says
# "true" or "python" would lose its words.
HARMLESS = frozenset(
    ("true", "false", "none", "null", "auto", "always", "never", "enabled", "disabled", "default", "warn", "warning",
     "info", "error", "debug", "utf-8", "utf8", "posix", "noninteractive", "truecolor", "color", "linux", "dumb",
     "screen", "tmux", "vt100", "ansi", "xterm", "python", "python3", "bash", "dash", "fish", "less", "nano", "emacs",
     "vtune", "torch", "cuda", "gpu", "cpu", "compute", "utility", "video", "graphics", "localhost", "spawn", "fork",
     "forkserver", "high", "highest", "medium", "training", "selftest", "worker", "workers", "step", "steps")
)  # fmt: skip
HARMLESS_SHAPES = re.compile(
    # Plain numbers and versions, as long as no account number, address or key is; languages; terminals.
    r"[+-]?\d{1,8}(?:\.\d{1,8})?|\d{1,3}\.\d{1,3}\.\d{1,3}|[a-z]{1,2}(?:_[A-Z]{2})?\.utf-?8|(?:xterm|screen|tmux)-\w{1,12}",
    re.IGNORECASE,
)
SYSTEM_FOLDERS = frozenset(
    ("/bin", "/sbin", "/usr", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/local/sbin",
     "/usr/share", "/usr/local/share", "/usr/local/cuda", "/usr/local/cuda/bin", "/usr/local/cuda/lib64", "/lib",
     "/lib64", "/tmp", "/var/tmp", "/dev/null", "/dev/shm", "/proc", "/bin/sh", "/bin/bash", "/usr/bin/bash",
     "/etc/xdg", "/root", "/home", "/opt", "/data", "/mnt", "/run")
)  # fmt: skip
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"]+")
# What holds several values together: search paths, lists, `name=value`, a user and a host.
SEPARATORS = re.compile(r"[\s,;=:@|&?'\"{}\[\]()]+")


def secrets_of(environment: Mapping[str, str]) -> frozenset[str]:
    """Each value, each line of it, each part of a list and of a URL."""
    return frozenset(
        part
        for value in environment.values()
        for part in _parts(value)
        if len(part) >= SHORTEST_VALUE and not _harmless(part)
    )


def _parts(value: str) -> Iterator[str]:
    yield value.strip()
    for line in value.splitlines():
        yield line.strip()
        yield from line.split(os.pathsep)
        yield from SEPARATORS.split(line)
        for url in URL.findall(line):
            yield url
            _, _, rest = url.partition("://")
            yield rest
            # Escaped in the URL, plain in an error message.
            yield from (unquote(piece) for piece in re.split(r"[/:@?&=#]+", rest))
            yield rest.partition("/")[0]
            yield rest.rpartition("@")[2].partition("/")[0]
            yield rest.partition("/")[0].rpartition("@")[0]


def _harmless(part: str) -> bool:
    return part.lower() in HARMLESS or part.rstrip("/") in SYSTEM_FOLDERS or HARMLESS_SHAPES.fullmatch(part) is not None
