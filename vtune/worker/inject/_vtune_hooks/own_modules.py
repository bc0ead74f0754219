"""Which of the modules that this process has imported are the training's own: not installed, but beside its script or
in its working folder. Only their paths are told; another edit of one of them is another training."""

from __future__ import annotations

import os
import sys

from _vtune_hooks import recorder

INSTALLED = ("site-packages", "dist-packages")
INTERPRETER = tuple({os.path.dirname(os.path.realpath(os.__file__)) + os.sep, sys.prefix + os.sep})
# A training with more modules of its own is told by these.
MOST = 400


def tell() -> None:
    """Once, at the first step: by then a training has imported what it is made of."""
    try:
        recorder.fact("modules", files=_files())
    except Exception as error:
        recorder.problem(f"the training's own modules: {error!r}")


def _files() -> list[str]:
    here = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    script = os.path.realpath(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    roots = {os.path.realpath(os.getcwd()), os.path.dirname(script) if script else ""} - {"", "/"}
    found = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        # Resolving a path asks the disk for each of its parts, and most of some thousand modules are installed ones.
        if type(file) is not str or not file.endswith(".py") or not os.path.isabs(file):
            continue
        if file.startswith(INTERPRETER) or _is_installed(file):
            continue
        path = os.path.realpath(file)
        inside = any(path.startswith(root + os.sep) for root in roots)
        if inside and not path.startswith((here + os.sep, *INTERPRETER)) and not _is_installed(path):
            found.add(path)
    return sorted(found)[:MOST]


def _is_installed(path: str) -> bool:
    return any(f"{os.sep}{name}{os.sep}" in path for name in INSTALLED)
