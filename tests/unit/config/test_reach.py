"""Which commands the hooks get into, told before anything is started."""

from __future__ import annotations

import shlex

import pytest

from vtune.config.reach import Reach, reach_of_hooks


@pytest.mark.parametrize(
    "command",
    [
        "python train.py",
        "/usr/bin/python3.12 -u -OO train.py -I",
        "{python} -m src.train -E",
        "python -W ignore -Xdev -c 'import train' -S",
        "python -sPB train.py",
        "torchrun --nproc-per-node 2 train.py",
        "python -m torch.distributed.run train.py",
        "accelerate launch --num_processes 2 train.py",
        "env OMP_NUM_THREADS=1 python train.py",
        "env -u LANG nice -n 10 python train.py",
        "timeout 10m taskset -c 0-3 python train.py",
        "uv run train.py",
        "uv run --with torch python -u train.py",
        "uv run -m src.train",
        "poetry run python train.py",
        "conda run -n ct torchrun train.py",
    ],
)
def test_a_python_that_reads_pythonpath_is_reached(command: str) -> None:
    assert reach_of_hooks(shlex.split(command)) is Reach.REACHED


@pytest.mark.parametrize(
    "command",
    [
        "python -I train.py",
        "python -uE train.py",
        "python -X dev -S train.py",
        "env -i python train.py",
        "env PYTHONPATH=. python train.py",
        "env -u PYTHONPATH python train.py",
        "uv run python -I train.py",
        "nice python -sE -m train",
    ],
)
def test_a_python_that_ignores_its_environment_is_not(command: str) -> None:
    assert reach_of_hooks(shlex.split(command)) is Reach.NOT_REACHED


@pytest.mark.parametrize(
    "command",
    [
        "bash train.sh",
        "sh -c 'python train.py'",
        "./train.py",
        "./a.out",
        "docker run image python train.py",
        "ssh host python train.py",
        "sudo python train.py",
        "torchrun --no-python ./a.out",
        "python -m torch.distributed.run --no-python ./a.out",
        "hatch run train",
        "taskset -c 0 bash -c 'python train.py'",
        "env -S 'python train.py'",
        "make train",
        "uv",
    ],
)
def test_a_program_that_may_be_anything_is_unknown(command: str) -> None:
    assert reach_of_hooks(shlex.split(command)) is Reach.UNKNOWN
