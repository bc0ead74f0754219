"""Every Python and the oldest dependencies that pyproject.toml claims run vtune; the injected part runs on Python 3.10.

The parent needs no torch: it is installed without, and watches a training that another interpreter runs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from support.nearest import asks_a_dependency, asks_the_standard_library, others_than_the_nearest
from vtune.version import VERSION

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]
INJECT = ROOT / "vtune" / "worker" / "inject"
CLASSIFIER = re.compile(r"Programming Language :: Python :: (3\.\d+)")
CLAIMED = CLASSIFIER.findall((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TEST_TOOLS = ["pytest", "pytest-timeout", "hypothesis"]
THIS = "{}.{}".format(*sys.version_info)


@pytest.fixture(scope="module", params=[version for version in CLAIMED if version != THIS])
def foreign(
    request: pytest.FixtureRequest,
    interpreter: Callable[[str], Path],
    new_environment: Callable[..., Path],
    wheel: Path,
    all_but_torch: list[str],
) -> Path:
    """The python of an environment that has vtune and all it needs but torch, and the tools of the tests."""
    return new_environment(interpreter(request.param), ["--no-deps", str(wheel)], [*all_but_torch, *TEST_TOOLS])


@pytest.fixture(scope="module")
def oldest(
    new_environment: Callable[..., Path],
    wheel: Path,
    all_but_torch: list[str],
    root: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """This Python with the oldest version of every dependency that pyproject.toml admits."""
    lowest = [re.sub(r">=([\d.]+).*", r"==\1", requirement) for requirement in all_but_torch]
    # pydantic goes with one pydantic-core only.
    own = {requirement.split("==")[0].lower() for requirement in lowest} | {"pydantic-core"}
    pins = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    others = tmp_path_factory.mktemp("oldest") / "constraints.txt"
    others.write_text("\n".join(pin for pin in pins if pin.split("==")[0] not in own))
    tools = ["--no-deps", str(wheel)], [*lowest, *TEST_TOOLS]
    return new_environment(Path(sys.executable), *tools, constraints=others)


def test_what_is_claimed_is_what_is_required() -> None:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"]
    assert required == f">={CLAIMED[0]}"


# What passes on the oldest and on the newest is not run whole in between, where a probe is.
@pytest.mark.parametrize("foreign", CLAIMED[-1:], indirect=True)
def test_the_parents_unit_tests_pass_without_torch(foreign: Path, tmp_path: Path) -> None:
    _run_unit_tests(foreign, tmp_path, leave_out=others_than_the_nearest(asks_the_standard_library), at_least=1500)


def test_the_lower_bounds_of_the_dependencies_are_enough(oldest: Path, tmp_path: Path) -> None:
    _run_unit_tests(oldest, tmp_path, leave_out=others_than_the_nearest(asks_a_dependency), at_least=700)


def test_it_probes_a_training_of_another_interpreter(foreign: Path, training: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    vtune = foreign.parent / "vtune"
    assert subprocess.check_output([vtune, "--version"], text=True, cwd=tmp_path).split()[-1] == VERSION

    ran = subprocess.run(
        [vtune, "probe", "--json", "--results", tmp_path / "results", "--", sys.executable, training],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    shown = json.loads(ran.stdout)
    assert {"study", "trial", "verdict", "why", "next", "headroom"} <= set(shown)
    assert shown["trial"]["status"] == "completed"
    assert shown["trial"]["samples_per_s"] > 0


def test_the_injected_part_compiles_on_python_3_10(interpreter: Callable[[str], Path], tmp_path: Path) -> None:
    files = [str(path) for path in sorted(INJECT.rglob("*.py"))]
    assert files
    compile_each = (
        "import py_compile, sys; [py_compile.compile(f, cfile=sys.argv[1], doraise=True) for f in sys.argv[2:]]"
    )
    subprocess.run([interpreter("3.10"), "-c", compile_each, tmp_path / "compiled", *files], check=True)


def test_the_injected_part_starts_on_python_3_10_without_vtune_or_torch(
    interpreter: Callable[[str], Path], tmp_path: Path
) -> None:
    """A program of the training's tree that never touches torch behaves as if nobody looked."""
    python = interpreter("3.10")
    (tmp_path / "trial").mkdir()
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(INJECT), "PYTHONDONTWRITEBYTECODE": "1"}
    for extra in ({}, {"VTUNE_TRIAL": str(tmp_path / "trial"), "VTUNE_TOKEN": "t"}):
        ran = subprocess.run(
            [python, "-c", "print('as ever')"], env=environment | extra, capture_output=True, text=True
        )
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "as ever\n", "")


def _run_unit_tests(python: Path, tmp_path: Path, *, leave_out: Sequence[Path], at_least: int) -> None:
    # The script and not `-m pytest`, so that the installed wheel is tested and not this folder.
    pytest_there = [python.parent / "pytest", "-q", "-m", "not slow and not timing", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*pytest_there, "--basetemp", tmp_path / "tests", *(f"--ignore={path}" for path in leave_out), "tests/unit"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed and int(passed[1]) >= at_least, "so few tests show little"
