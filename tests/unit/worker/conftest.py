from __future__ import annotations

from pathlib import Path

import pytest

INJECT = Path(__file__).resolve().parents[3] / "vtune" / "worker" / "inject"


@pytest.fixture(autouse=True)
def hooks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a training, where the folder is first on the path for a moment."""
    monkeypatch.syspath_prepend(INJECT)
