"""Who failed first, from the words that torch, its launchers and Python really leave."""

from __future__ import annotations

import pytest

from vtune.analysis.root_cause import (
    CAUSED,
    DURING,
    Failure,
    failed_thread,
    failures_of,
    root_of,
    signal_of,
    worker_slots,
)
from vtune.domain.events import Fact
from vtune.domain.trial import TrialOutcome

FAILED = TrialOutcome(ended_by="itself", exit_code=1, signal=None, seconds=10.0)
RAISED = """Caught ValueError in DataLoader worker process 3.
Original Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 358, in _worker_loop
    data = fetcher.fetch(index)
  File "/home/me/project/data.py", line 41, in __getitem__
    return load(self.paths[index])
  File "/usr/lib/python3.11/site-packages/numpy/lib/npyio.py", line 427, in load
    fid = open(file)
ValueError: bad volume 18
"""
TORCHRUN = """
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-01-01_10:00:00
  host      : here
  rank      : 0 (local_rank: 0)
  exitcode  : {code0} (pid: 70)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_10:00:00
  host      : here
  rank      : 1 (local_rank: 1)
  exitcode  : {code1} (pid: 71)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 71
============================================================
"""


def failure(
    pid: int, type_: str = "ValueError", text: str = "", *, t_s: float = 1.0, rank: int | None = None
) -> Failure:
    return Failure(pid=pid, rank=rank, t_s=t_s, type=type_, text=text, where="train.py:8 in main")


def test_a_workers_error_is_told_with_its_own_place_and_not_with_that_of_the_loop() -> None:
    root = root_of(FAILED, "", [failure(7, text=RAISED)])
    assert root.sentence() == "loader worker 3 failed first: ValueError: bad volume 18 (data.py:41 in __getitem__)"


def test_a_workers_error_is_found_in_the_last_words_where_nothing_else_tells_it() -> None:
    words = f'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nValueError: {RAISED}\n'
    assert root_of(FAILED, words).sentence().startswith("loader worker 3 failed first: ValueError: bad volume 18")


@pytest.mark.parametrize(
    ("said", "signal"),
    [("Killed", 9), ("Bus error", 7), ("Segmentation fault", 11), ("Aborted", 6), ("Terminated", 15)],
)
def test_a_killed_worker_is_named_by_its_number_and_its_signal(said: str, signal: int) -> None:
    words = f"RuntimeError: DataLoader worker (pid 77) is killed by signal: {said}. It is possible that\n"
    words += "RuntimeError: DataLoader worker (pid(s) 77) exited unexpectedly"
    root = root_of(FAILED, words, workers={70: 0, 77: 1})
    assert (root.who, root.signal, root.pid) == ("loader worker 1 (pid 77)", signal, 77)


def test_a_worker_that_left_without_a_signal_is_named() -> None:
    root = root_of(FAILED, "RuntimeError: DataLoader worker (pid(s) 77, 78) exited unexpectedly", workers={77: 1})
    assert root.sentence() == "loader worker 1 (pid 77) ended first, without a word"


def test_the_rank_that_torchrun_saw_first_is_told_with_its_own_error() -> None:
    failures = [failure(71, text="shard 1 is empty", rank=1), failure(60, "ChildFailedError", t_s=2.0)]
    root = root_of(FAILED, TORCHRUN.format(code0=1, code1=1), failures)
    assert root.sentence() == "rank 1 failed first: ValueError: shard 1 is empty (train.py:8 in main)"


def test_a_killed_rank_goes_before_those_that_lost_their_peer() -> None:
    words = TORCHRUN.format(code0=-9, code1=1)
    lost = failure(71, "torch.distributed.DistBackendError", "Connection closed by peer", rank=1)
    root = root_of(FAILED, words, [lost])
    assert root.sentence() == "rank 0 (pid 70) was killed by SIGKILL"


def test_without_a_summary_the_earliest_error_is_the_cause() -> None:
    late = failure(70, "RuntimeError", "Connection closed by peer", t_s=3.0, rank=0)
    root = root_of(FAILED, "", [failure(71, text="shard 1 is empty", rank=1), late])
    assert root.sentence() == "rank 1 failed first: ValueError: shard 1 is empty (train.py:8 in main)"


def test_a_workers_exit_code_is_told_where_the_training_kept_it() -> None:
    words = "RuntimeError: DataLoader worker (pid(s) 77) exited unexpectedly"
    kept = Failure(pid=70, rank=None, t_s=1.0, type="RuntimeError", text=words[14:], where=None, lost=((77, 7),))
    for last_words in ("", words):
        root = root_of(FAILED, last_words, [kept], {77: 1}, ranks=(70,))
        assert root.sentence() == "loader worker 1 (pid 77) ended first, with exit code 7"


def test_a_worker_of_an_earlier_run_that_the_words_quote_is_not_to_blame() -> None:
    words = "last time: DataLoader worker (pid 1234) is killed by signal: Killed.\nKeyError: 'a'"
    own = failure(70, "KeyError", "'a'")
    assert root_of(FAILED, words, [own], {77: 0}, ranks=(70,)).error == "KeyError: 'a'"
    # Of this run, and so it is what the error comes from.
    assert root_of(FAILED, words, [own], {1234: 0}, ranks=(70,)).signal == 9


def test_an_error_of_a_process_beside_the_training_is_not_what_ended_it() -> None:
    beside = failure(5, "RuntimeError", "the logger has no server", t_s=1.0)
    own = failure(7, "KeyError", "'a'", t_s=90.0)
    assert root_of(FAILED, "", [beside, own], ranks=(7,)).error == "KeyError: 'a'"
    assert (
        root_of(FAILED, "", [beside, failure(8, "KeyError", "'b'", t_s=2.0, rank=1)], ranks=(7,)).error
        == "KeyError: 'b'"
    )
    # Theirs is all there is.
    assert root_of(FAILED, "", [beside], ranks=(7,)).error == "RuntimeError: the logger has no server"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGSEGV", "SIGSEGV"),
        ("torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with exit code 3", "exit code 3"),
        (
            "torch.multiprocessing.spawn.ProcessRaisedException: \n\n"
            "-- Process 1 terminated with the following error:\n"
            'Traceback (most recent call last):\n  File "/home/me/train.py", line 9, in main\n    x\n'
            "ValueError: shard 1 is empty\n\n",
            "ValueError: shard 1 is empty (train.py:9 in main)",
        ),
    ],
)
def test_a_spawned_process_is_named(words: str, said: str) -> None:
    sentence = root_of(FAILED, words).sentence()
    assert "process 1" in sentence and said in sentence


@pytest.mark.parametrize(("code", "expected"), [(137, 9), (143, 15), (139, 11), (1, None), (200, None), (0, None)])
def test_a_shells_exit_code_is_read_as_a_signal(code: int, expected: int | None) -> None:
    assert signal_of(TrialOutcome(ended_by="itself", exit_code=code, signal=None, seconds=1.0)) == expected


def test_facts_are_read_in_the_order_of_time_with_their_ranks() -> None:
    facts = [
        Fact(pid=71, t_s=0.0, name="hello", data={"rank": 1}),
        Fact(pid=70, t_s=9.0, name="failed", data={"type": "KeyError", "text": "'b'", "where": "/a/b/train.py:3 in f"}),
        Fact(pid=71, t_s=8.0, name="failed", data={"type": "ValueError", "text": "", "where": None}),
        Fact(pid=70, t_s=1.0, name="pass", data={"worker_pids": [80, None, 82]}),
    ]
    first, second = failures_of(facts)
    assert (first.rank, first.line, first.where) == (1, "ValueError", None)
    assert (second.rank, second.line, second.where) == (None, "KeyError: 'b'", "train.py:3 in f")
    assert worker_slots(facts) == {80: 0, 82: 2}


def test_a_failed_thread_is_told_by_its_name_and_error() -> None:
    words = (
        "Exception in thread feeder:\nTraceback (most recent call last):\n"
        '  File "train.py", line 3, in feed\nValueError: no more data\n'
    )
    assert failed_thread(words) == "thread feeder ended with ValueError: no more data"
    assert failed_thread("all is well") is None


def test_the_sigterm_by_which_torchrun_ends_the_others_is_nobodys_cause() -> None:
    root = root_of(FAILED, TORCHRUN.format(code0=-15, code1=7))
    assert root.sentence() == "rank 1 ended first, with exit code 7"


def test_a_rank_that_lost_one_which_left_in_peace_is_not_called_the_first_to_fail_for_no_reason() -> None:
    lost = failure(71, "RuntimeError", "Connection reset by peer", rank=1)
    sentence = root_of(FAILED, TORCHRUN.format(code0=0, code1=1), [lost]).sentence()
    assert "it lost a rank that had ended without an error (RuntimeError: Connection reset by peer)" in sentence


def test_words_about_a_process_of_another_run_blame_nobody_here() -> None:
    words = "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed."
    assert root_of(FAILED, words, workers={70: 0}).who is None
    assert root_of(FAILED, words, workers={7: 0}).who == "loader worker 0 (pid 7)"


QUEUE = """Caught ValueError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/home/me/project/queue.py", line 9, in __getitem__
    return self.queue.get(timeout=1)
_queue.Empty

{link}

Traceback (most recent call last):
  File "/home/me/project/data.py", line 41, in __getitem__
    raise {error}
{error}
"""
ZERO = "ValueError: num_workers of the loader should be 0"


@pytest.mark.parametrize(("link", "cause"), [(DURING, f"{ZERO} (data.py:41 in __getitem__)"), (CAUSED, "_queue.Empty")])
def test_of_a_chain_of_errors_the_last_is_the_cause_unless_it_names_another(link: str, cause: str) -> None:
    text = QUEUE.format(link=link, error=ZERO)
    for root in (root_of(FAILED, "", [failure(7, text=text)]), root_of(FAILED, f"ValueError: {text}\nall is lost\n")):
        assert root.who == "loader worker 0" and root.error == cause.split(" (")[0]
        assert root.sentence().removeprefix("loader worker 0 failed first: ").startswith(cause)


def test_an_error_that_announces_a_list_is_told_with_its_first_entry() -> None:
    text = "Error(s) in loading state_dict for UNet:\n\tsize mismatch for out.weight: 3 is not 4.\n\tand more"
    told = root_of(FAILED, "", [failure(7, "RuntimeError", text)]).error
    assert told.endswith("for UNet: size mismatch for out.weight: 3 is not 4.")
    raised = RAISED.replace("ValueError: bad volume 18", f"RuntimeError: {text}")
    assert root_of(FAILED, "", [failure(7, text=raised)]).error.endswith("out.weight: 3 is not 4.")
