"""Nothing feasible is an answer: which limit, by how much, and the nearest relaxation."""

from dataclasses import replace

from support.studies import a_failure, a_report, a_trial
from vtune.domain.experiment import Limit, Limits
from vtune.domain.record import Measurement, TrialRecord
from vtune.domain.trial import TrialStatus
from vtune.reporting.infeasible import nearest, ruled_out
from vtune.reporting.report_json import choice_to_json
from vtune.reporting.summary import summarize

GIB = 2**30
LIMITS = Limits(ram=Limit(bytes=2 * GIB, text="2GiB"))


def ended_at(trial: int, used_gib: float) -> TrialRecord:
    """By the watchdog, while it ran."""
    record = a_failure(trial, TrialStatus.OUT_OF_RAM, f"stopped by vtune: {used_gib} GiB of RAM in use")
    return replace(record, measurement=Measurement(ram_peak_bytes=int(used_gib * GIB)))


def test_a_trial_that_ran_and_is_over_a_limit_names_the_option_that_lets_it_in() -> None:
    report = a_report(a_trial(1, 10.0), ended_at(2, 2.1), limits=LIMITS)
    summary = summarize(report)
    assert summary.verdict == (
        "nothing feasible: no trial fits the limits; trial 1 is nearest: --ram-limit 3GiB lets it in"
    )
    assert any("trial 1: needs 3 GiB of RAM, the limit is 2 GiB" in line for line in summary.why)
    assert any("trial 2, out of ram" in line and "5.0% over the limit of 2 GiB" in line for line in summary.why)
    near = choice_to_json(report)["nearest_relaxation"]
    assert (near["trial"], near["at_least"]) == (1, False) and near["over"][0]["needs_bytes"] == 3 * GIB


def test_what_was_ended_at_its_limit_needs_more_than_is_known() -> None:
    report = a_report(ended_at(1, 2.5), ended_at(2, 2.1), limits=LIMITS)
    verdict = summarize(report).verdict
    assert "trial 2 is nearest: it took 2.1 GiB of RAM before it had ended, 5.0% over the limit of 2 GiB" in verdict
    assert "how much more it needs is not known" in verdict and "lets it in" not in verdict
    near = choice_to_json(report)["nearest_relaxation"]
    assert (near["trial"], near["at_least"]) == (2, True)


def test_a_machine_that_is_too_small_has_no_limit_to_relax() -> None:
    report = a_report(a_failure(1, TrialStatus.OUT_OF_VRAM, "CUDA out of memory"))
    summary = summarize(report)
    assert summary.verdict == "nothing feasible: no trial fits this machine"
    assert "trial 1, out of vram: CUDA out of memory" in summary.why
    assert choice_to_json(report)["nearest_relaxation"] is None


def test_a_training_that_crashes_is_not_called_infeasible() -> None:
    verdict = summarize(a_report(ended_at(1, 2.1), a_failure(2), limits=LIMITS)).verdict
    assert "nothing feasible" not in verdict and "crashed" in verdict


def test_with_a_winner_no_relaxation_is_proposed_for_what_was_ended() -> None:
    report = a_report(a_trial(1, 10.0), ended_at(2, 4.0), limits=Limits(ram=Limit(bytes=4 * GIB - 1, text="4GiB")))
    assert choice_to_json(report)["nearest_relaxation"] is None


def test_known_needs_go_before_what_may_be_more() -> None:
    report = a_report(a_trial(1, 10.0), ended_at(2, 2.1), limits=LIMITS)
    found = ruled_out(report.records, report.choice, LIMITS, None)
    near = nearest(found)
    assert near is not None and near.record.trial == 1 and len(found) == 2


def test_what_was_ended_at_its_limit_has_one_figure_and_the_least_limit_that_may_let_it_in() -> None:
    stopped = replace(
        ended_at(1, 2.6), detail="stopped by vtune after 3 steps: 2.1 GiB of RAM in use, over the limit of 2 GiB"
    )
    summary = summarize(a_report(stopped, limits=LIMITS))
    assert "--ram-limit 2.6GiB is the least that may let it in" in summary.verdict
    [line] = [line for line in summary.why if line.startswith("trial 1, out of ram")]
    assert (
        "2.1 GiB of RAM in use" in line and "it took 2.6 GiB of RAM before it had ended, 30.0% over the limit" in line
    )
    assert "it was ended at" not in summary.verdict + line


def test_a_figure_that_the_guard_has_told_is_told_once() -> None:
    detail = "stopped by vtune after 0 steps: 2.1 GiB of RAM in use, over the limit of 2 GiB"
    summary = summarize(a_report(replace(ended_at(1, 2.1), detail=detail), limits=LIMITS))
    assert (
        f"trial 1, out of ram: {detail} by 5.0%; how much more it needs is not known, and --ram-limit 2.1GiB is the"
        " least that may let it in"
    ) in summary.why


def test_where_none_came_to_its_first_batch_the_limit_is_asked_for_and_no_gentler_settings() -> None:
    [advice] = summarize(a_report(ended_at(1, 2.5), ended_at(2, 2.1), limits=LIMITS)).next
    assert advice.endswith("vtune probe --study demo --ram-limit 95% tells what the training needs")
    began = ended_at(2, 2.1)
    began = replace(began, measurement=replace(began.measurement, startup_s=2.0))
    [advice] = summarize(a_report(ended_at(1, 2.5), began, limits=LIMITS)).next
    assert "fewer workers" in advice
    [advice] = summarize(a_report(a_failure(1, TrialStatus.OUT_OF_VRAM, "CUDA out of memory"))).next
    assert "fewer workers" in advice
