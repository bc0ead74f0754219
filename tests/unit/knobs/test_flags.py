from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtune.domain.effects import Scalar, SetArgument
from vtune.domain.experiment import Experiment, KnobBinding, Workload
from vtune.domain.trial import Proposal
from vtune.errors import UsageError
from vtune.journal.records import spec_to_json
from vtune.knobs.flags import Flag, UnclearFlag, find_flag, word_with
from vtune.knobs.plan import batch_factor, effects_of, needs_scout, plan_trial, turned_command
from vtune.knobs.registry import KNOBS, knob_named
from vtune.knobs.ways import current_settings

LOADER = "train.py:88:Scrolls#0"


def experiment(words: str, config: dict[str, Any] | None = None, *bindings: KnobBinding) -> Experiment:
    workload = Workload(command=tuple(words.split()), cwd=Path("/"), config=config)
    return Experiment(study="s", workload=workload, knobs=bindings)


def turned(words: str, **settings: Scalar) -> str:
    asked = experiment(words)
    return " ".join(turned_command(asked.workload, effects_of(settings, asked, LOADER)))


@pytest.mark.parametrize(
    ("words", "settings", "after"),
    [
        ("python t.py --num-workers 4 --lr 1", {"workers": 8}, "python t.py --num-workers 8 --lr 1"),
        ("python t.py --num_workers=4", {"workers": 0}, "python t.py --num_workers=0"),
        ("python -m pkg.train -workers 4", {"workers": 1}, "python -m pkg.train -workers 1"),
        ("torchrun --nnodes 1 t.py -j 4 -b 256", {"workers": 2}, "torchrun --nnodes 1 t.py -j 2 -b 256"),
        ("python t.py -j4 -b=2", {"workers": 16, "batch_size": 4}, "python t.py -j16 -b=4"),
        ("python t.py batch_size=8 +data.workers=2", {"workers": 4}, "python t.py batch_size=8 +data.workers=4"),
        ("python t.py --data.init_args.num_workers 2", {"workers": 3}, "python t.py --data.init_args.num_workers 3"),
        ("yolo train batch=16 workers=8", {"batch_size": 32}, "yolo train batch=32 workers=8"),
        ("python t.py --batch-si 2 --num-wo 3", {"batch_size": 1, "workers": 4}, "python t.py --batch-si 1 --num-wo 4"),
        ("python t.py --dataloader_pin_memory False", {"pin_memory": True}, "python t.py --dataloader_pin_memory True"),
        ("python t.py --persistent-workers=no", {"persistent_workers": True}, "python t.py --persistent-workers=yes"),
        ("python t.py pin_memory=1", {"pin_memory": False}, "python t.py pin_memory=0"),
        ("python t.py --grad-accum-steps 4", {"accumulate_steps": 2}, "python t.py --grad-accum-steps 2"),
    ],
)  # fmt: skip
def test_a_flag_of_the_command_takes_the_setting_where_it_stands(
    words: str, settings: dict[str, Scalar], after: str
) -> None:
    assert not needs_scout(settings, experiment(words))
    assert turned(words, **settings) == after


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("python t.py -j 4 -b 256 --prefetch-factor=2", {"workers": 4, "prefetch_factor": 2, "batch_size": 256}),
        ("python t.py --pin-memory --no-persistent-workers", {"pin_memory": True, "persistent_workers": False}),
        ("python t.py --pin-mem data/", {"pin_memory": True}),
        ("python t.py --workers 4 --num-workers 2", {}),
        ("python t.py --workers auto --batch-size 8,16", {}),
        ("python t.py --workers -1", {}),
        # Another loader's, or another thing altogether.
        ("python t.py --val-num-workers 2 --test-batch-size 8 val.num_workers=1 --val.batch_size 3", {}),
        ("python t.py --num-warmup-steps 4 --num-w 5 --work 3 --batch-s 2 --work-dir 4", {}),
        # The launcher's, the interpreter's, another program's, or no option at all.
        ("make -j 4 train", {}),
        ("accelerate launch --gradient_accumulation_steps 4 t.py", {}),
        ("python -b t.py", {}),
        ("python t.py -- --workers 4", {}),
        ("python t.py --workers", {}),
        ("python", {}),
    ],
)
def test_what_a_command_says_of_a_knob_is_known_where_it_is_clear(words: str, settings: dict[str, Scalar]) -> None:
    assert current_settings(experiment(words)) == settings


def test_the_command_overrides_the_config_and_the_users_binding_overrides_both() -> None:
    config = {"training": {"workers": 1}, "mine": 3}
    assert current_settings(experiment("python t.py --workers 4", config)) == {"workers": 4}
    (effect,) = effects_of({"workers": 8}, experiment("python t.py --workers 4", config), None)
    assert effect == SetArgument(argument="--workers", position=3, word="8", value=8)
    bound = experiment("python t.py --workers 4", config, KnobBinding(name="workers", key=("mine",)))
    assert current_settings(bound) == {"workers": 3}


def test_what_is_unclear_is_left_to_the_hook_even_where_a_key_maps() -> None:
    unclear = experiment("python t.py --workers 4 --num-workers 2", {"training": {"workers": 1}})
    assert needs_scout({"workers": 8}, unclear)
    found = find_flag(knob_named("workers"), unclear.workload.command)
    assert isinstance(found, UnclearFlag) and "--workers and --num-workers" in found.why


def test_a_flag_that_did_nothing_in_an_earlier_trial_is_left_to_the_hook_and_tells_no_current_value() -> None:
    asked = replace(experiment("python t.py -b 4 --workers 2"), ignored_flags=frozenset(("-b",)))
    assert needs_scout({"batch_size": 8}, asked) and not needs_scout({"workers": 4}, asked)
    assert current_settings(asked) == {"workers": 2}


def test_what_only_the_command_can_say_and_says_unclearly_is_refused_with_the_reason() -> None:
    twice = experiment("python t.py --accumulate-steps 2 --accumulate-steps 4")
    with pytest.raises(UsageError, match=r"more than once \(--accumulate-steps\)"):
        effects_of({"accumulate_steps": 2}, twice, LOADER)


def test_the_effective_batch_is_compared_with_that_of_the_command() -> None:
    asked = experiment("python t.py --batch-size 8 --grad-accum-steps 2")
    assert batch_factor({"batch_size": 16}, asked) == 2.0
    assert batch_factor({"batch_size": 16, "accumulate_steps": 1}, asked, batch_size_before=16) == 1.0
    assert batch_factor({"batch_size": 16}, experiment("python t.py"), batch_size_before=4) == 4.0


def test_rules_between_knobs_look_at_the_command_too() -> None:
    with pytest.raises(UsageError, match="at least one worker"):
        effects_of({"prefetch_factor": 2}, experiment("python t.py --workers 0"), LOADER)


def test_a_planned_trial_has_the_flag_in_its_command_and_the_effect_in_its_spec() -> None:
    spec = plan_trial(
        Proposal(settings={"workers": 8}, reason="r", origin="probe"),
        experiment("{python} t.py --workers=4 --out a"),
        number=1,
        train_loader=None,
        folder=Path("/r"),
        token="t",
        command=["/bin/python", "t.py", "--workers=4", "--out", "/elsewhere"],
    )
    assert spec.command == ("/bin/python", "t.py", "--workers=8", "--out", "/elsewhere")
    (effect,) = spec_to_json(spec)["effects"]
    assert effect == {
        "kind": "SetArgument", "argument": "--workers", "position": 2, "word": "--workers=8", "value": 8
    }  # fmt: skip


words = st.sampled_from(
    ["--workers", "-j", "-j4", "4", "--workers=2", "batch_size=", "=", "--", "-", "--no-pin-memory", "--pin-memory",
     "x\x1b", "-m", "t.py", "yes", "--=3", "--no-", "-b=", "val.workers=1"]
)  # fmt: skip


@given(st.lists(words | st.text(max_size=12), max_size=8))
def test_any_command_is_read_and_only_the_word_with_the_value_is_replaced(command: list[str]) -> None:
    for knob in KNOBS:
        flag = find_flag(knob, ["python", *command])
        if isinstance(flag, Flag):
            assert word_with(flag, knob, flag.value) in (
                ["python", *command][flag.position],
                f"{flag.prefix}{flag.value}",
            )
