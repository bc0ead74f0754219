"""Who uses the cores, by a /proc of files that a test fills."""

from __future__ import annotations

import os

import pytest

from vtune.telemetry.host import HostSampler
from vtune.telemetry.other_programs import IGNORE, VARIABLE, OtherPrograms, load_now

TICKS = os.sysconf("SC_CLK_TCK")
ALL = frozenset(range(os.cpu_count() or 1))


def machine(proc, busy_s: float) -> None:
    """Of two cores."""
    each = (("cpu ", busy_s), ("cpu0", busy_s / 2), ("cpu1", busy_s / 2))
    lines = [f"{name} {int(s * TICKS)} 0 0 9 0 0 0 0 0 0" for name, s in each]
    proc.write("stat", "\n".join([*lines, "intr 5 0 0"]) + "\n")


def used(proc, then, ours=(10,)) -> dict[str, float]:
    who = OtherPrograms(proc.root, ALL)
    assert who.look(0.0, ours) is None
    then()
    found = who.look(2.0, ours)
    assert found is not None
    return {program.name: program.cores for program in found.programs}


def test_others_are_named_by_the_cores_they_use_the_largest_first(proc):
    for pid, name in ((10, "vtune"), (20, "ffmpeg"), (21, "bash"), (22, "py thon)")):
        proc.process(pid, name=name)

    def then() -> None:
        proc.process(20, name="ffmpeg", ticks=TICKS)
        proc.process(21, name="bash", ticks=1)
        proc.process(22, name="py thon)", ticks=2 * TICKS)

    found = used(proc, then)
    assert list(found) == ["py thon)", "ffmpeg"]
    assert found["ffmpeg"] == pytest.approx(0.5) and found["py thon)"] == pytest.approx(1.0)


def test_a_name_that_a_terminal_would_obey_is_made_harmless(proc):
    proc.process(20, name="a\x1b[2Jb")
    assert list(used(proc, lambda: proc.process(20, name="a\x1b[2Jb", ticks=TICKS))) == ["a?[2Jb"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/venv/bin/python3.11", "-u", "/home/a/train.py", "--token", "s3cret.py"], "python train.py"),
        (["python", "-W", "error.py", "-X", "dev", "b.py"], "python b.py"),
        (["python", "-um", "torch.distributed.run", "s3cret.py"], "python -m torch.distributed.run"),
        (["python", "-mhttp.server", "s3cret"], "python -m http.server"),
        (["python", "-c", "key = 's3cret.py'", "s3cret.py"], "pt_main_thread"),
        (["python", "-", "s3cret.py"], "pt_main_thread"),
        (["python", "s3cret", "train.py"], "pt_main_thread"),
        (["curl", "-H", "s3cret.py"], "pt_main_thread"),
        (["python", "a\x1b[2J.py"], "python a?[2J.py"),
        (["python"], "pt_main_thread"),
        (None, "pt_main_thread"),
    ],
)
def test_a_python_program_is_named_by_its_script_and_nothing_else_of_its_command_is_told(proc, command, name):
    proc.process(20, name="pt_main_thread")
    if command is not None:
        proc.write("20/cmdline", "\0".join([*command, ""]))
    assert list(used(proc, lambda: proc.process(20, name="pt_main_thread", ticks=TICKS))) == [name]


def test_what_descends_from_ours_is_ours_and_a_new_process_counts_whole(proc):
    proc.process(10, name="vtune")
    proc.process(11, ppid=10, name="supervisor")

    def then() -> None:
        proc.process(12, ppid=11, name="worker", ticks=4 * TICKS)
        proc.process(30, name="new", ticks=TICKS)

    assert used(proc, then) == {"new": pytest.approx(0.5)}


def test_the_kernels_own_threads_are_nobodys_program(proc):
    proc.process(2, ppid=0, name="kthreadd")
    proc.process(55, ppid=2, name="kcryptd")
    who = OtherPrograms(proc.root, ALL)
    who.look(0.0, ())
    proc.process(55, ppid=2, name="kcryptd", ticks=TICKS)
    found = who.look(1.0, ())
    assert found is not None and found.programs == () and found.kernel_cores == pytest.approx(1.0)


def test_a_load_is_all_that_is_not_this_process_without_the_kernels_threads(proc):
    machine(proc, 0.0)
    proc.process(os.getpid(), name="vtune")
    proc.process(2, ppid=0, name="kthreadd")
    proc.process(55, ppid=2, name="kcryptd")
    proc.process(412, name="ffmpeg")
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        machine(proc, 1.9)
        proc.process(os.getpid(), name="vtune", ticks=TICKS // 10)
        proc.process(55, ppid=2, name="kcryptd", ticks=TICKS // 2)
        proc.process(412, name="ffmpeg", ticks=TICKS * 13 // 10)

    load = load_now(1.0, proc=proc.root, sleep=sleep, clock=lambda: now[0])
    assert load.others_cores == pytest.approx(1.3, abs=0.02)
    assert [(program.pid, program.name) for program in load.programs] == [(412, "ffmpeg")]


def sampled(proc, monkeypatch, *, ignored: bool):
    """Two seconds in which another program uses one core and a half, once seen and then named."""
    monkeypatch.setenv(VARIABLE, IGNORE if ignored else "")
    proc.process(10)
    proc.process(412, name="ffmpeg")
    watch = HostSampler(lambda: (10,), names_others=True, proc=proc.root)
    samples = []
    for n in range(5):
        machine(proc, 1.5 * n)
        proc.process(412, name="ffmpeg", ticks=int(1.5 * n * TICKS))
        samples.append(watch.sample(float(n), False))
    return samples


def test_a_trial_is_told_who_the_others_are_once_there_are_some(proc, monkeypatch):
    first, *_, last = sampled(proc, monkeypatch, ignored=False)
    assert first.programs == ()
    assert [(program.pid, program.cores) for program in last.programs] == [(412, pytest.approx(1.5))]
    assert last.others_cores == pytest.approx(1.5)


def test_where_they_are_ignored_nobody_looks(proc, monkeypatch):
    assert [sample.programs for sample in sampled(proc, monkeypatch, ignored=True)] == [None] * 5
