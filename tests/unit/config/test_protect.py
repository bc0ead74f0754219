from pathlib import Path

import pytest

from vtune.config.load import load_experiment
from vtune.config.problems import ConfigErrors


def written(tmp_path: Path, protect: str) -> Path:
    (tmp_path / "train.py").touch()
    file = tmp_path / "exp.yaml"
    file.write_text(f"vtune:\n  command: python train.py\n  cwd: .\n  protect: {protect}\n")
    return file


def test_folders_to_protect_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    assert load_experiment(written(tmp_path, "[runs]")).writes.protect == (tmp_path / "runs",)


@pytest.mark.parametrize("name", ["nowhere", '""', "train.py", "/", "/proc", "~/no-such-folder"])
def test_a_folder_that_cannot_be_protected_is_an_error_at_its_place(tmp_path: Path, name: str) -> None:
    file = written(tmp_path, f"[{name}]")
    with pytest.raises(ConfigErrors) as found:
        load_experiment(file)
    [problem] = found.value.problems
    assert str(problem.where).startswith(f"{file}:4:") and problem.hint
