"""The benchmark of traps: its arithmetic, its table, and one trap from end to end without the tuners of PyPI."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.cli import ROOT, quiet_env

RUN = ROOT / "benchmarks" / "traps" / "run.py"


def loaded(name: str) -> ModuleType:
    """By its path: another benchmark's folder has modules of such names too."""
    spec = importlib.util.spec_from_file_location(f"traps_{name}", RUN.with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SCORE = loaded("score")
TRAPS = loaded("traps")
OWN, FAST, BROKEN = "2×2, persistent", "4×2, persistent", "6×2, persistent"
TRUTHS = {
    OWN: SCORE.Truth(samples_per_s=50.0),
    FAST: SCORE.Truth(samples_per_s=200.0),
    "1×2, persistent": SCORE.Truth(samples_per_s=25.0),
    BROKEN: SCORE.Truth(samples_per_s=None, broke="over its RAM limit"),
}


def scored(choice: str | None, claimed: float | None = None) -> Any:
    return SCORE.score(TRUTHS, baseline=OWN, choice=choice, claimed=claimed, seconds=10.0)


def test_regret_is_what_the_choice_loses_against_the_best_run_that_lives() -> None:
    assert scored(FAST).regret == 0.0
    assert scored(OWN).regret == pytest.approx(0.75)
    assert scored("1×2, persistent").regret == pytest.approx(0.875)


def test_who_chooses_nothing_keeps_the_authors_settings() -> None:
    assert scored(None).regret == scored(OWN).regret
    assert scored(None).true == 1.0 and not scored(None).is_false_gain


def test_a_choice_that_dies_loses_everything_however_fast_it_was() -> None:
    died = scored(BROKEN, claimed=8.0)
    assert died.regret == 1.0 and died.broke == "over its RAM limit" and died.true == 0.0 and died.is_false_gain
    fast_until_then = {**TRUTHS, BROKEN: SCORE.Truth(samples_per_s=999.0, broke="a loader worker was killed")}
    assert SCORE.score(fast_until_then, baseline=OWN, choice=FAST, claimed=None, seconds=1.0).regret == 0.0


@pytest.mark.parametrize(
    ("choice", "claimed", "is_false"),
    [
        (FAST, 4.0, False),
        (FAST, 4.39, False),
        (FAST, 4.41, True),
        (FAST, 1.5, False),
        (OWN, 1.05, False),
        (OWN, 1.2, True),
        ("1×2, persistent", 1.0, False),
        ("1×2, persistent", None, False),
        ("1×2, persistent", 1.2, True),
    ],
)
def test_a_false_gain_is_a_claim_of_more_than_a_tenth_above_the_truth(
    choice: str, claimed: float | None, is_false: bool
) -> None:
    assert scored(choice, claimed).is_false_gain is is_false


def test_a_summary_counts_deaths_false_gains_and_near_hits() -> None:
    told = SCORE.summary([scored(FAST, 4.0), scored(OWN, 2.0), scored(BROKEN, None)])
    assert told.traps == 3 and told.broken == 1 and told.false_gains == 1 and told.within_5_percent == 1
    assert told.mean_regret == pytest.approx((0 + 0.75 + 1) / 3) and told.worst_regret == 1.0
    assert told.seconds == 30.0


def test_nothing_is_scored_against_a_baseline_that_dies() -> None:
    with pytest.raises(ValueError, match="nothing could be compared"):
        SCORE.score(TRUTHS, baseline=BROKEN, choice=FAST, claimed=None, seconds=1.0)


def test_every_trap_has_a_training_and_offers_its_baseline_and_its_bait() -> None:
    assert len(TRAPS.TRAPS) == 14 and len(TRAPS.BY_NAME) == 14
    for trap in TRAPS.TRAPS:
        assert trap.script.is_file(), trap.name
        offered = {TRAPS.key_of(settings): settings for settings in TRAPS.grid(trap)}
        assert TRAPS.key_of(TRAPS.settled(trap, trap.baseline)) in offered
        assert TRAPS.key_of(TRAPS.settled(trap, trap.bait)) in offered, trap.name
        assert len(offered) <= 9, "the truth of a trap is to be run in a minute or two"


def test_without_workers_what_belongs_to_workers_makes_no_second_setting() -> None:
    trap = TRAPS.BY_NAME["short_epochs"]
    without = [settings for settings in TRAPS.grid(trap) if settings["workers"] == 0]
    assert len(without) == 1 and TRAPS.key_of(without[0]) == "0 workers"


def ran(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUN), *map(str, arguments)],
        cwd=cwd, env=quiet_env(), capture_output=True, text=True, timeout=110, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_the_table_tells_of_a_death_and_a_false_gain_and_of_who_was_not_asked(tmp_path: Path) -> None:
    trap = TRAPS.BY_NAME["leak"]
    own, bait = TRAPS.settled(trap, trap.baseline), TRAPS.settled(trap, trap.bait)
    truth = [
        {"key": TRAPS.key_of(own), "settings": own, "samples_per_s": 60.0, "broke": None, "seconds": 9.0},
        {"key": TRAPS.key_of(bait), "settings": bait, "samples_per_s": None, "broke": "over it", "seconds": 9.0},
    ]
    chose = {"choice": bait, "key": TRAPS.key_of(bait), "claimed": 2.5, "seconds": 60.0}
    tuners = {
        "loadtune": {"tuner": "loadtune", **chose},
        "lightning": {"tuner": "lightning", "refused": "not made for this: it looks for a batch size"},
        "optuna": {"tuner": "optuna", "failed": "it broke", "choice": None, "claimed": None, "seconds": 3.0},
    }
    told = {
        "trap": "leak", "fingerprint": "-", "quick": False, "date": "2026-01-02", "machine": "a machine",
        "command": "run.py", "seconds": 60.0, "truth": truth, "tuners": tuners,
    }  # fmt: skip
    (tmp_path / "leak.json").write_text(json.dumps(told), encoding="utf-8")
    shown = ran("--table", "--out", tmp_path, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "**dies** · 6×2, persistent · **claims 2.5×, true 0.0×**" in shown.stdout
    assert "| not made for this | 0% · it broke |" in shown.stdout
    assert "| 1 of 1 | 100% | 100% | 0 | 1 | 1 | 1.0 |" in shown.stdout
    assert "| 6×2, persistent | over it | bait |" in shown.stdout


@pytest.mark.slow
def test_one_quick_trap_is_run_whole_and_probed_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = RUN.with_name("README.md").read_text(encoding="utf-8")
    out = tmp_path / "out"
    # A short path: loader workers make sockets below it, and a socket's path is limited to some hundred characters.
    with tempfile.TemporaryDirectory(prefix="t-") as scratch:
        monkeypatch.setenv("TMPDIR", scratch)
        first = ran("--quick", "--only", "nothing_to_gain", "--tuner", "vtune", "--out", out, cwd=tmp_path)
        assert not list(Path(scratch).glob("vtune-*")), "its own folders are gone"
    monkeypatch.delenv("TMPDIR")
    assert first.returncode == 0, first.stderr
    told = json.loads((out / "nothing_to_gain.json").read_text(encoding="utf-8"))
    assert {row["key"] for row in told["truth"]} == {"2×2, persistent", "6×2, persistent"}
    # 20 ms a step; how long the machine lets it sleep on top is its own matter.
    assert all(row["broke"] is None and 15 < row["samples_per_s"] < 60 for row in told["truth"])
    assert told["tuners"]["vtune"]["probes"]["bait"]["status"] == "completed"
    assert "**a quick run: no figures to rely on**" in first.stdout
    assert RUN.with_name("README.md").read_text(encoding="utf-8") == readme

    again = ran("--quick", "--only", "nothing_to_gain", "--tuner", "vtune", "--out", out, cwd=tmp_path)
    assert again.returncode == 0 and "truth of" not in again.stderr, "what was measured is not measured again"
