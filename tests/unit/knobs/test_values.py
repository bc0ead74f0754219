from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from vtune.domain.effects import Scalar
from vtune.domain.experiment import Experiment, KnobBinding, Workload
from vtune.domain.machine import Machine
from vtune.domain.phases import RungValue, Times
from vtune.knobs.registry import KNOBS, knob_named
from vtune.knobs.settings import check_value
from vtune.knobs.values import accumulate_for, ranks_of, resolve, values_of


def machine(cores: float = 12) -> Machine:
    return Machine(host="h", kernel="k", cpu_model=None, cores=cores, ram_bytes=None, shm_bytes=None)


def experiment(words: str = "python t.py", config: dict[str, Any] | None = None, *bindings: KnobBinding) -> Experiment:
    return Experiment(
        study="s", workload=Workload(command=tuple(words.split()), cwd=Path("/"), config=config), knobs=bindings
    )


def of(name: str, asked: Experiment | None = None, *, cores: float = 12, **now: Scalar) -> tuple[Scalar, ...]:
    return values_of(knob_named(name), machine(cores), asked, now=now)


@pytest.mark.parametrize(
    ("cores", "values"),
    [
        (0.5, (0, 1, 2)),
        (1, (0, 1, 2)),
        (1.9, (0, 1, 2)),
        (2, (0, 1, 2, 3)),
        (4, (0, 1, 2, 4, 6)),
        (12, (0, 1, 2, 4, 6, 8, 12, 18)),
        (16, (0, 1, 2, 4, 6, 8, 12, 16, 24)),
    ],
)
def test_workers_grow_up_to_the_cores_and_once_beyond(cores: float, values: tuple[int, ...]) -> None:
    assert of("workers", cores=cores) == values


@pytest.mark.parametrize("cores", [2, 3, 5, 7, 13, 31, 64, 256])
def test_on_any_machine_there_are_few_workers_to_try_and_none_too_close_to_the_next(cores: int) -> None:
    values = of("workers", cores=cores)
    assert len(values) <= 20 and {0, 1, cores} <= set(values)
    # The cores themselves are always tried, however near their neighbour.
    assert all(
        b / a >= 1.25
        for a, b in pairwise(values)
        if isinstance(a, int) and isinstance(b, int) and a and cores not in (a, b)
    )


def test_the_ranks_of_a_machine_share_its_cores() -> None:
    assert ranks_of(["torchrun", "--nproc-per-node=4", "t.py", "--num_processes", "2"]) == 4
    assert ranks_of(["torchrun", "--nproc-per-node", "gpu", "t.py"]) == 1
    assert ranks_of(["python", "t.py", "--num_processes", "2"]) == 1
    assert of("workers", experiment("torchrun --nproc_per_node 3 t.py")) == (0, 1, 2, 4, 6)


def test_the_value_of_now_is_among_them() -> None:
    assert of("workers", experiment("python t.py -j 7"), cores=4) == (0, 1, 2, 4, 6, 7)
    assert of("prefetch_factor", prefetch_factor=3) == (1, 2, 3, 4, 8)
    assert of("prefetch_factor") == (1, 2, 4, 8)
    assert of("pin_memory") == of("persistent_workers") == (False, True)


def test_batch_sizes_are_halves_and_doubles_of_the_one_of_now() -> None:
    assert of("batch_size", experiment(config={"batch_size": 256})) == (64, 128, 256, 512, 1024, 2048)
    assert of("batch_size", experiment("python t.py -b 1")) == (1, 2, 4, 8)
    assert of("batch_size", experiment("python t.py"), batch_size=2) == (1, 2, 4, 8, 16)


def test_what_depends_on_an_unknown_value_is_not_guessed() -> None:
    assert of("batch_size") == of("batch_size", experiment()) == ()
    assert of("accumulate_steps") == of("accumulate_steps", experiment(config={"batch_size": 4})) == ()


def test_accumulation_keeps_the_effective_batch() -> None:
    asked = experiment(config={"training": {"batch_size": 2, "accumulate_steps": 4}})
    assert of("accumulate_steps", asked) == (1, 2, 4, 8)
    assert of("accumulate_steps", experiment(config={"batch_size": 2, "accumulate_steps": 1})) == (1, 2)
    now: dict[str, Scalar] = {"batch_size": 2, "accumulate_steps": 4}
    assert [accumulate_for(size, now) for size in (1, 2, 8, 3, 16, 0)] == [8, 4, 1, None, None, None]
    assert accumulate_for(2, {}) is None


def test_the_users_own_values_win() -> None:
    assert of("workers", experiment("python t.py -j 7", None, KnobBinding(name="workers", values=(3, 5)))) == (3, 5)


def test_every_value_is_one_that_the_knob_takes() -> None:
    model = {"filters": 3, "precision": "bf16-mixed", "patch_size": 5}
    asked = experiment(
        config={"batch_size": 6, "accumulate_steps": 3, "workers": 2, "prefetch_factor": 2, "model": model}
        | {"data": {"patch_size": [5, 6]}, "surface_distance_interval": 900_000}
    )
    for knob in KNOBS:
        values = values_of(knob, machine(2000), asked)
        assert values and [check_value(knob, value) for value in values] == list(values)


def test_a_smaller_model_or_patch_is_a_part_of_the_current_one() -> None:
    asked = experiment(config={"model": {"filters": 32}, "data": {"patch_size": [72, 136, 136]}})
    assert of("filters", asked) == (16, 32)
    assert of("patch_size", asked) == (72, 104, 136)
    assert of("surface_distance_interval", experiment(config={"surface_distance_interval": 8})) == (8, 16, 32)
    assert of("filters") == of("patch_size") == of("surface_distance_interval") == ()


def test_half_a_precision_that_needs_a_scaler_is_for_gpus() -> None:
    gpu = Machine(host="h", kernel="k", cpu_model=None, cores=4, ram_bytes=None, shm_bytes=None, gpus=("A100",))
    assert of("precision") == ("fp32", "bf16")
    assert values_of(knob_named("precision"), gpu, None) == ("fp32", "bf16", "fp16")
    assert of("precision", experiment(config={"precision": 16})) == ("fp32", "bf16", "fp16")


def test_threads_are_doubled_up_to_the_cores() -> None:
    assert of("threads") == (1, 2, 4, 8, 12)
    assert of("threads", cores=2) == (1, 2) and of("threads", cores=0.5) == (1,)
    assert of("threads", experiment("torchrun --nproc-per-node 4 t.py"), cores=12) == (1, 2, 3)
    assert of("threads", experiment(config={"torch_threads": 5}), cores=4) == (1, 2, 4, 5)


@pytest.mark.parametrize(
    ("name", "value", "current", "resolved"),
    [
        ("batch_size", Times(factor=1), 3, 3),
        ("batch_size", Times(factor=2), 3, 6),
        ("batch_size", Times(factor=0.5), 3, 2),
        ("batch_size", Times(factor=0.5), 1, 1),
        ("batch_size", Times(factor=2), None, None),
        ("batch_size", 4, None, 4),
        ("workers", Times(factor=0.25), 1, 1),
        ("workers", Times(factor=2), 0, 0),
        ("patch_size", Times(factor=0.5), 5, 5),
        ("workers", Times(factor=100), 64, 1024),
        ("patch_size", Times(factor=0.85), 112, 96),
        ("patch_size", Times(factor=0.01), 112, 8),
        ("patch_size", Times(factor=1), 101, 101),
        ("pin_memory", True, False, True),
        ("precision", "bf16", "fp32", "bf16"),
        ("workers", Times(factor=2), True, None),
    ],
)
def test_a_plans_value_comes_to_one_that_the_knob_takes(
    name: str, value: RungValue, current: Scalar, resolved: Scalar
) -> None:
    assert resolve(value, current, knob_named(name)) == resolved
    assert resolved is None or check_value(knob_named(name), resolved) == resolved


def test_declared_cores_decide_what_is_worth_trying() -> None:
    declared = Machine(host="h", kernel="k", cpu_model=None, cores=2, declared_cores=12, ram_bytes=None, shm_bytes=None)
    assert values_of(knob_named("workers"), declared, None) == (0, 1, 2, 4, 6, 8, 12, 18)
