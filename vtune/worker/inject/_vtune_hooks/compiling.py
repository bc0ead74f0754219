"""torch.compile, when the training uses it: our functions are not for compiling."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from types import ModuleType
from typing import Any

from _vtune_hooks import frames, module_calls, recorder

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
    calls = module_calls.of_modules()
    if calls is not None:
        calls.not_known_to(sys.modules.get("torch._dynamo.utils"))
    _notice_compiling(module)


def _notice_compiling(module: ModuleType) -> None:
    owner = vars(module).get("OptimizeContext")
    original = vars(owner).get("__init__") if isinstance(owner, type) else None
    if not inspect.isfunction(original):
        recorder.problem("torch._dynamo.eval_frame has no OptimizeContext: what is compiled is not noticed")
        compiled.append(True)
        return

    owner.__init__ = frames.around(original, before=_before_compiling)  # type: ignore[misc]


def _before_compiling(args: Any, kwargs: Any) -> None:
    if not compiled:
        compiled.append(True)
