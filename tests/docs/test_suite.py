"""The rules of the suite itself: no test depends on the folder it is started in, nor on whose home it is."""

from __future__ import annotations

import os
import re
from pathlib import Path

from vtune.telemetry.other_programs import VARIABLE

STARTED_IN_THE_REPOSITORY = re.compile(r"\bcwd=(?:ROOT|root)\b|\bchdir\((?:ROOT|root)\)")


def test_a_test_starts_in_an_empty_folder_with_an_empty_home(root: Path) -> None:
    here, home = Path.cwd(), Path.home()
    assert here != home and list(here.iterdir()) == list(home.iterdir()) == []
    assert not here.is_relative_to(root) and not home.is_relative_to(root)
    # Beside each other, tests would wait for each other's end.
    assert [name for name in os.environ if name.startswith(("VTUNE_", "XDG_"))] == [VARIABLE]


def test_tests_of_the_program_start_nothing_in_the_repository(root: Path) -> None:
    """A study left in its results would be theirs."""
    tests = [
        path for folder in ("unit", "integration", "gpu", "support") for path in (root / "tests" / folder).rglob("*.py")
    ]
    assert [path.name for path in tests if STARTED_IN_THE_REPOSITORY.search(path.read_text(encoding="utf-8"))] == []
