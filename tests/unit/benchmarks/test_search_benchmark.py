"""The benchmark of searches: its truths, its bank of trials, its figures, and one training from end to end."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from search import simulated, table
from search.bank import Bank, luckier
from search.cache import Lines
from search.trainings import BATCH_CLIFFS, USUAL, Training, trainings
from search.true import Truths
from vtune.domain.trial import Proposal
from vtune.execution.engines.simulated.launch import field_at
from vtune.execution.engines.simulated.surface import settings_of
from vtune.execution.engines.simulated.surfaces import SHORT_EPOCHS, misspecified

SHORT = Training(surface=replace(SHORT_EPOCHS, epochs=20))


def asking(**settings: Any) -> Proposal:
    return Proposal(settings=settings, reason="because", origin="search")


def test_each_kind_of_training_is_there_with_all_that_may_be_asked_for() -> None:
    for training in trainings(is_misspecified=False):
        surface = training.surface
        distinct = {settings_of(surface, one) for one in training.every}
        assert len(distinct) == len(training.every) > 100, training.name
        assert settings_of(surface, training.every[0]) == settings_of(surface, {}), "the user's own comes first"
        assert training.asked_for(training.every[0]) == {}
        assert all(settings_of(surface, training.asked_for(one)) == settings_of(surface, one) for one in training.every)
    assert len(trainings(is_misspecified=True)) == 11


@pytest.mark.slow
def test_twice_the_batch_is_slower_and_four_times_is_the_best_where_there_are_cliffs(tmp_path: Path) -> None:
    truths = Truths(Training(surface=BATCH_CLIFFS), tmp_path, quick=True)
    left = [truths.regret({"workers": 8, "batch_size": batch}) for batch in (4, 8, 16, 32)]
    assert left[2] < left[0] < left[1] and left[2] < left[3]


def test_what_does_not_fit_is_worth_nothing_and_is_not_run(tmp_path: Path) -> None:
    training = next(one for one in trainings(is_misspecified=False) if one.name == "little-ram")
    truths = Truths(training, tmp_path, quick=True)
    # 5 GiB and 8 workers of 2.6 GiB, of 60 % of 32; a batch of 16 at 3 GiB each, of 48.
    for asked in ({"workers": 8}, {"batch_size": 16}):
        assert truths.of(asked).samples_per_s is None and not truths.fits(truths.of(asked))
    assert truths.of({"workers": 4}).samples_per_s
    assert truths.fits(truths.of({"workers": 4}))


def test_a_field_is_a_factor_of_the_truth_and_truths_are_kept(tmp_path: Path) -> None:
    wrong = replace(SHORT, surface=misspecified(SHORT.surface), is_misspecified=True)
    asked = {"workers": 8, "persistent_workers": True}
    first = Truths(wrong, tmp_path, quick=True)
    field = field_at(wrong.surface, settings_of(wrong.surface, asked))
    assert wrong.surface.unmodelled is not None
    flat = replace(wrong, surface=replace(wrong.surface, unmodelled=replace(wrong.surface.unmodelled, field_sd=0.0)))
    rates = [truths.of(asked).samples_per_s for truths in (first, Truths(flat, tmp_path, quick=True))]
    assert rates[0] and rates[1] and rates[0] == pytest.approx(rates[1] * field) and abs(field - 1) > 1e-3
    (file,) = (tmp_path / "truth").glob("short-epochs (misspecified)*")
    lines = file.read_text(encoding="utf-8")
    Truths(wrong, tmp_path, quick=True).of(asked)
    assert file.read_text(encoding="utf-8") == lines


def test_a_launch_is_simulated_once_whoever_asks_for_it_and_however_it_is_spelled(tmp_path: Path) -> None:
    bank = Bank(SHORT, tmp_path)
    first = bank.launch(asking(workers=8), trial=2, seed=0, again=0)
    spelled = bank.launch(asking(workers=8, batch_size=4), trial=7, seed=0, again=0)
    assert len(bank) == 1 and first.measurement == spelled.measurement
    assert (spelled.trial, spelled.origin, spelled.reason) == (7, "search", "because")
    assert spelled.asked == {"workers": 8, "batch_size": 4} and first.settings["workers"] == 8
    assert Bank(SHORT, tmp_path).launch(asking(workers=8), trial=2, seed=0, again=0) == first


def test_seeds_and_further_launches_differ_and_no_more_than_launches_do(tmp_path: Path) -> None:
    bank = Bank(SHORT, tmp_path)
    told = [bank.launch(asking(), trial=1, seed=seed, again=again) for seed in (0, 1, 2) for again in (0, 1)]
    rates = [one.measurement.samples_per_s or 0.0 for one in told]
    assert len(set(rates)) == len(rates) and len(bank) <= 4
    assert max(rates) / min(rates) < 1.35


def test_a_luckier_launch_is_faster_in_all_that_counts_in_time(tmp_path: Path) -> None:
    record = Bank(SHORT, tmp_path).launch(asking(workers=8), trial=1, seed=0, again=0)
    lucky = luckier(record, 1.1)
    one, other = record.measurement, lucky.measurement
    assert one.samples_per_s and one.worker_cost and one.step_time_s and one.projected.epoch_s
    assert other.worker_cost and other.step_time_s
    assert other.samples_per_s == pytest.approx(1.1 * one.samples_per_s)
    assert other.worker_cost.batch_s == pytest.approx(one.worker_cost.batch_s / 1.1)
    assert other.step_time_s.p50 == pytest.approx(one.step_time_s.p50 / 1.1)
    assert other.projected.epoch_s == pytest.approx(one.projected.epoch_s / 1.1)
    assert lucky.seconds == pytest.approx(record.seconds / 1.1)
    assert other.ram_peak_bytes == one.ram_peak_bytes and other.worker_cost.cpu_fraction == one.worker_cost.cpu_fraction


NEVER = ("out_of", "foreseen", "false_alarm")


def run_of(*regrets: float, seconds: float = 60.0) -> list[dict[str, Any]]:
    return [
        {"seconds": seconds * at, "regret": one, "seen": one, "over": at == 2, **dict.fromkeys(NEVER, False)}
        for at, one in enumerate(regrets, 1)
    ]


def test_what_counts_is_from_when_on_the_answer_stays_near() -> None:
    told = table.figures([run_of(0.5, 0.01, 0.3, 0.04, 0.01), run_of(0.5, 0.04)], [0.6, 0.6])
    assert told["trials to 5%"] == [4, 2] and told["trials to 2%"] == [5, None]
    assert told["within 5% by trials"]["5"] == 1.0, "what ended before stays where it came to"
    assert told["within 2% by trials"] == {"5": 0.5, "10": 0.5, "15": 0.5, "20": 0.5}
    assert told["over"] == 1.0 and told["trials"] == 3.5


def test_before_the_first_trial_has_ended_there_are_the_users_own_settings() -> None:
    told = table.figures([run_of(0.01, seconds=600.0)], [0.04])
    assert told["within 5% by minutes"] == {"5": 1.0, "10": 1.0, "20": 1.0, "40": 1.0}
    assert told["within 2% by minutes"] == {"5": 0.0, "10": 1.0, "20": 1.0, "40": 1.0}


def test_figures_of_several_trainings_are_pooled_run_by_run() -> None:
    near, far = table.figures([run_of(0.01)] * 3, [0.1] * 3), table.figures([run_of(0.9)], [0.1])
    pooled = table.pool([near, far])
    assert pooled is not None and pooled["runs"] == 4 and pooled["within 5% by 12"] == 0.75
    assert pooled["trials to 5%"] == [1, 1, 1, None] and table.middle(pooled["trials to 5%"]) == "1"
    assert table.middle([None, 3]) == "–" and table.pool([]) is None
    assert pooled["regret"] == pytest.approx((3 * 0.01 + 0.9) / 4)


def test_half_a_line_of_one_who_was_killed_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_text('one\t{"a":1}\ntwo\t{"a":', encoding="utf-8")
    lines = Lines(path)
    assert "one" in lines and "two" not in lines
    lines.put("two", {"a": 2})
    assert Lines(path).get("two") == {"a": 2} and Lines(path).get("one") == {"a": 1}


@pytest.mark.slow
def test_a_quick_cell_is_searched_and_not_searched_again(tmp_path: Path) -> None:
    asked = ("short-epochs", False, ["random alone", "ladder"], 1, tmp_path, True, False)
    name, rows = simulated.cell(*asked)
    assert name == "short-epochs" and set(rows) == {"random alone", "ladder"}
    one = rows["random alone"]
    assert one["trials"] == 20 and 0 <= one["regret"] < 1 and 0 < one["own"] < 1
    (kept,) = (tmp_path / "runs").iterdir()
    lines = kept.read_text(encoding="utf-8")
    assert simulated.cell(*asked)[1] == rows and kept.read_text(encoding="utf-8") == lines
    text = simulated.table_of({"rows": {name: rows}, "machine": "a machine"})
    assert "| random alone | " in text and "**a quick run: no figures to rely on**" in text
    assert json.loads(lines.splitlines()[0].split("\t")[1])["rows"][0]["asked"] == {}
    assert USUAL.ram is not None and math.isfinite(one["minutes"])
