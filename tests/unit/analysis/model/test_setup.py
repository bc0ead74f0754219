"""What settings mean on top of what the training runs with."""

from dataclasses import replace

from support.studies import a_failure, a_trial
from vtune.analysis.model.setup import Base
from vtune.domain.trial import TrialStatus

OWN = {"workers": 2, "prefetch_factor": 4, "batch_size": 4, "persistent_workers": True, "pin_memory": False}
BASELINE = a_trial(1, 10.0, measured={"effective_settings": OWN, "effective_batch": 8}, settings=OWN)


def test_what_is_not_asked_stays_as_it_is() -> None:
    setup = Base([BASELINE]).setup({"workers": 6})
    assert setup is not None
    assert (setup.workers, setup.prefetch, setup.batch, setup.persistent) == (6, 4, 4, True)


def test_steps_of_several_batches_are_read_off_the_effective_batch() -> None:
    setup = Base([BASELINE]).setup({})
    assert setup is not None
    assert setup.accumulate == 2


def test_without_workers_there_is_no_queue_and_nobody_persists() -> None:
    setup = Base([BASELINE]).setup({"workers": 0})
    assert setup is not None
    assert (setup.workers, setup.persistent) == (0, False)
    assert setup == Base([BASELINE]).setup({"workers": 0, "prefetch_factor": 8})


def test_workers_where_there_were_none_prefetch_as_torch_does() -> None:
    none = {**OWN, "workers": 0, "prefetch_factor": None}
    setup = Base([a_trial(1, 10.0, measured={"effective_settings": none})]).setup({"workers": 4})
    assert setup is not None
    assert setup.prefetch == 2


def test_what_physics_does_not_know_is_a_regime_of_its_own() -> None:
    base = Base([BASELINE])
    own, other = base.setup({"workers": 4}), base.setup({"workers": 4, "precision": "bf16"})
    assert own is not None
    assert other is not None
    assert own.regime != other.regime


def test_asking_for_what_is_there_already_is_no_other_regime() -> None:
    same = a_trial(2, 10.0, asked={}, settings={**OWN, "precision": "32"}, measured={"effective_settings": OWN})
    base = Base([BASELINE, same])
    assert base.setup({"precision": "32"}) == base.setup({})
    assert base.setup_of(same) == base.setup_of(BASELINE)


def test_a_batch_that_the_loader_does_not_tell_is_the_effective_one() -> None:
    unsized = {**OWN, "batch_size": None}
    record = a_trial(1, 10.0, measured={"effective_settings": unsized, "effective_batch": 8}, settings=unsized)
    setup = Base([record]).setup({})
    assert setup is not None
    assert setup.batch == 8


def test_nothing_is_known_before_a_trial_has_told_what_it_ran_with() -> None:
    crashed = a_failure(1, TrialStatus.CRASHED)
    assert Base([crashed]).setup({"batch_size": 2}) is None
    assert Base([crashed, replace(BASELINE, trial=2)]).setup({}) is not None
