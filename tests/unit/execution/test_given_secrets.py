from pathlib import Path

import pytest

from vtune.domain.experiment import Workload
from vtune.execution.given_secrets import given_secrets


def test_the_working_folder_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", "/home/a/project")
    monkeypatch.setenv("OLDPWD", "/home/a/volumes")
    monkeypatch.setenv("DB_PWD", "correct-horse")
    known = given_secrets(Workload(command=("python", "train.py"), cwd=Path("/home/a/project")))
    assert "correct-horse" in known
    assert not {"/home/a/project", "/home/a/volumes"} & set(known)
