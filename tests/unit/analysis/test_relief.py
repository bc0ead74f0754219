"""What is offered after a trial that gave no answer: only what could let the next one through."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vtune.analysis.advice import Again
from vtune.analysis.memory_ended import no_sign_of_memory
from vtune.analysis.relief import what_to_do
from vtune.analysis.root_cause import Root
from vtune.domain.advice import Advice
from vtune.domain.experiment import Limit, Window
from vtune.domain.machine import Machine
from vtune.domain.machine_use import RamGrowth
from vtune.domain.record import Measurement
from vtune.domain.repeated import Repeated, Repeats
from vtune.domain.trial import EndedBy, MemoryGroupEnd, Passed, TrialOutcome, TrialStatus

GIB = 2**30
MACHINE = Machine(host="a", kernel="6", cpu_model=None, cores=12.0, ram_bytes=64 * GIB, shm_bytes=32 * GIB)
MEASURED = Measurement(steps_measured=30, ram_peak_bytes=8 * GIB, effective_settings={"workers": 4, "batch_size": 16})
ALONE = replace(MEASURED, effective_settings={"workers": 0, "batch_size": 16})


def ended(ended_by: EndedBy = "itself", **more: Any) -> TrialOutcome:
    return TrialOutcome(ended_by=ended_by, exit_code=1, signal=None, seconds=10.0, **more)


def offered(
    status: TrialStatus,
    outcome: TrialOutcome | None = None,
    measured: Measurement = MEASURED,
    *,
    window: Window | None = None,
    machine: Machine = MACHINE,
    **more: Any,
) -> str:
    again = more.pop("again", Again(study="s"))
    lines = what_to_do(status, again, measured, outcome or ended(), window or Window(), machine=machine, **more)
    return "\n".join(line.text for line in lines)


@pytest.mark.parametrize(
    ("outcome", "helps"),
    [
        (ended("limit", over=Passed(what="ram", used_bytes=8 * GIB, limit_bytes=6 * GIB)), True),
        (ended("limit", over=Passed(what="kernel", used_bytes=8 * GIB, limit_bytes=6 * GIB)), True),
        (ended("limit"), True),
        (ended(group=MemoryGroupEnd(kind="cgroup v1", oom_kills=1)), True),
        (ended(group=MemoryGroupEnd(kind="cgroup v1", oom_kills=1, at_limit=False)), False),
        (ended("limit", over=Passed(what="machine", left_bytes=GIB, limit_bytes=2 * GIB)), False),
        (ended(machine_oom_kills=1), False),
        (ended(), False),
    ],
)
def test_a_higher_ram_limit_is_offered_where_the_limit_was_what_ended_it(outcome: TrialOutcome, helps: bool) -> None:
    said = offered(TrialStatus.OUT_OF_RAM, outcome)
    assert ("--ram-limit 10240MiB or more" in said) is helps and "fewer workers" in said


def test_no_limit_is_offered_that_the_machine_has_no_ram_for() -> None:
    small = replace(MACHINE, ram_bytes=9 * GIB)
    assert "--ram-limit" not in offered(TrialStatus.OUT_OF_RAM, ended("limit"), machine=small)


@pytest.mark.parametrize("status", [TrialStatus.OUT_OF_RAM, TrialStatus.OUT_OF_SHM])
def test_a_training_without_workers_is_not_told_to_use_fewer(status: TrialStatus) -> None:
    assert "fewer workers" in offered(status)
    assert "workers" not in offered(status, measured=ALONE) and "prefetch" not in offered(status, measured=ALONE)


def test_what_was_asked_is_never_more_than_what_is_offered() -> None:
    asked = Window(steps=5, max_steps=5, startup_time_s=7200.0, trial_time_s=1200.0)
    slow = ended("startup_time")
    assert "--startup-time 240m, --trial-time 40m" in offered(TrialStatus.NOT_OBSERVED, slow, window=asked)
    assert "--startup-time 30m, --trial-time 10m" in offered(TrialStatus.NOT_OBSERVED, slow)
    assert "--trial-time 40m" in offered(TrialStatus.TIMED_OUT, window=asked)
    assert "--steps 5" in offered(TrialStatus.TOO_SHORT)
    assert "--steps" not in offered(TrialStatus.TOO_SHORT, window=asked)
    assert "--shm-size=64g" in offered(TrialStatus.OUT_OF_SHM)
    assert "--shm-size=8g" in offered(TrialStatus.OUT_OF_SHM, machine=replace(MACHINE, shm_bytes=GIB))


def test_a_higher_vram_limit_is_offered_where_there_is_one() -> None:
    assert "--vram-limit" not in offered(TrialStatus.OUT_OF_VRAM)
    said = offered(TrialStatus.OUT_OF_VRAM, vram_limit=Limit(bytes=4 * GIB, text="4GiB"))
    assert "a higher --vram-limit than 4GiB" in said and "a smaller batch" in said


def test_what_grows_is_told_instead_of_a_limit_that_it_would_pass_again() -> None:
    grown = RamGrowth(who="workers", kind="leak", bytes_per_step=2.0**20)
    assert offered(TrialStatus.OUT_OF_RAM, ended("limit"), replace(MEASURED, ram_growth=(grown,))) == ""


def test_a_worker_that_fails_leads_to_a_run_without_workers() -> None:
    why = "loader worker 1 (pid 77) ended first, with exit code 7"
    assert "--set workers=0" in offered(TrialStatus.CRASHED, detail=why, said=True)
    assert "workers=0" not in offered(TrialStatus.CRASHED, detail=why, measured=ALONE, said=True)


def test_a_log_without_a_word_is_not_shown() -> None:
    assert "stderr.log" in offered(TrialStatus.CRASHED, said=True)
    assert "stderr.log" not in offered(TrialStatus.CRASHED, said=False)


def test_a_shorter_epoch_is_made_longer_by_a_smaller_batch() -> None:
    assert "a smaller batch than 16" in offered(TrialStatus.TOO_SHORT)


def test_a_kill_without_a_sign_of_memory_leads_to_whoever_sent_it() -> None:
    why = no_sign_of_memory(Root(who=None, pid=None, signal=9, error=""))
    assert "job scheduler" in offered(TrialStatus.CRASHED, detail=f"the training was killed: {why}")


def test_a_limit_that_nobody_has_seen_to_be_enough_is_not_named() -> None:
    starting = replace(MEASURED, steps_measured=0)
    assert offered(TrialStatus.OUT_OF_RAM, ended("limit"), starting).startswith("a higher --ram-limit, ")


def test_of_a_device_that_is_too_small_no_higher_limit_is_offered() -> None:
    limit = Limit(text="95%", fraction=0.95)
    said = offered(TrialStatus.OUT_OF_VRAM, vram_limit=limit, detail="GPU 0 itself had too little room")
    assert "--vram-limit" not in said and "a smaller batch" in said


def test_a_question_to_the_user_is_told_as_one() -> None:
    assert "nobody to give one" in offered(TrialStatus.CRASHED, detail="EOFError: EOF when reading a line")


def test_every_line_to_paste_names_the_study_and_its_results_folder() -> None:
    again = Again(study="s", results="/tmp/my results", settings={"workers": 2})
    said = offered(TrialStatus.CRASHED, again=again)
    assert "without workers=2: vtune probe --study s --results '/tmp/my results'" in said and "--set" not in said
    four = again.but({"workers": 4}, before="")
    assert four == Advice("vtune probe --study s --results '/tmp/my results' --set workers=4", asks={"workers": 4})
    assert "vtune probe --study s --set workers=0" in offered(TrialStatus.HUNG)


def test_a_command_that_is_wrong_by_itself_is_not_blamed_on_what_was_turned() -> None:
    again = Again(study="s", settings={"workers": 2})
    own = "the training failed with exit code 2: train.py: error: unrecognized arguments: --epohcs 3"
    said = offered(TrialStatus.CRASHED, again=again, detail=own)
    assert "without" not in said and "--epohcs 3" in said
    turned = "train.py: error: unrecognized arguments: --num-workers=2"
    assert "without workers=2" in offered(TrialStatus.CRASHED, again=again, detail=turned)


def test_a_script_that_ended_by_itself_without_a_step_is_not_given_more_time() -> None:
    said = offered(TrialStatus.NOT_OBSERVED, ended("itself"))
    assert "time" not in said and "torch optimizer" in said
    assert "--startup-time" in offered(TrialStatus.NOT_OBSERVED, ended("startup_time"))


@pytest.mark.parametrize("status", [TrialStatus.COMPLETED, TrialStatus.TOO_SHORT, TrialStatus.NOT_OBSERVED])
@pytest.mark.parametrize(
    ("used", "limit", "asked"), [(65, 64, "128MiB"), (200, 64, "250MiB"), (900, 800, "2GiB"), (8193, 8192, "16GiB")]
)
def test_more_disk_space_is_all_that_is_offered_to_a_trial_that_filled_its_own(
    status: TrialStatus, used: int, limit: int, asked: str
) -> None:
    outcome = ended("disk", over=Passed(what="disk", used_bytes=used * 2**20, limit_bytes=limit * 2**20))
    assert offered(status, outcome) == f"--trial-disk {asked}, or vtune.limits.disk in the experiment file"


def test_what_diverged_before_it_filled_its_disk_space_has_an_answer_of_its_own() -> None:
    assert "--trial-disk" not in offered(TrialStatus.DIVERGED, ended("disk"))


def test_workers_that_repeat_samples_are_no_setting_without_effect() -> None:
    again = Again(study="s", settings={"workers": 4})
    assert "has no effect" in offered(TrialStatus.INVALID, again=again)
    found = Repeated(reason=Repeats.SAME_SAMPLES, workers=4, dataset="Patches", where="data.py:8")
    repeated = offered(TrialStatus.INVALID, again=again, measured=Measurement(repeated=found))
    assert "has no effect" not in repeated and "get_worker_info" in repeated
