"""A full run that somebody has stopped: told once, and its time not counted."""

from __future__ import annotations

from vtune.execution.launch_stopped import Stopped


def test_a_stop_is_told_once_and_so_is_its_end() -> None:
    states = {7: "S", 8: "R"}
    stopped = Stopped(lambda pid: states[pid])
    assert not stopped.look([7, 8], 1.0)
    states[7] = "T"
    # Once may be a supervisor's own stop, a moment before the end.
    assert not stopped.look([7, 8], 2.0)
    [(kind, words)] = stopped.look([7, 8], 3.0)
    assert kind == "paused" and "process 7 was stopped" in words and "kill -CONT 7 " in words
    assert not stopped.look([7, 8], 60.0)
    assert stopped.last_s == 60.0
    states[7] = "R"
    [(kind, words)] = stopped.look([7, 8], 62.0)
    assert kind == "continued" and "after 60 s" in words
    assert not stopped.look([7, 8], 63.0) and stopped.last_s == 62.0
    # The gap that it made in the steps is no pause of the training's own.
    assert stopped.without(60.5) == 0.5 and stopped.without(2.0) == 2.0
