"""Reports of studies that real trainings made, one of them while it is being measured."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.cli import quiet_env, vtune
from support.light import LIGHT

SCRIPT = f"""{LIGHT}
import time, torch
from torch.utils.data import DataLoader, Dataset

class Patches(Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.zeros(4)

if __name__ == "__main__":
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(30):
        for batch in DataLoader(Patches(), batch_size=2, num_workers=0):
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.timing
def test_a_study_is_reported_while_it_grows_and_after_its_trials_are_gone(tmp_path: Path) -> None:
    script, results = tmp_path / "train.py", tmp_path / "results"
    script.write_text(SCRIPT)
    probe = ["probe", "--study", "s", "--results", str(results), "--steps", "30", "--quiet"]
    command = ["--", sys.executable, str(script)]
    assert vtune(*probe, *command, cwd=tmp_path).code == 0

    second = subprocess.Popen(
        [sys.executable, "-m", "vtune", *probe, "--set", "workers=2", *command],
        cwd=tmp_path, env=quiet_env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while second.poll() is None and not (results / "s" / "trials" / "0002").exists():
            time.sleep(0.05)
        meanwhile = vtune("report", "--json", "--results", results)
        assert meanwhile.code == 0 and meanwhile.json["baseline"]["trial"] == 1
        assert second.wait(120) == 0
    finally:
        second.kill()
        second.wait()

    shutil.rmtree(results / "s" / "trials")
    told = vtune("report", "--json", "--study", "s", "--results", results).json
    assert [trial["trial"] for trial in told["trials"]] == [1, 2] and told["baseline"]["trial"] == 1
    assert told["baseline"]["asked"] == {} and told["trials"][1]["asked"] == {"workers": 2}
    # Two workers that sleep load twice as fast as none.
    assert told["best"]["trial"] == 2 and told["speedup_ci95"][0] > 1.2
    assert told["choice"]["adopt"]["workers"] == 2
    table = vtune("report", "--format", "csv", "--study", "s", "--results", results).stdout
    assert [row["workers"] for row in csv.DictReader(io.StringIO(table))] == ["0", "2"]
    text = vtune("report", "--format", "md", "--study", "s", "--results", results).stdout
    assert "**adopt workers=2" in text and "no GPU was seen" in text
