"""Which tests are left out where there is no torch: the parent's own situation."""

from __future__ import annotations

import re
from pathlib import Path

IMPORTS_TORCH = re.compile(r"^\s*(import torch\b|from torch\b|from vtune\.pipelines\b)", re.MULTILINE)


def needs_torch(source: Path) -> bool:
    return IMPORTS_TORCH.search(source.read_text(encoding="utf-8")) is not None
