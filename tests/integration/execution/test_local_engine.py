"""How a trial starts and ends, seen from vtune."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import sys
import time
from pathlib import Path

import pytest

from support.snippets import CLEANER
from vtune.execution.process_tree import trial_processes
from vtune.journal.paths import TrialPaths
from vtune.journal.trial_files import read_outcome

# Tells that it is ready, then waits for ever.
WAIT = "import time; print('ready', flush=True); time.sleep(1000)"
IGNORE_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAIT
# A daemon as textbooks make it: forked twice, in a session of its own. Prints its pid.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    pid = os.fork()
    if pid == 0:
        {forget}
        time.sleep(1000)
    os._exit(0)
os.wait()
print("ready", flush=True)
{then}
"""
EXEC_WITHOUT_ENVIRONMENT = "os.execve('/bin/sleep', ['sleep', '1000'], {})"


def test_a_training_that_ends_by_itself_keeps_its_exit_code_and_its_words(trials, finish):
    trial, folder, _ = trials.python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.exit_code, outcome.signal, outcome.stragglers) == ("itself", 3, None, 0)
    assert 0.0 < outcome.seconds < 20.0
    assert (folder / "stdout.log").read_text() == "out\n"
    assert (folder / "stderr.log").read_text() == "err\n"
    assert read_outcome(TrialPaths(folder)) == outcome


def test_a_training_killed_from_outside_ends_itself_with_that_signal(trials, finish, printed):
    trial, folder, _ = trials.python(WAIT)
    printed(folder)
    os.kill(trial.leader_pid, signal.SIGKILL)
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.exit_code, outcome.signal) == ("itself", None, signal.SIGKILL)


def test_the_training_finds_the_environment_of_the_protocol(trials, finish, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("INHERITED", "yes")
    code = "import json, os; print(json.dumps({**os.environ, 'tmp': os.path.isdir(os.environ['TMPDIR'])}))"
    spec = trials.spec(sys.executable, "-c", code, env={"OMP_NUM_THREADS": "1", "INHERITED": "no"})
    folder = trials.folder(spec)
    finish(trials.start(spec, folder))
    env = json.loads((folder / "stdout.log").read_text())
    assert env["VTUNE_TRIAL"] == str(folder)
    assert env["VTUNE_TOKEN"] == spec.token
    assert env["PYTHONPATH"] == f"{trials.inject}:/somewhere"
    assert (env["OMP_NUM_THREADS"], env["INHERITED"]) == ("1", "no")
    assert env["tmp"] and os.path.basename(env["TMPDIR"]).startswith("vt-")
    assert not os.path.exists(env["TMPDIR"])


def test_the_training_starts_as_from_a_clean_shell(trials, finish):
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        # A shell, because Python itself ignores some signals. The sixth field of stat is the session.
        script = """
            grep -E 'SigBlk|SigIgn' /proc/self/status
            ls /proc/self/fd | wc -l
            cat /proc/self/oom_score_adj
            cut -d ' ' -f 6 /proc/$$/stat
            echo $$
        """
        spec = trials.spec("/bin/sh", "-c", script)
        folder = trials.folder(spec)
        trial = trials.start(spec, folder)
        finish(trial)
    finally:
        signal.signal(signal.SIGHUP, ignored)
    words = (folder / "stdout.log").read_text().split()
    assert words[0:4:2] == ["SigBlk:", "SigIgn:"]
    # Signals 32 and 33 are the C library's own: nobody else may set them, so what was inherited stays.
    assert [int(mask, 16) & 0x7FFFFFFF for mask in words[1:4:2]] == [0, 0]
    assert words[4] == "4"  # 0, 1, 2 and the one with which ls reads the folder
    assert words[5] == "1000"
    assert words[6] == words[7] == str(trial.leader_pid)


@pytest.mark.parametrize("file", ["supervisor.json", "outcome.json"])
def test_a_folder_that_does_not_take_a_file_loses_neither_the_end_nor_a_process(trials, finish, file):
    spec = trials.spec(sys.executable, "-c", "import sys; sys.exit(3)")
    folder = trials.folder(spec)
    (folder / file).mkdir()  # nobody can write there, root neither
    if file == "supervisor.json":
        with pytest.raises(IsADirectoryError) as caught:
            trials.start(spec, folder)
        assert caught.value.filename == str(folder / file) and not trial_processes(spec.token, [])
    else:
        outcome = finish(trials.start(spec, folder))
        assert (outcome.ended_by, outcome.exit_code) == ("itself", 3)


def test_a_training_that_ignores_sigterm_is_killed(trials, finish, printed):
    trial, folder, _ = trials.python(IGNORE_SIGTERM)
    printed(folder)
    asked_s = time.monotonic()
    trial.end("trial_time", 0.0)
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.signal) == ("trial_time", signal.SIGKILL)
    assert 2.5 < time.monotonic() - asked_s < 10.0


def test_a_stopped_training_is_ended_by_sigterm_too(trials, finish, printed):
    trial, folder, _ = trials.python(WAIT)
    printed(folder)
    os.kill(trial.leader_pid, signal.SIGSTOP)
    trial.end("hang", 0.0)
    assert finish(trial).signal == signal.SIGTERM


def test_within_its_grace_a_training_ends_by_itself(trials, finish):
    code = "import os, time\nwhile not os.path.exists(os.environ['VTUNE_TRIAL'] + '/stop'): time.sleep(0.01)"
    trial, folder, _ = trials.python(code)
    trial.end("window", 30.0)
    time.sleep(0.2)
    assert trial.poll() is None
    (folder / "stop").write_text("0\n")
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.exit_code, outcome.stragglers) == ("window", 0, 0)


def test_after_its_grace_a_training_is_ended(trials, finish, printed):
    trial, folder, _ = trials.python(WAIT)
    printed(folder)
    trial.end("window", 0.3)
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.signal) == ("window", signal.SIGTERM)


def test_a_later_order_hastens_and_the_first_reason_stays(trials, finish, printed):
    trial, folder, _ = trials.python(IGNORE_SIGTERM)
    printed(folder)
    trial.end("window", 60.0)
    trial.kill("interrupt")
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.signal) == ("window", signal.SIGKILL)


def test_an_order_after_the_end_changes_nothing(trials, finish):
    trial, _, _ = trials.python("pass")
    outcome = finish(trial)
    trial.kill("limit")
    trial.end("window", 1.0)
    assert trial.poll() == outcome


def test_a_daemon_of_the_training_is_stopped_and_counted(trials, finish, living):
    trial, _, token = trials.python(DAEMON.format(forget="pass", then=""))
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.exit_code, outcome.stragglers) == ("itself", 0, 1)
    assert living(token) == []


def test_who_cleans_up_after_the_leader_is_given_the_time_for_it(trials, finish):
    trial, folder, _ = trials.python(CLEANER)
    outcome = finish(trial)
    assert (outcome.exit_code, outcome.stragglers) == (0, 0)
    assert (folder / "cleaned").exists()


def test_an_order_that_comes_after_the_leaders_end_is_not_the_reason_of_it(trials, finish, wait_for):
    trial, _, _ = trials.python(DAEMON.format(forget="pass", then=""))
    wait_for(lambda: not os.path.exists(f"/proc/{trial.leader_pid}"))
    trial.kill("limit")
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.exit_code) == ("itself", 0)
    assert outcome.seconds < 1.0


def test_a_daemon_that_dropped_its_environment_is_stopped_too(trials, finish, printed):
    trial, folder, _ = trials.python(DAEMON.format(forget=EXEC_WITHOUT_ENVIRONMENT, then="time.sleep(1000)"))
    printed(folder)
    pids = [pid for pid in trial.pids() if pid != trial.leader_pid]
    assert len(pids) == 1
    trial.kill("limit")
    outcome = finish(trial)
    assert (outcome.ended_by, outcome.signal, outcome.stragglers) == ("limit", signal.SIGKILL, 0)
    assert not os.path.exists(f"/proc/{pids[0]}")


def test_a_foreign_process_with_the_same_name_is_not_touched(trials, finish, neighbour):
    stranger = neighbour(sys.executable, "-c", WAIT)
    assert stranger.stdout.readline() == "ready\n"
    trial, _, _ = trials.python(WAIT)
    trial.end("window", 0.0)
    finish(trial)
    assert stranger.poll() is None


def test_pids_is_the_whole_tree_without_vtunes_own(trials, printed, wait_for):
    trial, folder, _ = trials.python(DAEMON.format(forget="pass", then="time.sleep(1000)"))
    printed(folder)
    pids = wait_for(lambda: trial.pids() if len(trial.pids()) == 2 else None)
    assert trial.leader_pid in pids
    assert not set(trial.own_pids) & set(pids)
    assert os.getpid() not in pids


def test_ctrl_c_in_the_terminal_reaches_neither_the_supervisor_nor_the_training(trials, printed):
    trial, folder, _ = trials.python(WAIT)
    printed(folder)
    (supervisor,) = trial.own_pids
    assert os.getsid(supervisor) == supervisor
    assert os.getsid(trial.leader_pid) == trial.leader_pid


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("no-such-program", "No such file or directory"),
        ("./not-executable", "Permission denied"),
        ("./no-interpreter", "No such file or directory"),
        ("./not-a-program", "Exec format error"),
        ("nul\0inside", "embedded null"),
    ],
)
def test_a_command_that_cannot_be_started_is_told_in_the_systems_words(trials, finish, command, words):
    for name, text in (("not-executable", ""), ("no-interpreter", "#!/no/such\n"), ("not-a-program", "?")):
        (trials.root / name).write_text(text)
        (trials.root / name).chmod(0o644 if name == "not-executable" else 0o755)
    trial = trials.start(trials.spec(command))
    outcome = finish(trial)
    assert trial.leader_pid is None
    assert (outcome.ended_by, outcome.exit_code, outcome.signal) == ("itself", None, None)
    assert outcome.start_error is not None and words in outcome.start_error
    assert outcome.start_error.startswith(command)


def test_a_missing_working_folder_is_named(trials, finish):
    outcome = finish(trials.start(trials.spec("true", cwd=trials.root / "gone")))
    assert outcome.start_error == f"{trials.root / 'gone'}: No such file or directory"


@pytest.mark.parametrize("name", ["two words", 'it\'s "quoted"', "ünï cødé", "new\nline", "-c", "$HOME;*"])
def test_paths_and_arguments_arrive_as_they_are(trials, finish, name):
    cwd = trials.root / name
    cwd.mkdir()
    script = cwd / f"{name}.sh"
    script.write_text('#!/bin/sh\nprintf "%s|" "$@"; pwd\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    spec = trials.spec(str(script), name, "", "a\\b", cwd=cwd, env={"NAME": name})
    folder = trials.folder(spec, name)
    assert finish(trials.start(spec, folder)).exit_code == 0
    assert (folder / "stdout.log").read_text() == f"{name}||a\\b|{cwd}\n"


def test_the_command_is_found_on_the_trials_own_path(trials, finish):
    folder = trials.root / "bin"
    folder.mkdir()
    (folder / "my-training").write_text("#!/bin/sh\nexit 5\n")
    (folder / "my-training").chmod(0o755)
    spec = trials.spec("my-training", env={"PATH": f"{folder}:{os.environ['PATH']}"})
    assert finish(trials.start(spec)).exit_code == 5


def test_an_error_in_the_with_block_leaves_nothing_behind(trials, printed, living):
    spec = trials.spec("/bin/sh", "-c", f"trap '' TERM; {shlex.quote(sys.executable)} -c {shlex.quote(WAIT)}")
    folder = trials.folder(spec)
    with pytest.raises(ZeroDivisionError), trials.start(spec, folder) as trial:
        printed(folder)
        raise ZeroDivisionError
    assert living(spec.token) == []
    assert trial.poll().ended_by == "interrupt"


def test_two_trials_at_once_do_not_disturb_each_other(trials, finish, printed, living):
    first, folder_1, token_1 = trials.python(WAIT)
    second, folder_2, token_2 = trials.python(WAIT)
    printed(folder_1), printed(folder_2)
    first.kill("limit")
    assert finish(first).ended_by == "limit"
    assert living(token_1) == []
    assert living(token_2) == [second.leader_pid]


# What a loader's processes do to hand over tensors; longer paths than 107 bytes are refused.
LISTENS = """
import multiprocessing.connection, os, tempfile
multiprocessing.connection.Listener(family="AF_UNIX").close()
print(os.path.dirname(tempfile.gettempdir()))
"""


@pytest.mark.parametrize(("length", "is_kept"), [(55, True), (70, False)])
def test_a_long_tmpdir_leaves_room_for_the_sockets_below_it(
    trials, finish, tmp_path: Path, monkeypatch, length: int, is_kept: bool
) -> None:
    short = Path(os.environ["TMPDIR"])
    long = short / ("x" * (length - len(str(short)) - 1))
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    try:
        trial, folder, _ = trials.python(LISTENS)
        outcome = finish(trial)
        assert outcome.exit_code == 0, (folder / "stderr.log").read_text()
        assert ((folder / "stdout.log").read_text().strip() == str(long)) is is_kept
    finally:
        long.rmdir()


def test_an_unreadable_spec_is_a_defect_with_a_trace(trials, finish, tmp_path: Path):
    spec = trials.spec("true")
    folder = trials.folder(spec)
    (folder / "spec.json").write_text("{")
    outcome = finish(trials.start(spec, folder))
    assert outcome.ended_by == "lost"
    assert "JSONDecodeError" in (folder / "supervisor.log").read_text()
    assert outcome.defect is not None and "JSONDecodeError" in outcome.defect


@pytest.mark.parametrize("broken", ["shm.remove", "shm.claim", "supervisor.remove_tmpdir"])
def test_a_defect_in_clearing_up_does_not_hide_how_the_trial_ended(trials, finish, monkeypatch, broken: str) -> None:
    start = "import sys; sys.path.append(sys.argv[1]); from vtune.execution import shm, supervisor; "
    monkeypatch.setattr("vtune.execution.supervisor._BOOTSTRAP", f"{start}{broken} = None; supervisor.main()")
    trial, folder, _ = trials.python("import sys; sys.exit(3)")
    outcome = finish(trial)
    for left in Path(os.environ["TMPDIR"]).glob("vt-*"):
        left.rmdir()
    assert (outcome.ended_by, outcome.exit_code) == ("itself", 3)
    assert outcome.defect is not None and "TypeError" in outcome.defect
    assert "not callable" in (folder / "supervisor.log").read_text()
