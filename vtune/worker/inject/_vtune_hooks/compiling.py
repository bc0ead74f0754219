"""torch.compile, when the training uses it: our functions are not for compiling."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from types import ModuleType
from typing import Any

from _vtune_hooks import frames, recorder

# Filled with the first thing that the training has compiled.
compiled: list[bool] = []


def placed(module: ModuleType) -> None:
    skip = getattr(module, "skip_code", None)
    if skip is None:
        recorder.problem("no skip_code in torch._dynamo.eval_frame: a compiled step may be recompiled because of us")
        return
    here = os.path.dirname(os.path.abspath(__file__))
    names = [name[:-3] for name in sorted(os.listdir(here)) if name.endswith(".py") and name != "__init__.py"]
    frames.skip_in_compiler(skip, [importlib.import_module("_vtune_hooks." + name) for name in names])
    _notice_compiling(module)


def _notice_compiling(module: ModuleType) -> None:
    owner = vars(module).get("OptimizeContext")
    original = vars(owner).get("__init__") if isinstance(owner, type) else None
    if not inspect.isfunction(original):
        recorder.problem("torch._dynamo.eval_frame has no OptimizeContext: what is compiled is not noticed")
        compiled.append(True)
        return

    @frames.unseen
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if not compiled:
            compiled.append(True)
        try:
            original(self, *args, **kwargs)
        except BaseException as error:
            frames.leave_out_of_traceback(error)
            raise

    owner.__init__ = __init__  # type: ignore[misc]
