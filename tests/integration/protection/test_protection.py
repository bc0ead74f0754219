"""The real program on a training that destroys the files around it: they are as they were afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import ROOT, quiet_env, vtune
from support.files_as_they_were import differences, manifest
from support.hostile_training import populate
from support.light import LIGHT

TRAINING = f"""{LIGHT}
sys.path.insert(0, {str(ROOT / "tests")!r})
import torch
from torch.utils.data import DataLoader, TensorDataset
from support.hostile_training import Hostile
hostile = Hostile(int(sys.argv[1]), out="checkpoints", with_torch=True)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10**6):
    for (x,) in DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=4):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        hostile.step()
"""
IS_ROOT = os.geteuid() == 0
# Root without the right to mount is refused its own namespace, and vtune makes a user namespace as for anybody.
WITHOUT_RIGHTS = ("setpriv", "--bounding-set", "-sys_admin")
# A namespace that allows no further one, as many containers.
ALLOW_NOTHING = 'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set -sys_admin "$@"'
CONTAINER = ("unshare", "--user", "--map-root-user", "sh", "-c", ALLOW_NOTHING, "sh")
AS = {"root": (), "user": WITHOUT_RIGHTS if IS_ROOT else (), "container": CONTAINER}
KEPT_BY = {(): "overlay", WITHOUT_RIGHTS: "overlay", CONTAINER: "inside"}


@pytest.fixture(params=AS)
def prefix(request: pytest.FixtureRequest) -> tuple[str, ...]:
    prefix = AS[request.param]
    if request.param == "root" and not IS_ROOT:
        pytest.skip("needs root")
    if prefix and (shutil.which("setpriv") is None or shutil.which("unshare") is None):
        pytest.skip("needs setpriv and unshare of util-linux")
    namespaces = [] if prefix == CONTAINER else ["unshare", "--mount", *(["--user"] if prefix or not IS_ROOT else [])]
    if subprocess.run([*prefix, *namespaces, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine allows no such namespaces")
    return prefix


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    populate(tmp_path / "project", tmp_path / "elsewhere")
    (tmp_path / "project" / "train.py").write_text(TRAINING)
    return tmp_path / "project"


@contextlib.contextmanager
def left_alone(project: Path) -> Iterator[None]:
    places = (project, project.parent / "elsewhere")
    before = manifest(*places)
    yield
    assert differences(before, manifest(*places)) == []


def command(project: Path, *words: str, seed: int, prefix: tuple[str, ...]) -> list[str]:
    results = str(project.parent / "results")
    vtune = [*prefix, sys.executable, "-m", "vtune", *words, "--results", results, "--quiet"]
    return [*vtune, "--", sys.executable, "train.py", str(seed)]


def trials(project: Path) -> list[Path]:
    return sorted((project.parent / "results").glob("*/trials/*"))


def test_a_probed_training_leaves_all_files_as_they_were(project: Path, prefix: tuple[str, ...]) -> None:
    with left_alone(project):
        said = subprocess.run(
            command(project, "probe", "--json", "--steps", "30", seed=1, prefix=prefix),
            cwd=project, env=quiet_env(), capture_output=True, text=True, timeout=110, check=False,
        )  # fmt: skip
    # It removes its own script in time, and a full run of it would die of that.
    assert said.returncode in (0, 5), said.stderr
    assert json.loads((trials(project)[0] / "protection.json").read_text())["by"] == KEPT_BY[prefix]
    written = json.loads((trials(project)[0] / "written.json").read_text())
    assert written["changed"] and written["new"] and written["removed"]
    assert not (trials(project)[0] / ".overlay").exists() and not (trials(project)[0] / "kept").exists()


def test_where_files_can_be_kept_in_no_way_nothing_starts_unless_the_user_allows_it(project: Path) -> None:
    (project / "train.sh").write_text("echo started > started\n")
    results = ["--results", str(project.parent / "results"), "--json", "--quiet"]
    if subprocess.run([*CONTAINER, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine allows no such namespaces")
    for more, code in ((), 3), (("--allow-writes",), 5):
        said = subprocess.run(
            [*CONTAINER, sys.executable, "-m", "vtune", "probe", *results, *more, "--", "sh", "train.sh"],
            cwd=project, env=quiet_env(), capture_output=True, text=True, timeout=110, check=False,
        )  # fmt: skip
        assert said.returncode == code, said.stderr
        assert (project / "started").exists() == bool(more)
        assert more or "--allow-writes" in json.loads(said.stdout)["hint"]


def test_a_folder_that_existed_is_renamed_in_its_copy_alone(project: Path, prefix: tuple[str, ...]) -> None:
    code = "import os, pathlib, torch\nos.rename('data', 'renamed')\npathlib.Path('old_run').replace('run')\n"
    (project / "train.py").write_text(f"{code}assert os.path.exists('renamed/deep/a.txt') and os.path.exists('run')\n")
    with left_alone(project):
        subprocess.run(
            command(project, "probe", seed=1, prefix=prefix),
            cwd=project,
            env=quiet_env(),
            capture_output=True,
            check=False,
        )
    assert json.loads((trials(project)[0] / "outcome.json").read_text())["exit_code"] == 0
    written = json.loads((trials(project)[0] / "written.json").read_text())
    assert f"{project}/data" in written["removed"] and f"{project}/renamed/" in written["new"]


@pytest.mark.slow
def test_a_searched_training_leaves_all_files_as_they_were(project: Path, prefix: tuple[str, ...]) -> None:
    with left_alone(project):
        subprocess.run(
            command(project, "search", "--trials", "3", "--steps", "20", "--no-confirm", seed=2, prefix=prefix),
            cwd=project, env=quiet_env(), capture_output=True, timeout=110, check=False,
        )  # fmt: skip
    assert len(trials(project)) >= 1


@pytest.mark.parametrize("seed", [3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 9))])
def test_killed_at_any_moment_all_files_are_as_they_were(project: Path, prefix: tuple[str, ...], seed: int) -> None:
    chance = random.Random(seed)
    with left_alone(project):
        running = subprocess.Popen(
            command(project, "probe", "--steps", "3000", seed=seed, prefix=prefix),
            cwd=project, env=quiet_env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until_s = time.monotonic() + 60
        while not list((project.parent / "results").glob("*/trials/0001/steps-*.bin")) and time.monotonic() < until_s:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 1.5))
        state = json.loads((trials(project)[0] / "supervisor.json").read_text())
        if chance.random() < 0.7:
            with contextlib.suppress(ProcessLookupError):
                os.kill(state["supervisor_pid"], signal.SIGKILL)
        running.kill()
        running.wait()
        # The next command of the study clears up after both.
        (project.parent / "quick.py").write_text("import torch\n")
        subprocess.run(
            command(project, "probe", "--steps", "20", seed=seed, prefix=prefix),
            cwd=project, env=quiet_env(), capture_output=True, timeout=110, check=False,
        )  # fmt: skip
    assert not (trials(project)[0] / ".overlay").exists() and not (trials(project)[0] / "kept").exists()


OVERWRITING = f"""{LIGHT}
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.save(model.state_dict(), "last.pt")
for epoch in range(10**6):
    for (x,) in DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=4):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
"""


def test_a_second_study_neither_joins_a_first_one_nor_takes_its_changes_for_the_users_files(project: Path) -> None:
    if subprocess.run([*CONTAINER, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine allows no such namespaces")
    (project / "train.py").write_text(OVERWRITING)
    first = command(project, "probe", "--study", "one", "--steps", "50000", seed=1, prefix=CONTAINER)
    second = command(project, "probe", "--study", "two", "--steps", "20", "--json", seed=1, prefix=CONTAINER)
    with left_alone(project):
        old = (project / "last.pt").read_bytes()
        running = subprocess.Popen(
            first, cwd=project, env=quiet_env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            until_s = time.monotonic() + 60
            while not list((project.parent / "results").glob("one/trials/0001/steps-*.bin")):
                assert time.monotonic() < until_s
                time.sleep(0.02)
            assert (project / "last.pt").read_bytes() != old
            refused = subprocess.run(
                second, cwd=project, env=quiet_env(), capture_output=True, text=True, timeout=60, check=False
            )
            assert refused.returncode == 2 and "study one " in refused.stdout
            state = json.loads((trials(project)[0] / "supervisor.json").read_text())
            os.kill(running.pid, signal.SIGSTOP)  # it must not sweep
            os.kill(state["supervisor_pid"], signal.SIGKILL)
        finally:
            running.kill()
            running.wait()
        assert (project / "last.pt").read_bytes() != old
        done = subprocess.run(second, cwd=project, env=quiet_env(), capture_output=True, timeout=110, check=False)
        assert done.returncode == 0
    assert [path.parent.parent.name for path in trials(project)] == ["one", "two"]


@pytest.mark.skipif(not IS_ROOT, reason="only root may mount")
def test_a_mount_inside_the_working_folder_is_covered_too(project: Path) -> None:
    nested = project / "scratch"
    nested.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", nested], check=True)
    try:
        (nested / "last.pt").write_text("old")
        (project / "train.py").write_text(
            "import os, torch\nassert open('scratch/last.pt').read() == 'old'\n"
            "torch.save({}, 'scratch/last.pt')\nopen('scratch/new', 'w').close()\n"
        )
        with left_alone(project):
            subprocess.run(
                command(project, "probe", seed=1, prefix=()),
                cwd=project,
                env=quiet_env(),
                capture_output=True,
                check=False,
            )
        written = json.loads((trials(project)[0] / "written.json").read_text())
        assert written == {"changed": [f"{nested}/last.pt"], "new": [f"{nested}/new"], "removed": []}
    finally:
        subprocess.run(["umount", nested], check=True)


def test_a_trial_that_fills_its_disk_space_is_ended_and_says_so(project: Path) -> None:
    (project / "train.py").write_text(
        TRAINING.replace("hostile.step()", "open(f'checkpoints/{epoch}-{id(x)}.pt', 'wb').write(bytes(2**20))")
    )
    with left_alone(project):
        said = vtune(
            "probe", "--json", "--steps", "50000", "--trial-disk", "64MiB", "--results", project.parent / "results",
            "--", sys.executable, "train.py", "1", cwd=project,
        )  # fmt: skip
    record = said.json["trial"]
    assert record["evidence"]["ended_by"] == "disk"
    assert record["status"] == ("completed" if record["steps_measured"] >= 20 else "too_short")
    assert said.code == 4
    # How much it had written when it was ended depends on the disk.
    [(flag, more)] = [line.split(",")[0].split() for line in record["next"]]
    assert flag == "--trial-disk" and more.endswith("iB") and more not in ("64MiB", "0MiB")


def test_writes_are_real_where_the_user_allows_them(project: Path) -> None:
    (project / "train.py").write_text("import torch\ntorch.save({}, 'last.pt')\n")
    vtune(
        "probe",
        "--allow-writes",
        "--results",
        project.parent / "results",
        "--",
        sys.executable,
        "train.py",
        cwd=project,
    )
    assert (project / "last.pt").read_bytes()[:2] == b"PK"


def test_a_script_that_removed_itself_is_back_for_the_next_command(project: Path) -> None:
    if subprocess.run([*CONTAINER, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine allows no such namespaces")
    removing = TRAINING.replace("hostile.step()", "os.path.exists('train.py') and os.remove('train.py')")
    (project / "train.py").write_text(f"import os\n{removing}")
    before = (project / "train.py").read_bytes()
    running = subprocess.Popen(
        command(project, "probe", "--steps", "30000", seed=1, prefix=CONTAINER),
        cwd=project, env=quiet_env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until_s = time.monotonic() + 60
    while (project / "train.py").exists() and time.monotonic() < until_s:
        time.sleep(0.05)
    os.kill(json.loads((trials(project)[0] / "supervisor.json").read_text())["supervisor_pid"], signal.SIGKILL)
    running.kill()
    running.wait()
    assert not (project / "train.py").exists()
    again = subprocess.run(
        command(project, "probe", "--steps", "20", seed=1, prefix=CONTAINER),
        cwd=project, env=quiet_env(), capture_output=True, timeout=110, check=False,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert (project / "train.py").read_bytes() == before
