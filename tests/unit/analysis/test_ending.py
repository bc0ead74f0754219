from dataclasses import replace

import pytest

from vtune.analysis.ending import FOLDER_REMOVED, Seen, status_of
from vtune.domain.experiment import Window
from vtune.domain.trial import Passed, TrialOutcome, TrialStatus

WINDOW = Window()
SEEN = Seen(pythons=1, hello=True, steps=60, measured=50, backwards=60, batches=61, last_words="")
OUTCOME = TrialOutcome(ended_by="itself", exit_code=0, signal=None, seconds=10.0)


def status(words: str = "", **changes: object) -> tuple[TrialStatus, str | None]:
    return status_of(replace(OUTCOME, **changes), WINDOW, replace(SEEN, last_words=words))


def test_a_full_window_is_completed_without_a_word() -> None:
    assert status(ended_by="window", exit_code=0) == (TrialStatus.COMPLETED, None)


def test_a_natural_end_with_enough_steps_is_completed_and_says_so() -> None:
    found, detail = status()
    assert found is TrialStatus.COMPLETED and "50 measured steps" in (detail or "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", TrialStatus.OUT_OF_VRAM),
        (
            "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that "
            "dataloader's workers are out of shared memory.",
            TrialStatus.OUT_OF_SHM,
        ),
        ("Traceback ...\nMemoryError", TrialStatus.OUT_OF_RAM),
        ("RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you tried", TrialStatus.OUT_OF_RAM),
        (
            "resource_tracker: There appear to be 2 leaked shared_memory objects to clean up\n"
            "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array",
            TrialStatus.OUT_OF_RAM,
        ),
        ("ValueError: wrong shape", TrialStatus.CRASHED),
    ],
)
def test_the_last_words_tell_which_memory_ran_out(words: str, expected: TrialStatus) -> None:
    found, detail = status(words, exit_code=1)
    assert found is expected
    said = "a loader worker (pid 7) was killed by SIGBUS" if "Bus error" in words else words.splitlines()[-1][:40]
    assert said in (detail or "")


def test_a_memory_word_in_a_log_line_is_no_verdict_on_a_good_end() -> None:
    assert status("warning: CUDA out of memory, retrying", exit_code=0)[0] is TrialStatus.COMPLETED


def test_a_signal_is_named() -> None:
    assert "SIGSEGV" in (status(exit_code=None, signal=11)[1] or "")
    assert "signal 40" in (status(exit_code=None, signal=40)[1] or "")


def test_fewer_steps_than_asked_are_enough_when_few_were_asked() -> None:
    few = replace(SEEN, steps=8, measured=6)
    assert status_of(OUTCOME, Window(steps=5, max_steps=5), few)[0] is TrialStatus.COMPLETED
    assert status_of(OUTCOME, Window(steps=50), few)[0] is TrialStatus.TOO_SHORT


def test_what_was_seen_instead_of_a_step_is_said() -> None:
    nothing = replace(SEEN, steps=0, measured=0, backwards=12, batches=0)
    found, detail = status_of(OUTCOME, WINDOW, nothing)
    assert found is TrialStatus.NOT_OBSERVED and "12 backward passes" in (detail or "")


@pytest.mark.parametrize(
    ("ram_peak", "over_vram", "expected"),
    [
        (9, None, TrialStatus.OUT_OF_RAM),
        (9, (1, 7, 5), TrialStatus.OUT_OF_RAM),
        (3, (1, 7, 5), TrialStatus.OUT_OF_VRAM),
        (None, (1, 7, 5), TrialStatus.OUT_OF_VRAM),
    ],
)
def test_the_limit_that_was_passed_is_the_one_that_is_named(
    ram_peak: int | None, over_vram: tuple[int, int, int] | None, expected: TrialStatus
) -> None:
    gib = 2**30
    seen = replace(
        SEEN,
        ram_peak_bytes=ram_peak and ram_peak * gib,
        ram_limit_bytes=8 * gib,
        over_vram=over_vram and (over_vram[0], over_vram[1] * gib, over_vram[2] * gib),
    )
    found, detail = status_of(replace(OUTCOME, ended_by="limit"), WINDOW, seen)
    assert found is expected
    words = "7 GiB of VRAM in use on GPU 1" if expected is TrialStatus.OUT_OF_VRAM else "9 GiB of RAM in use"
    assert words in (detail or "")


@pytest.mark.parametrize("ended_by", ["window", "itself", "trial_time"])
def test_a_trial_whose_parameters_are_no_numbers_has_diverged_however_well_it_ended(ended_by: str) -> None:
    seen = replace(SEEN, diverged_at_step=11, diverged_to="nan")
    found, detail = status_of(replace(OUTCOME, ended_by=ended_by), WINDOW, seen)
    assert found is TrialStatus.DIVERGED and detail == "a parameter was nan after step 12"


def test_an_error_after_the_parameters_were_no_numbers_is_its_consequence() -> None:
    seen = replace(SEEN, diverged_at_step=11, diverged_to="inf", last_words="ValueError: invalid values in loc")
    found, detail = status_of(replace(OUTCOME, exit_code=1), WINDOW, seen)
    assert found is TrialStatus.DIVERGED and "invalid values in loc" in (detail or "")


def test_a_hang_or_a_lack_of_memory_is_not_hidden_by_a_divergence() -> None:
    seen = replace(SEEN, diverged_at_step=11, diverged_to="inf", last_words="MemoryError")
    assert status_of(replace(OUTCOME, ended_by="hang"), WINDOW, seen)[0] is TrialStatus.HUNG
    assert status_of(replace(OUTCOME, exit_code=1), WINDOW, seen)[0] is TrialStatus.OUT_OF_RAM


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Loss is nan, stopping training", TrialStatus.DIVERGED),
        ("FloatingPointError: Loss became infinite or NaN at iteration=8!", TrialStatus.DIVERGED),
        ("ValueError: The loss returned in `training_step` is nan or inf.", TrialStatus.DIVERGED),
        ("RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.", TrialStatus.DIVERGED),
        ("KeyError: 'nan'", TrialStatus.CRASHED),
        ("ValueError: the loss weight must be a finite float, not 'inf'", TrialStatus.CRASHED),
        ("ValueError: unknown loss: 'info'", TrialStatus.CRASHED),
        ("warning: loss is nan in patch 3\na\nb\nc\nKeyError: 'patch 7'", TrialStatus.CRASHED),
    ],
)
def test_a_trainings_own_last_words_tell_that_it_stopped_for_its_loss(words: str, expected: TrialStatus) -> None:
    assert status(words, exit_code=1)[0] is expected


KEY_ERROR = 'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    x["a"]\nKeyError: \'a\'\n'


@pytest.mark.parametrize(
    ("exit_code", "stderr", "stdout", "expected"),
    [
        (1, "", "Loss is nan, stopping training", TrialStatus.DIVERGED),
        (0, "", "loss is not finite: giving up", TrialStatus.DIVERGED),
        (1, "", "loss: inf - giving up", TrialStatus.DIVERGED),
        (0, "", "train loss went from inf to nan", TrialStatus.DIVERGED),
        (1, "UserWarning: slow", "Loss is nan, stopping training", TrialStatus.DIVERGED),
        (1, KEY_ERROR, "Loss is nan in batch 3, left out", TrialStatus.CRASHED),
        (1, "", "Validation loss decreased (inf --> 0.693147).  Saving model ...", TrialStatus.CRASHED),
        (0, "", "Best loss: inf -> 0.3\ndone", TrialStatus.TOO_SHORT),
        (0, "", "loss improved from inf to 0.5", TrialStatus.TOO_SHORT),
        (0, "", "epoch 1, loss 0.5, best loss inf", TrialStatus.TOO_SHORT),
    ],
)
def test_a_best_loss_that_starts_at_infinity_is_no_divergence_and_an_error_speaks_for_itself(
    exit_code: int, stderr: str, stdout: str, expected: TrialStatus
) -> None:
    seen = replace(SEEN, steps=12, measured=10, last_words=stderr, stdout_words=stdout)
    found, detail = status_of(replace(OUTCOME, exit_code=exit_code), WINDOW, seen)
    assert found is expected, detail


def test_what_is_known_is_said_once_and_what_is_not_is_not_counted_as_known() -> None:
    assert status(exit_code=None, signal=9)[1] == (
        "the training was killed by SIGKILL after 60 steps or more: from outside or by the kernel; no sign of memory"
    )
    assert status(exit_code=3)[1] == "the training ended with exit code 3 after 60 steps, without a word"
    assert "after 60 steps or more" in (status(ended_by="hang")[1] or "")


def test_a_shortage_that_the_training_had_caught_is_not_what_its_error_is_of() -> None:
    found, detail = status("WARNING: CUDA out of memory, halving the batch\n" + KEY_ERROR, exit_code=1)
    assert found is TrialStatus.CRASHED and "KeyError: 'a'" in (detail or "")


def test_a_signal_that_vtune_did_not_send_is_told_as_somebody_elses() -> None:
    found, detail = status(exit_code=None, signal=15)
    assert found is TrialStatus.CRASHED and "vtune did not send" in (detail or "")


def test_a_training_that_stood_still_when_its_time_was_up_hung() -> None:
    found, detail = status(ended_by="standstill")
    assert found is TrialStatus.HUNG and "for long when its trial time of 180 s was up" in (detail or "")


def test_steps_that_an_abrupt_end_took_along_are_told_of() -> None:
    lost = replace(SEEN, left_abruptly=True)
    assert (status_of(OUTCOME, WINDOW, lost)[1] or "").endswith("50 measured steps or more")
    few = status_of(OUTCOME, WINDOW, replace(lost, steps=9, measured=7))
    assert few[0] is TrialStatus.TOO_SHORT and "after 9 steps or more" in (few[1] or "")
    assert "os._exit" in (few[1] or "")


@pytest.mark.parametrize("ended", [{}, {"exit_code": 1}, {"ended_by": "trial_time"}, {"ended_by": "startup_time"}])
def test_a_training_that_removes_the_folder_of_its_trial_is_told_so_and_not_asked_how_it_was_started(
    ended: dict[str, object],
) -> None:
    nothing = replace(SEEN, pythons=0, hello=False, steps=0, measured=0, backwards=0, batches=0)
    outcome = replace(OUTCOME, folder_removed=True, **ended)
    assert status_of(outcome, WINDOW, nothing) == (TrialStatus.NOT_OBSERVED, FOLDER_REMOVED)
    assert status_of(replace(outcome, ended_by="interrupt"), WINDOW, nothing)[0] is TrialStatus.INTERRUPTED


@pytest.mark.parametrize(
    ("steps", "measured", "expected"),
    [
        (0, 0, TrialStatus.NOT_OBSERVED),
        (3, 0, TrialStatus.TOO_SHORT),
        (22, 19, TrialStatus.TOO_SHORT),
        (23, 20, TrialStatus.COMPLETED),
    ],
)
def test_a_trial_that_filled_its_disk_space_counts_by_its_measured_steps(
    steps: int, measured: int, expected: TrialStatus
) -> None:
    outcome = replace(OUTCOME, ended_by="disk", over=Passed(what="disk", used_bytes=70, limit_bytes=64))
    assert status_of(outcome, WINDOW, replace(SEEN, steps=steps, measured=measured))[0] is expected


@pytest.mark.parametrize(("measured", "said"), [(40, "after 40 of 50 steps"), (97, "after 97 steps")])
def test_a_window_that_grew_is_not_told_as_more_steps_than_it_has(measured: int, said: str) -> None:
    found, detail = status_of(replace(OUTCOME, ended_by="trial_time"), WINDOW, replace(SEEN, measured=measured))
    assert found is TrialStatus.COMPLETED and (detail or "").endswith(said)
