"""torch.compile, when the training uses it: our functions are not for compiling."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

from _vtune_hooks import frames, recorder


def placed(module: ModuleType) -> None:
    skip = getattr(module, "skip_code", None)
    if skip is None:
        recorder.problem("no skip_code in torch._dynamo.eval_frame: a compiled step may be recompiled because of us")
        return
    here = os.path.dirname(os.path.abspath(__file__))
    names = [name[:-3] for name in sorted(os.listdir(here)) if name.endswith(".py") and name != "__init__.py"]
    frames.skip_in_compiler(skip, [importlib.import_module("_vtune_hooks." + name) for name in names])
