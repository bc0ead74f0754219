"""Knobs that only the training itself can turn: found by their keys and flags, written in the training's own words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from vtune.domain.effects import Effect, Scalar, SetArgument, SetConfigKey, SetEnv
from vtune.domain.experiment import Experiment, KnobBinding, Workload
from vtune.errors import UsageError
from vtune.knobs.flags import UnclearFlag, find_flag
from vtune.knobs.keys import find_key, wrong_values
from vtune.knobs.plan import changes_of, effects_of, needs_scout
from vtune.knobs.registry import knob_named
from vtune.knobs.ways import NoWay, ThroughConfig, ThroughEnvironment, current_settings, way_of
from vtune.knobs.written import read_as, written_as

ROOT = Path(__file__).resolve().parents[3]
LIGHTNING = {
    "training": {"precision": "32", "accumulate_grad_batches": 1},
    "model": {"filters": [32, 64, 128, 256, 512], "use_checkpoint": False, "deep_supervision": True},
    "data": {"patch_size": [112, 112, 112], "num_workers": 1},
}


def experiment(
    config: dict[str, Any] | None = None, words: str = "python t.py", *bindings: KnobBinding, **env: str
) -> Experiment:
    path = None if config is None else Path("/p/exp.yaml")
    workload = Workload(command=tuple(words.split()), cwd=Path("/p"), config=config, config_path=path, env=env)
    return Experiment(study="s", workload=workload, knobs=bindings)


def effect(asked: Experiment, **settings: Scalar) -> Effect:
    (one,) = effects_of(settings, asked, None)
    return one


def test_the_big_jobs_own_keys_are_found() -> None:
    config = yaml.safe_load((ROOT / "configs" / "exp001.yaml").read_text(encoding="utf-8"))
    found = current_settings(experiment(config))
    assert found == {
        "workers": 1, "batch_size": 1, "accumulate_steps": 1, "precision": "fp32", "compile": False,
        "gradient_checkpointing": False, "channels_last": False, "filters": 32, "patch_size": 136,
        "surface_distance_interval": 16, "deep_supervision": True,
    }  # fmt: skip
    assert find_key(knob_named("threads"), experiment(config)) == ("training", "torch_threads")


def test_a_list_is_told_by_its_first_width_or_its_longest_edge_and_set_as_a_whole() -> None:
    asked = experiment(LIGHTNING)
    now = current_settings(asked)
    assert (now["filters"], now["patch_size"], now["gradient_checkpointing"]) == (32, 112, False)
    assert effect(asked, filters=16) == SetConfigKey(path=("model", "filters"), value=(16, 32, 64, 128, 256))
    assert effect(asked, patch_size=96) == SetConfigKey(path=("data", "patch_size"), value=(96, 96, 96))


@pytest.mark.parametrize(
    ("edges", "longest", "written"),
    [
        ([72, 136, 136], 96, (48, 96, 96)),
        ([72, 136, 136], 136, (72, 136, 136)),
        ([72, 136, 136], 72, (40, 72, 72)),
        ([8, 136], 40, (8, 40)),
        ([100, 120], 60, (52, 60)),
        ([33, 33], 16, (16, 16)),
        ([64], 48, (48,)),
        ([16, 160, 160], 24, (16, 24, 24)),
    ],
)
def test_edges_keep_their_proportion_and_stay_as_round_as_they_are(
    edges: list[int], longest: int, written: tuple[int, ...]
) -> None:
    assert written_as(knob_named("patch_size"), longest, edges) == written
    assert read_as(knob_named("patch_size"), list(written)) == longest


@pytest.mark.parametrize(
    ("now", "bf16", "fp16", "fp32"),
    [
        ("fp32", "bf16", "fp16", "fp32"),
        ("FP32", "BF16", "FP16", "FP32"),
        ("32", "bf16-mixed", "16-mixed", "32"),
        ("32-true", "bf16-mixed", "16-mixed", "32-true"),
        ("bf16-mixed", "bf16-mixed", "16-mixed", "32"),
        ("16", "bf16-mixed", "16", "32"),
        (32, "bf16", 16, 32),
        (16, "bf16", 16, 32),
        ("float32", "bfloat16", "float16", "float32"),
        ("torch.bfloat16", "torch.bfloat16", "torch.float16", "torch.float32"),
        ("no", "bf16", "fp16", "no"),
    ],
)
def test_a_precision_is_written_in_the_family_of_the_current_one(
    now: Scalar, bf16: Scalar, fp16: Scalar, fp32: Scalar
) -> None:
    asked = experiment({"training": {"precision": now}})
    assert current_settings(asked)["precision"] in ("fp32", "bf16", "fp16")
    for meant, written in (("bf16", bf16), ("fp16", fp16), ("fp32", fp32)):
        set_key = effect(asked, precision=meant)
        assert isinstance(set_key, SetConfigKey)
        assert (set_key.value, type(set_key.value)) == (written, type(written))
        assert read_as(knob_named("precision"), written) == meant


def test_a_flag_is_written_like_the_config() -> None:
    asked = experiment(None, "python t.py --precision 32-true --compile no")
    assert effect(asked, precision="bf16") == SetArgument(
        argument="--precision", position=3, word="bf16-mixed", value="bf16"
    )
    assert effect(asked, compile=True) == SetArgument(argument="--compile", position=5, word="yes", value=True)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("precision", "python t.py --precision 4"),
        ("compile", "python t.py --compile"),
        ("filters", "python t.py --filters 32 64 128"),
        ("patch_size", "python t.py data.patch_size=[96,96,96]"),
        ("filters", "python t.py encoder.model.filters=32"),
    ],
)
def test_a_word_that_may_be_another_thing_closes_every_way(name: str, words: str) -> None:
    way = way_of(knob_named(name), experiment({"model": {"filters": 32}}, words))
    clear = words.rpartition(" ")[2].startswith("encoder")
    assert isinstance(way, ThroughConfig) if clear else isinstance(way, NoWay) and way.because


def test_a_section_of_the_model_is_known_to_a_knob_of_the_model_only() -> None:
    words = ["python", "t.py", "model.filters=32", "model.num_workers=4"]
    flag = find_flag(knob_named("filters"), words)
    assert flag is not None and flag.value == 32
    assert isinstance(find_flag(knob_named("workers"), words), UnclearFlag)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("precision", {"metrics": {"precision": 16}}),
        ("precision", {"logging": {"precision": 16}}),
        ("filters", {"augmentation": {"filters": 8}}),
        ("patch_size", {"model": {"patch_size": 16}}),
        ("gradient_checkpointing", {"use_checkpoint": True}),
        ("compile", {"docs": {"compile": True}}),
    ],
)
def test_a_common_word_is_a_knob_in_the_listed_places_only(name: str, config: dict[str, Any]) -> None:
    assert find_key(knob_named(name), experiment(config)) is None


def test_the_users_own_key_is_taken_wherever_it_stands() -> None:
    binding = KnobBinding(name="precision", key=("amp", "dtype"))
    asked = experiment({"amp": {"dtype": "bfloat16"}}, "python t.py", binding)
    assert current_settings(asked) == {"precision": "bf16"}
    assert effect(asked, precision="fp32") == SetConfigKey(path=("amp", "dtype"), value="float32")
    with pytest.raises(UsageError, match='amp.dtype, named for a knob: precision must be one of .*, got "int8"'):
        find_key(knob_named("precision"), experiment({"amp": {"dtype": "int8"}}, "python t.py", binding))


@pytest.mark.parametrize(
    ("name", "config", "shown"),
    [
        ("precision", {"training": {"precision": "bf16-true"}}, 'training.precision is "bf16-true"'),
        ("precision", {"training": {"precision": True}}, "training.precision is true"),
        ("compile", {"model": {"compile": {"mode": "max"}}}, "model.compile is {'mode': 'max'}"),
        ("filters", {"model": {"filters": [32, "x"]}}, "model.filters is [32, 'x']"),
        ("surface_distance_interval", {"loss": {"surface_distance_interval": 0}}, "is 0"),
        ("threads", {"training": {"torch_threads": 0}}, "training.torch_threads is 0"),
    ],
)
def test_a_value_of_the_trainings_own_is_no_mistake_and_left_alone_with_the_reason(
    name: str, config: dict[str, Any], shown: str
) -> None:
    assert wrong_values(config) == []
    way = way_of(knob_named(name), experiment(config))
    assert isinstance(way, NoWay) and way.because is not None
    assert shown in way.because and f"cannot read as {name}" in way.because


def test_threads_go_by_the_environment_where_nothing_else_names_them() -> None:
    assert effect(experiment(), threads=2) == SetEnv(name="OMP_NUM_THREADS", value="2")
    assert changes_of(effects_of({"threads": 2}, experiment(), None)).env == {"OMP_NUM_THREADS": "2"}
    assert not needs_scout({"threads": 2}, experiment())
    assert current_settings(experiment(OMP_NUM_THREADS="4")) == {"threads": 4}
    assert way_of(knob_named("threads"), experiment(OMP_NUM_THREADS="4,2")) == ThroughEnvironment(
        name="OMP_NUM_THREADS"
    )


def test_a_config_that_leaves_the_threads_to_torch_is_still_where_they_are_set() -> None:
    asked = experiment({"training": {"torch_threads": None}}, OMP_NUM_THREADS="4")
    assert effect(asked, threads=2) == SetConfigKey(path=("training", "torch_threads"), value=2)


def test_a_flag_that_cannot_be_turned_would_overrule_the_environment() -> None:
    asked = experiment(None, "python t.py --torch-threads auto")
    assert isinstance(way_of(knob_named("threads"), asked), NoWay)
    with pytest.raises(UsageError, match="--torch-threads of the command is"):
        effects_of({"threads": 2}, asked, None)
