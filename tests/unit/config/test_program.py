from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vtune.config.program import resolve_program, torch_of


def fake_python(folder: Path, *, prefix: str, exit_code: int) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / "python"
    path.write_text(f"#!/bin/sh\necho {prefix}\nexit {exit_code}\n")
    path.chmod(0o755)
    return str(path)


def test_a_python_without_torch_gives_way_to_vtunes_own(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="vtune's own Python gives way itself where it has no torch")
    found = fake_python(tmp_path / "bin", prefix="/usr", exit_code=1)
    command, note = resolve_program(["python", "t.py"], tmp_path, {"PATH": str(tmp_path / "bin")})
    assert command == (sys.executable, "t.py")
    assert note == f"{found} has no torch; using vtune's own Python, {sys.executable}"


@pytest.mark.parametrize(("prefix", "exit_code"), [("/usr", 0), (sys.prefix, 1), ("/usr", 3)])
def test_another_python_is_taken_as_found(tmp_path: Path, prefix: str, exit_code: int) -> None:
    found = fake_python(tmp_path / "bin", prefix=prefix, exit_code=exit_code)
    assert resolve_program(["python", "t.py"], tmp_path, {"PATH": str(tmp_path / "bin")}) == ((found, "t.py"), None)


def test_vtunes_own_python_is_not_asked(tmp_path: Path) -> None:
    here = str(Path(sys.executable).parent)
    command, note = resolve_program(["python3", "t.py"], tmp_path, {"PATH": here})
    assert (Path(command[0]).parent, note) == (Path(here), None)


def test_without_any_python_on_the_path_vtunes_own_runs(tmp_path: Path) -> None:
    command, note = resolve_program(["python", "t.py"], tmp_path, {"PATH": str(tmp_path)})
    assert command == (sys.executable, "t.py")
    assert note == f"there is no python on the PATH; using vtune's own, {sys.executable}"


@pytest.mark.parametrize("program", ["./run.sh", "{python}", "python3.99", "no-such-program"])
def test_other_programs_stay_as_typed(tmp_path: Path, program: str) -> None:
    assert resolve_program([program, "x"], tmp_path, {}) == ((program, "x"), None)


def test_where_nothing_may_be_started_the_files_of_a_python_tell(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="vtune's own Python gives way itself where it has no torch")
    found = fake_python(tmp_path / "bin", prefix="/usr", exit_code=1)
    asked = Path(found)
    asked.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    env = {"PATH": str(tmp_path / "bin")}
    packages = tmp_path / "lib" / "python3.12" / "site-packages"
    # Nothing is known of a Python without such folders: it is taken as found.
    assert resolve_program(["python", "t.py"], tmp_path, env, ask=False) == ((found, "t.py"), None)
    packages.mkdir(parents=True)
    (tmp_path / "pyvenv.cfg").touch()
    command, note = resolve_program(["python", "t.py"], tmp_path, env, ask=False)
    assert command == (sys.executable, "t.py") and note is not None
    assert torch_of(found, tmp_path, env) is None
    (tmp_path / "mine" / "torch").mkdir(parents=True)
    (tmp_path / "mine" / "torch" / "version.py").write_text("__version__ = '2.9.0'\n")
    env["PYTHONPATH"] = "mine"
    assert resolve_program(["python", "t.py"], tmp_path, env, ask=False) == ((found, "t.py"), None)
    assert torch_of(found, tmp_path, env) == "2.9.0"
    assert not (tmp_path / "started").exists()
