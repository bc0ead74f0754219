"""Help must come at once: what it may load is tested, not how long it took here."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "optuna", "pandas", "numpy", "scipy", "pydantic", "altair", "psutil", "yaml", "pynvml", "sqlalchemy"}

PROGRAM = """
import sys
from vtune.cli.main import run
code = run(sys.argv[1:])
print("LOADED", *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(
    "typed", ["--help", "probe --help", "phase --help", "report --help", "--version", "probe --stpes 5"]
)
def test_help_version_and_typing_errors_load_nothing_heavy(typed: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *typed.split()], capture_output=True, text=True, timeout=60)
    loaded = set(done.stderr.rpartition("LOADED")[2].split())
    assert "vtune" in loaded
    assert not loaded & HEAVY
