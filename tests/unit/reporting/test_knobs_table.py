from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from vtune.domain.experiment import Experiment, KnobBinding, Workload
from vtune.domain.knob import TrainLoader
from vtune.domain.machine import Machine
from vtune.knobs.describe import describe_all
from vtune.knobs.registry import KNOBS
from vtune.reporting.knobs_table import knobs_table

MACHINE = Machine(host="h", kernel="k", cpu_model=None, cores=12, ram_bytes=170 * 2**30, shm_bytes=None)
HOSTILE = "\x1b[31m<script>\r\n=cmd()\x07" + "x" * 10_000


def shown(experiment: Experiment | None, width: int = 80, loader: TrainLoader | None = None, **console: object) -> str:
    out = Console(file=io.StringIO(), width=width, highlight=False, **console)  # type: ignore[arg-type]
    out.print(knobs_table(MACHINE, experiment, describe_all(MACHINE, experiment, loader)))
    return out.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def experiment(*words: str, bindings: tuple[KnobBinding, ...] = ()) -> Experiment:
    workload = Workload(command=("python", "t.py", *words), cwd=Path("/p"))
    return Experiment(study="s", workload=workload, knobs=bindings)


def test_without_a_workload_it_says_how_to_name_one() -> None:
    text = " ".join(shown(None).split())
    assert "12 cores, 170 GiB" in text and "for your workload: pass --config FILE or -- CMD" in text
    assert "try 0 1 2 4 6 8 12 18" in text and "now" not in text.split("workers", 1)[1].split("prefetch")[0].split()


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("asked", [None, experiment("--workers", "4"), experiment(HOSTILE)])
def test_any_width_is_served(asked: Experiment | None, width: int) -> None:
    assert max(len(line) for line in shown(asked, width).splitlines()) <= width


def test_in_80_columns_no_word_is_cut() -> None:
    text = " ".join(shown(experiment("--batch-size=2")).split())
    for knob in KNOBS:
        assert f"{knob.name} {knob.numerics.lower()} now" in text
        assert knob.doc in text and knob.numerics_reason in text
    assert "batch_size different now 2 try 1 2 4 8 16" in text
    assert "set by: --batch-size of the command" in text
    assert "…" not in text


def test_its_words_are_the_same_with_and_without_colour() -> None:
    coloured = shown(experiment(), force_terminal=True, color_system="truecolor")
    assert "\x1b[" in coloured and "\x1b" not in shown(experiment())
    plain = [word for word in coloured.replace("\x1b[1m", "").replace("\x1b[0m", "").split() if word]
    assert plain == shown(experiment()).split()


def test_foreign_text_can_neither_move_the_cursor_nor_flood_the_screen() -> None:
    loader = TrainLoader(key=HOSTILE, where=f"/p/{HOSTILE}.py:3", settings={"workers": HOSTILE})
    bound = (KnobBinding(name="prefetch_factor", values=(HOSTILE,)),)
    text = shown(experiment(HOSTILE, f"--workers={HOSTILE}", bindings=bound), loader=loader)
    assert not any(character in text for character in "\x1b\x07\r")
    assert len(text) < 10_000
