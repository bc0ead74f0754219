"""Each way in which Python changes a file is seen before it happens, whoever calls it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.files_as_they_were import differences, manifest
from support.hostile_training import populate
from support.protected import run_python, write_protection
from vtune.execution.restore import restore
from vtune.journal.file_facts import NotKept, WrittenFiles, files_not_kept, written_elsewhere
from vtune.journal.paths import TrialPaths

# The content that no event of Python tells of, as a library in C or Rust would write it.
UNSEEN = """
import ctypes, os
def write_unseen(path):
    libc = ctypes.CDLL(None)
    descriptor = libc.open(os.fsencode(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    libc.write(descriptor, b"unseen", 6)
    libc.close(descriptor)
"""


@pytest.fixture
def place(tmp_path: Path) -> SimpleNamespace:
    work, elsewhere, trial = tmp_path / "work", tmp_path / "elsewhere", tmp_path / "trial"
    work.mkdir()
    elsewhere.mkdir()
    populate(work, elsewhere)
    write_protection(trial, work, elsewhere)
    return SimpleNamespace(
        work=work, elsewhere=elsewhere, trial=trial, root=tmp_path, now=lambda: manifest(work, elsewhere)
    )


@pytest.mark.parametrize(
    "code",
    [
        "open('last.pt', 'w').write('new')",
        "open('last.pt', 'a').write('new')",
        "open('last.pt', 'r+').write('new')",
        "open(b'last.pt', 'wb').write(b'new')",
        "open('new.pt', 'x').write('new')",
        "import io; io.FileIO('last.pt', 'w').write(b'new')",
        "import _io; _io.open('last.pt', 'w').write('new')",
        "import pathlib; pathlib.Path('last.pt').write_text('new')",
        "import os; os.write(os.open('last.pt', os.O_WRONLY | os.O_TRUNC), b'new')",
        "import os; os.write(os.open('0.npy', os.O_WRONLY, dir_fd=os.open('data', os.O_RDONLY)), b'new')",
        "import os; os.open('last.pt', os.O_RDONLY | os.O_TRUNC)",
        "import numpy; numpy.memmap('last.pt', mode='r+')[:2] = 7",
        "import numpy; numpy.save('data/0.npy', [1, 2])",
        "import os; os.replace('train.log', 'last.pt')",
        "import os; os.rename('data', 'data-2')",
        "import os; os.renames('data/deep', 'data-2/deep')",
        "import os; os.rename('0.npy', 'z', src_dir_fd=os.open('data', os.O_RDONLY), dst_dir_fd=os.open('.', 0))",
        "import os; os.remove('last.pt')",
        "import os; os.unlink('a.txt', dir_fd=os.open('data/deep', os.O_RDONLY))",
        "import os; os.rmdir('empty')",
        "import os; os.mkdir('run')",
        "import os; os.truncate('last.pt', 1)",
        "import os; os.symlink('last.pt', 'link')",
        "import os; os.link('last.pt', 'link'); open('link', 'w').write('new')",
        "import os; os.chmod('last.pt', 0o777)",
        "import os; os.fchmod(os.open('last.pt', os.O_RDONLY), 0o777)",
        "import os; os.utime('checkpoints', (1, 2))",
        "import os; os.utime('latest', (1, 2), follow_symlinks=False)",
        "import os; os.setxattr('last.pt', 'user.vtune', b'1')",
        "import shutil; shutil.rmtree('data')",
        "import shutil; shutil.move('old_run', 'checkpoints')",
        "import shutil; shutil.copy2('train.log', 'last.pt')",
        "import sqlite3; sqlite3.connect('runs.db').execute('create table runs (number)')",
        "import socket; socket.socket(socket.AF_UNIX).bind('socket')",
        "import tempfile; tempfile.NamedTemporaryFile(dir='.', delete=False)",
        "open('latest.pt', 'w').write('through a link')",
        "open('shared/last.pt', 'w').write('through a link')",
        "open('dangling', 'w').write('through a link')",
        "import zipfile; zipfile.ZipFile('last.pt', 'w').writestr('a', 'b')",
        "import logging; logging.basicConfig(filename='train.log'); logging.warning('new')",
        "import os; os.fork() or open('last.pt', 'w').write('new'); os._exit(0)",
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import os; os.remove(\\'last.pt\\')'])",
        "import threading; threading.Thread(target=lambda: open('last.pt', 'w').write('new')).start()",
        "import signal, os; signal.signal(10, lambda *_: open('last.pt', 'w').write('new')); os.kill(os.getpid(), 10)",
    ],
)
def test_it_can_be_put_back(place, code):
    if "setxattr" in code and not _has_attributes(place.work):
        pytest.skip("this file system has no attributes")
    before = place.now()
    done = run_python(place.trial, code, place.work)
    assert done.stderr == "" or "ResourceWarning" in done.stderr
    assert differences(before, place.now()) != []
    restore(str(place.trial))
    assert differences(before, place.now()) == []


def _has_attributes(folder: Path) -> bool:
    try:
        os.setxattr(folder, "user.vtune", b"1")
        os.removexattr(folder, "user.vtune")
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    "code",
    [
        "import torch; torch.save({'a': 1}, 'last.pt')",
        "import torch; torch.save({'a': 1}, 'last.pt', _use_new_zipfile_serialization=False)",
        "import pathlib, torch; torch.save({'a': 1}, pathlib.Path('latest.pt'))",
        "import torch; torch._C.ScriptModule.save(torch.jit.trace(torch.nn.ReLU(), torch.ones(1))._c, 'last.pt')",
    ],
)
def test_what_torch_writes_in_cpp_can_be_put_back(place, code):
    pytest.importorskip("torch")
    before = place.now()
    assert run_python(place.trial, code, place.work).returncode == 0
    assert differences(before, place.now()) != []
    restore(str(place.trial))
    assert differences(before, place.now()) == []


def test_what_safetensors_writes_in_rust_can_be_put_back(place):
    package = place.root / "packages" / "safetensors"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        UNSEEN + "def serialize_file(tensors, filename, metadata=None):\n    write_unseen(filename)\n"
    )
    (package / "torch.py").write_text("from safetensors import serialize_file\n")
    before = place.now()
    code = (
        f"import sys; sys.path.append({str(package.parent)!r})\n"
        "from safetensors.torch import serialize_file\nserialize_file({}, 'last.pt', metadata=None)"
    )
    done = run_python(place.trial, code, place.work)
    assert (done.returncode, done.stderr) == (0, "")
    assert (place.work / "last.pt").read_bytes() == b"unseen"
    restore(str(place.trial))
    assert differences(before, place.now()) == []


def test_what_an_object_writes_while_python_shuts_down_can_be_put_back(place):
    """No module can be imported any more by then."""
    code = """
import os, sys, types
class Late:
    def __init__(self):
        self.remove = os.remove
    def __del__(self):
        self.remove("last.pt")
module = types.ModuleType("module")
module.late, module.itself = Late(), module
sys.modules["module"] = module
"""
    before = place.now()
    assert run_python(place.trial, code, place.work).stderr == ""
    assert differences(before, place.now()) != []
    restore(str(place.trial))
    assert differences(before, place.now()) == []


def test_reading_keeps_nothing(place):
    code = (
        "import os; open('last.pt').read(); os.listdir('.'); os.close(os.open('train.log', os.O_RDONLY)); import json"
    )
    run_python(place.trial, code, place.work, PYTHONDONTWRITEBYTECODE="1")
    assert not (place.trial / "kept").exists()


def test_what_lands_in_the_trials_own_folder_is_not_kept(place):
    run_python(place.trial, f"open({str(place.trial / 'output.pt')!r}, 'w').write('new')", place.work)
    assert not (place.trial / "kept").exists()
    assert not list(place.trial.glob("files-*"))


def test_a_file_that_cannot_be_kept_is_not_changed(place):
    write_protection(place.trial, place.work, disk_bytes=10)
    before = place.now()
    done = run_python(
        place.trial,
        "try: open('last.pt', 'w')\nexcept OSError as error: print(error.errno, error.filename)",
        place.work,
    )
    assert done.stdout.split() == [str(errno.ENOSPC), str(place.work / "last.pt")]
    assert differences(before, place.now()) == []
    assert [(one.path, one.error) for one in files_not_kept(TrialPaths(place.trial))] == [
        (str(place.work / "last.pt"), "ENOSPC")
    ]


WRITES = """
import os, sys
elsewhere = sys.argv[1]
os.chdir(elsewhere)
open("shared/last.pt", "a").write("more")
open("new.pt", "w").write("new")
os.mkdir("new-folder")
os.rename("moved", "moved-2")
os.remove("removed")
open("left-alone", "a").close()
open("came-and-went", "w").close(); os.remove("came-and-went")
open("/dev/null", "w").write("x")
open(os.environ["TMPDIR"] + "/x", "w").write("x")
os.makedirs("__pycache__", exist_ok=True); open("__pycache__/a.pyc", "w").write("x")
for _ in range(3):
    if os.fork() == 0:
        open("shared/last.pt", "a").write("from a child")
        os._exit(0)
    os.wait()
"""


@pytest.mark.parametrize("by", ["overlay", "inside", "none"])
def test_what_is_written_elsewhere_is_listed(place, by):
    write_protection(place.trial, *([place.work] if by != "none" else []), by=by)
    for name in ("moved", "removed", "left-alone"):
        (place.elsewhere / name).write_text(name)
    (place.root / "vt-0123").mkdir()
    done = run_python(place.trial, WRITES, place.work, str(place.elsewhere), TMPDIR=str(place.root / "vt-0123"))
    assert (done.returncode, done.stderr) == (0, "")
    top = str(place.elsewhere)
    assert written_elsewhere(TrialPaths(place.trial)) == WrittenFiles(
        changed=(f"{top}/shared/last.pt",),
        new=(f"{top}/moved-2", f"{top}/new-folder/", f"{top}/new.pt"),
        removed=(f"{top}/moved", f"{top}/removed"),
    )
    assert not (place.trial / "kept").exists()


def test_below_an_overlay_nothing_is_kept_and_nothing_listed(place):
    write_protection(place.trial, place.work, by="overlay")
    run_python(place.trial, "open('last.pt', 'w').write('new')", place.work)
    assert (place.work / "last.pt").read_text() == "new"
    assert not (place.trial / "kept").exists()
    assert written_elsewhere(TrialPaths(place.trial)) == WrittenFiles()


def test_a_full_run_is_left_alone(place):
    (place.trial / "protection.json").unlink()
    done = run_python(
        place.trial, "import sys; open('last.pt', 'w').write('new'); print('_vtune_hooks.file_events' in sys.modules)",
        place.work,
    )  # fmt: skip
    assert done.stdout == "False\n"
    assert sorted(path.name for path in place.trial.iterdir()) == ["pythons.jsonl"]


@pytest.mark.parametrize(("by", "code"), [("inside", 1), ("overlay", 0)])
def test_a_python_that_cannot_protect_does_not_run_where_all_depends_on_it(place, by, code):
    (place.trial / "protection.json").write_text(json.dumps({"by": by, "folders": 7}))
    done = run_python(place.trial, "open('last.pt', 'w').write('new')", place.work)
    assert done.returncode == code
    assert ((place.work / "last.pt").read_bytes() == b"new") == (by == "overlay")
    refused = files_not_kept(TrialPaths(place.trial))
    assert [type(one) for one in refused] == [NotKept] * code


def test_a_training_that_raises_odd_events_of_its_own_is_not_disturbed(place):
    code = "for arguments in [(), (1,), ('a', None, 'b'), (None,) * 9]: sys.audit('open', *arguments)"
    done = run_python(place.trial, f"import sys\n{code}\nprint('ok')", place.work)
    assert (done.stdout, done.stderr) == ("ok\n", "")
