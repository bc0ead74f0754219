"""Which words of a command are a knob, and which a stranger's: a table of commands as people type them."""

from __future__ import annotations

import shlex

import pytest

from vtune.knobs.flags import Flag, UnclearFlag, find_flag, word_with
from vtune.knobs.registry import KNOBS, knob_named

NEW = 77

# The value marked by <> is replaced, and nothing else.
REPLACED = [
    # argparse
    ("workers", "python train.py --workers <4>"),
    ("workers", "python train.py --amp --num-workers <4> --lr 1"),
    ("workers", "python train.py data/imagenet -a resnet50 -j <4> -b 256"),
    ("batch_size", "python train.py -a resnet50 -j 4 -b <256> /data/imagenet"),
    ("batch_size", "python train.py --name a --batch-size=<4> --val-batch-size=9"),
    ("batch_size", "python train.py --batch-si <4> --test-batch-size 8 --batch-size-val 9"),
    ("batch_size", "python train.py --run-name=workers=4 --batch-size <4>"),
    ("batch_size", "python train.py --batch-size=<4> 8"),
    ("workers", "python train.py --max-workers 9 --lr-workers 8 --eval_num_workers 7 --num_workers <4>"),
    ("batch_size", "python train.py --lr-batch-size 2 --batch_size_val 3 --test.batch_size 5 --train.batch_size <4>"),
    ("accumulate_steps", "python train.py --gradient_accumulation_steps <4> --warmup_steps 100"),
    # click, fire, absl
    ("workers", "python cli.py train --num-workers <4> data/"),
    ("batch_size", "python model.py fit --batch_size=<4> --epochs=3"),
    ("batch_size", "python model.py - fit --batch_size <4> - save"),
    ("workers", "python train.py -num_workers=<4>"),
    # hydra
    ("workers", "python train.py data.num_workers=<4>"),
    ("workers", "python train.py experiment=x +trainer.max_steps=3 ++datamodule.num_workers=<4> seed=1"),
    ("workers", "python train.py -m workers=<4> lr=1,2"),
    ("workers", "python train.py --multirun workers=<4>"),
    ("batch_size", "python train.py --config-name exp batch_size=<4>"),
    ("batch_size", "python train.py --config-path=conf -cn exp data.train.batch_size=<4> preprocessing.batch_size=9"),
    ("workers", "python train.py hydra.run.dir=out hydra.launcher.num_workers=9 cfg.dataloader.num_workers=<4>"),
    ("accumulate_steps", "python train.py optimizer.accumulate_steps=<4>"),
    # other parsers of overrides
    ("workers", "python train.py --opts lr=1 data.workers=<4> x=2"),
    ("batch_size", "python tools/train.py cfg.yaml --cfg-options train_dataloader.batch_size=<4>"),
    ("workers", "python train.py --set workers=<4>"),
    ("workers", "python train.py --no-amp workers=<4>"),
    # lightning CLI
    ("workers", "python main.py fit --config a.yaml --data.num_workers <4> --trainer.max_epochs 1"),
    ("batch_size", "python main.py fit --data.init_args.batch_size=<4> --model.lr 1"),
    # launchers
    ("workers", "torchrun --nproc-per-node 2 --workers 9 train.py --workers <4>"),
    ("workers", "torchrun --nproc-per-node 2 -m pkg.train --workers <4>"),
    ("batch_size", "accelerate launch --num_processes 2 train.py --per_device_train_batch_size <4>"),
    ("batch_size", "deepspeed --num_gpus 2 train.py --deepspeed ds.json --train_batch_size <4>"),
    ("workers", "python -m torch.distributed.run --nproc_per_node 2 train.py -j<4>"),
    ("workers", "srun -n 1 --cpus-per-task 8 python train.py --workers <4>"),
    ("workers", "mpirun -np 2 -x workers=9 python3.11 -u train.py --workers <4>"),
    ("workers", "env workers=9 OMP_NUM_THREADS=1 python train.py --workers <4>"),
    ("workers", "env -u X workers=9 ./train --workers <4>"),
    ("workers", "nice -n 5 python -X dev -W ignore train.py --workers <4>"),
    ("workers", "uv run --with x python -m pkg.train --workers <4>"),
    ("workers", "uv run -- my-train --workers <4>"),
    ("workers", "poetry run my-train fit --workers <4>"),
    ("workers", "conda run -n e python train.py --workers <4>"),
    # programs, module runs, -c
    ("workers", "python -m pkg.train --script other --workers <4>"),
    ("workers", "python -mpkg.train -j <4>"),
    ("workers", "python -c pass --workers <4>"),
    ("workers", "./train.py -j <4>"),
    ("batch_size", "yolo train batch=<16> workers=8"),
    ("workers", "bash run.sh --workers <4>"),
    ("workers", "my-train --config exp.py --workers <4>"),
    # What follows a bare -- is somebody else's and no knob.
    ("workers", "python train.py --workers <4> -- --verbose x"),
]

# Not touched; the words tell why. "" is a stranger's word without any doubt, which is not spoken of.
LEFT_ALONE = [
    # The value of another flag.
    ("workers", "python train.py --run-name workers=4", "may be the value of --run-name"),
    ("batch_size", "python train.py --exp batch_size=4 --lr 1", "may be the value of --exp"),
    ("workers", "python train.py -o workers=4", "may be the value of -o"),
    ("workers", "python train.py --tags a workers=4", "one more value of --tags"),
    ("workers", "python train.py --lr 1 workers=4", "one more value of --lr"),
    ("workers", "python train.py --batch-size 8 workers=4", "one more value of --batch-size"),
    ("batch_size", "python train.py --notes '--batch-size=4'", "may be the text of --notes"),
    ("batch_size", "python train.py --run-name --batch-size 4", "may be the text of --run-name"),
    ("workers", "python train.py --extra-args -j4", "may be the text of --extra-args"),
    ("workers", "python train.py --extra-args '-j 4'", ""),
    ("workers", "python train.py --extra-args '--workers=4 --lr 1'", "may be the text of --extra-args"),
    ("workers", "python train.py --amp '--workers=4 --lr 1'", "--workers of the command is"),
    ("workers", "python train.py --run-name workers=4 --workers 4", "more than once"),
    # Another part's.
    ("workers", "python train.py preprocessing.num_workers=8", ""),
    ("workers", "python train.py tokenizer.num_workers=8 metrics.num_workers=8", ""),
    ("workers", "python train.py evaluator.num_workers=8 +teacher.workers=8", ""),
    ("batch_size", "python train.py hydra.launcher.batch_size=4", ""),
    ("batch_size", "python train.py --test.batch_size 4 --val-batch-size 4 --data.val.batch_size 2", ""),
    ("workers", "python train.py --max-workers 4 --eval_num_workers 4 --preproc-workers 4", ""),
    ("batch_size", "python train.py --lr-batch-size 4 --batch-size-val 4 --micro-batch-size 2", ""),
    ("batch_size", "python train.py model.batch_size=4", '"model" is not known'),
    ("workers", "python train.py +x.num_workers=2", '"x" is not known'),
    ("batch_size", "python main.py fit --callbacks.batch_size 4", '"callbacks" is not known'),
    ("batch_size", "python train.py optimizer.batch_size=4", '"optimizer" is not known'),
    ("workers", "python train.py --worker 3", "abbreviation"),
    # Lists, sweeps, choices, switches, and no value at all.
    ("batch_size", "python train.py --batch-size 4 8", r"is a list (4 8 ...)"),
    ("workers", "python train.py -j 4 auto", "is a list"),
    ("batch_size", "python train.py -m batch_size=4,8", 'is "4,8"'),
    ("workers", "python train.py --workers auto", 'is "auto"'),
    ("workers", "python train.py --workers -1", "no value"),
    ("workers", "python train.py --workers", "no value"),
    ("pin_memory", "python train.py --name --pin-memory", "may be the text of --name"),
    ("workers", "python train.py DATALOADER.NUM_WORKERS 4", "two words"),
    ("workers", "python train.py --opts data.num_workers 4", "two words"),
    ("workers", "python train.py --workers 4 --num-workers 2", "more than once"),
    # Of what stands before the training, and behind a bare --.
    ("workers", "env workers=4 ./train", ""),
    ("workers", "env workers=4 python train.py", ""),
    ("workers", "torchrun --workers 4 train.py", ""),
    ("batch_size", "accelerate launch --batch_size 4 train.py", ""),
    ("accumulate_steps", "accelerate launch --gradient_accumulation_steps 4 train.py", ""),
    ("workers", "python -m torch.distributed.run --workers 4 train.py", ""),
    ("workers", "srun --workers 4 ./train --workers 8", "more than once"),
    ("workers", "srun -n 2 ./train --workers 8", "word of srun"),
    ("workers", "docker run -e workers=4 image", "may be the value of -e"),
    ("workers", "torchrun --no-python ./train --workers 8", "word of torchrun"),
    ("workers", "make train workers=4", "word of make"),
    ("workers", "make -j 4 train", ""),
    ("workers", "my-train -j 4", ""),
    ("workers", "bash -c 'python train.py --workers 4'", ""),
    ("workers", "bash -lc 'python train.py $@' _ --workers 4", ""),
    ("workers", "python submit.py --workers 4 train.py --lr 1", "in front of train.py"),
    ("workers", "python train.py -- --workers 4", "behind a bare --"),
    ("workers", "python launch.py --workers 4 -- train.py --workers 8", "more than once"),
    ("batch_size", "python -b train.py", ""),
]


@pytest.mark.parametrize(("name", "marked"), REPLACED)
def test_the_value_of_a_clear_flag_is_replaced_and_no_other_word(name: str, marked: str) -> None:
    command = shlex.split(marked.replace("<", "").replace(">", ""))
    flag = find_flag(knob_named(name), command)
    assert isinstance(flag, Flag), flag
    command[flag.position] = word_with(flag, knob_named(name), NEW)
    head, _, rest = marked.partition("<")
    assert command == shlex.split(f"{head}{NEW}{rest.partition('>')[2]}")


@pytest.mark.parametrize(("name", "typed", "why"), LEFT_ALONE)
def test_a_word_that_may_be_a_strangers_is_left_alone_with_the_reason(name: str, typed: str, why: str) -> None:
    found = find_flag(knob_named(name), shlex.split(typed))
    if why:
        assert isinstance(found, UnclearFlag) and why in found.why, found
        assert found.value is None or name == "pin_memory"
    else:
        assert found is None


@pytest.mark.parametrize("stranger", ["--run-name", "--exp", "--tag", "-n", "--output", "--notes", "--x.y"])
@pytest.mark.parametrize(("name", "marked"), [row for row in REPLACED if " -- " not in row[1]])
def test_a_strangers_text_that_reads_like_the_knob_makes_no_command_lose_it(
    name: str, marked: str, stranger: str
) -> None:
    """Whatever the command was, with `--run-name workers=4` at its end its words stay as they are."""
    typed = f"{marked.replace('<', '').replace('>', '')} {stranger} {name}=4"
    assert not isinstance(find_flag(knob_named(name), shlex.split(typed)), Flag)


def test_no_command_of_the_table_turns_a_knob_that_it_does_not_name() -> None:
    named = ("worker", "-j", "batch", "-b", "accum", "pin")
    for _, marked in REPLACED:
        command = shlex.split(marked.replace("<", "").replace(">", ""))
        found = [knob.name for knob in KNOBS if isinstance(find_flag(knob, command), Flag)]
        assert found and "prefetch_factor" not in found and any(word in marked for word in named)
