"""What the mathematics really runs with, read where the model computes: told when it changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from _vtune_hooks import compiling, recorder

_told: list[dict[str, Any]] = []


def _start_afresh() -> None:
    _told.clear()


recorder.in_each_child.append(_start_afresh)


def tell(kind: str, model: Any) -> None:
    """`model`: a module that is being called; None outside of any, where autocast is not known."""
    torch: Any = sys.modules["torch"]
    inside = model is not None
    autocast = _read(lambda: torch.is_autocast_enabled(kind)) if inside else None
    found = {
        "autocast": autocast,
        "autocast_dtype": _read(lambda: _plain(torch.get_autocast_dtype(kind))) if autocast else None,
        "parameters": _read(lambda: _plain(next(model.parameters()).dtype)) if inside else None,
        "matmul": _read(torch.get_float32_matmul_precision),
        # Where torch has the newer names, the older ones warn, or fail when a script used both.
        "tf32_matmul": _tf32(torch.backends.cuda.matmul, torch.backends.cuda.matmul),
        "tf32_cudnn": _tf32(getattr(torch.backends.cudnn, "conv", None), torch.backends.cudnn),
        "cudnn_benchmark": _read(lambda: bool(torch.backends.cudnn.benchmark)),
        "cudnn_deterministic": _read(lambda: bool(torch.backends.cudnn.deterministic)),
        "threads": _read(torch.get_num_threads),
        "compiled": bool(compiling.compiled),
    }
    if _told and not inside:
        found.update({name: _told[0][name] for name in ("autocast", "autocast_dtype", "parameters")})
    if _told[:1] != [found]:
        _told[:] = [found]
        recorder.fact("precision", **found)


def _tf32(newer: Any, older: Any) -> bool | None:
    precision = _read(lambda: newer.fp32_precision)
    if precision is not None:
        return bool(precision == "tf32")
    allowed = _read(lambda: older.allow_tf32)
    return None if allowed is None else bool(allowed)


def _plain(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _read(what: Callable[[], Any]) -> Any:
    try:
        return what()
    except Exception:
        return None
