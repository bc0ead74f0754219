from __future__ import annotations

import pytest

from vtune.knobs.arguments import named_arguments, own_words


def test_named_arguments_are_found_in_every_form() -> None:
    command = [
        "python",
        "t.py",
        "--max-epochs",
        "3",
        "--out_dir=a=b",
        "-epochs",
        "4",
        "+trainer.x=5",
        "--flag",
        "--last",
    ]
    assert [(found.name, found.value, found.position) for found in named_arguments(command)] == [
        ("max_epochs", "3", 3),
        ("out_dir", "a=b", 4),
        ("epochs", "4", 6),
        ("trainer.x", "5", 7),
    ]


@pytest.mark.parametrize(
    ("command", "own", "found"),
    [
        ("python train.py --a 1", ["--a", "1"], True),
        ("torchrun --nproc-per-node 2 train.py --a 1 -- --b", ["--a", "1"], True),
        ("python -m torch.distributed.run --nproc_per_node 2 train.py --a", ["--a"], True),
        ("python -m pkg.train --script other.py --a", ["--script", "other.py", "--a"], True),
        ("python -mpkg.train --a", ["--a"], True),
        ("accelerate launch --workers 3 -m pkg.train --a", ["--a"], True),
        ("python -c pass --a", ["--a"], True),
        ("uv run -- python -b train.py -j 4", ["-j", "4"], True),
        ("my-trainer fit --a", ["fit", "--a"], False),
        ("python", [], False),
    ],
)
def test_the_trainings_own_words_stand_behind_what_it_runs(command: str, own: list[str], found: bool) -> None:
    words = command.split()
    where, behind = own_words(words)
    assert ([words[at] for at in where], behind) == (own, found)
