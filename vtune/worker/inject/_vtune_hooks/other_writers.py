"""Files that torch and safetensors open in C++ and Rust, of which Python tells nothing.

`torch.save` opens its archive in `torch._C.PyTorchFileWriter(path)`, from torch 1.6 to 2.13 alike; torch.package and
torch.export use the same class. `torch.jit.save` calls `save` of the compiled module.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from _vtune_hooks import file_events, recorder
from _vtune_hooks.frames import around

# Which argument, the object itself counted, is the path.
_OF_TORCH = {
    ("PyTorchFileWriter", "__init__"): 1,
    ("ScriptModule", "save"): 1,
    ("ScriptModule", "_save_for_mobile"): 1,
    ("ScriptFunction", "save"): 1,
}


def placed(module: ModuleType) -> None:
    """After torch.serialization or safetensors has run."""
    if not file_events.watching:
        return
    if module.__name__ == "safetensors":
        original = vars(module).get("serialize_file")
        if callable(original):
            setattr(module, "serialize_file", _told_before(original, 1, "filename"))  # noqa: B010
        return
    compiled = sys.modules.get("torch._C")
    for (owner, name), at in _OF_TORCH.items():
        kind = getattr(compiled, owner, None)
        original = getattr(kind, name, None)
        if callable(original):
            setattr(kind, name, _told_before(original, at, "filename"))
        elif owner == "PyTorchFileWriter":
            recorder.problem(f"torch._C has no {owner}: files of torch.save cannot be kept")


def _told_before(original: Any, at: int, keyword: str) -> Any:
    def before(args: Any, kwargs: Any) -> None:
        file_events.before_writing(args[at] if len(args) > at else kwargs.get(keyword))

    return around(original, before=before)
