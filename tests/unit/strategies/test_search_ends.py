"""A search whose model is off: where it looks then, and when it ends all the same."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from support.simulated import SimulatedStudy, limited, simulated_experiment
from vtune.domain.experiment import KnobBinding
from vtune.domain.record import TrialRecord
from vtune.domain.trial import Proposal
from vtune.execution.engines.simulated.surfaces import FOUR_CORES
from vtune.strategies.search import Search

OFF = 1.2


class Misled(SimulatedStudy):
    """Each trial is remembered as predicted by so much more than it was."""

    def measure(self, proposal: Proposal, history: Sequence[TrialRecord]) -> TrialRecord:
        record = super().measure(proposal, history)
        if record.predicted is None:
            return record
        low, high = (OFF * one for one in record.predicted.samples_per_s_ci95)
        told = replace(
            record.predicted, samples_per_s=OFF * record.predicted.samples_per_s, samples_per_s_ci95=(low, high)
        )
        return replace(record, predicted=told)


@pytest.fixture(scope="module")
def misled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Search, list[TrialRecord]]:
    experiment = simulated_experiment(
        FOUR_CORES, limits=limited(ram=0.6, vram=0.95), knobs=(KnobBinding(name="batch_size"),)
    )
    study = Misled(FOUR_CORES, experiment, tmp_path_factory.mktemp("misled"))
    search = Search(experiment=experiment, machine=study.machine, trials=40, confirm=False)
    return search, study.run(search)


def by_optuna(history: Sequence[TrialRecord]) -> list[TrialRecord]:
    return [record for record in history if "Optuna" in record.reason]


@pytest.mark.slow
def test_a_search_with_a_model_that_is_off_ends_where_nothing_is_won(
    misled: tuple[Search, list[TrialRecord]],
) -> None:
    search, history = misled
    hunt = search.hunt(history)
    assert by_optuna(history) and any("Optuna" in remark for remark in hunt.remarks)
    assert hunt.given_back == 40 - len(history) > 10 and hunt.ended is not None


@pytest.mark.slow
def test_what_optuna_would_try_is_not_launched_where_it_is_predicted_far_below_the_leader(
    misled: tuple[Search, list[TrialRecord]],
) -> None:
    _, history = misled
    for at, record in enumerate(history):
        if record not in by_optuna(history):
            continue
        leader = max(one.measurement.samples_per_s_whole_run or 0.0 for one in history[:at])
        assert record.predicted is not None and record.predicted.samples_per_s / OFF > 0.4 * leader
