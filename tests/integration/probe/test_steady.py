"""What real loaders tell of a rate's ground: the order of their samples, and a data set that keeps what it reads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.cli import vtune

SCRIPT = """
import random, sys, time
import torch
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    def __init__(self, keeps):
        self.keeps, self.kept = keeps, {}
    def __len__(self):
        return 2000
    def __getitem__(self, index):
        time.sleep(0.001)
        x = torch.full((4,), float(index))
        if self.keeps:
            self.kept[index] = x
        return x

class Own:
    def __iter__(self):
        return iter(random.sample(range(2000), 2000))
    def __len__(self):
        return 2000

if __name__ == "__main__":
    workers, order, keeps = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "keeps"
    how = {"sampler": Own()} if order == "own" else {"shuffle": order == "shuffle"}
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for epoch in range(100):
        for x in DataLoader(Samples(keeps), batch_size=4, num_workers=workers, **how):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            time.sleep(0.004)
"""


@pytest.mark.parametrize(
    ("workers", "order", "keeps", "told"),
    [
        (2, "sequential", "keeps", "file_order"),
        pytest.param(0, "own", "keeps", "unknown", marks=pytest.mark.slow),
        pytest.param(2, "own", "forgets", "unknown", marks=pytest.mark.slow),
        pytest.param(2, "shuffle", "forgets", "shuffled", marks=pytest.mark.slow),
    ],
)
def test_a_record_has_the_ground_of_its_rate(tmp_path: Path, workers: int, order: str, keeps: str, told: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    said = vtune(
        "probe", "--json", "--results", tmp_path / "out", "--steps", "40", "--", sys.executable, script, str(workers),
        order, keeps,
    )  # fmt: skip
    assert said.code == 0, said.stderr
    record = said.json["trial"]
    ground, doubts = record["ground"], {doubt["kind"]: doubt for doubt in record["doubts"]}
    assert ground["order"] == told and ground["first_epoch_only"]
    # The length of a sampler of the training's own is not asked for.
    assert ground["epoch_fraction"] is None if order == "own" else 0.02 < ground["epoch_fraction"] < 0.3
    assert ground["rarest_steps"] == record["steps_measured"] // 3
    assert not record["steady"] and "ShortWindow" in doubts
    assert ("CacheFills" in doubts) == (keeps == "keeps")
    if keeps == "keeps":
        assert doubts["CacheFills"]["attribute"] == "kept"
    assert ("PartOfEpoch" in doubts) == (told != "shuffled")
    assert not any(note.startswith("instrumentation") for note in record["notes"])
