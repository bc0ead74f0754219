"""A training whose memory takes a given shape, and that saves after the step when it gets SIGTERM.

Times are in seconds since its start, memory in MB beyond its own. `step_mb` comes at `step_at_s` within a second, as a
first validation's does; `tooth_mb` fills over each `tooth_s` and is given back, as an epoch's may be.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

import torch
import yaml
from torch.utils.data import DataLoader, TensorDataset

MB = 1_000_000

parser = argparse.ArgumentParser()
parser.add_argument("--config", type=Path, required=True)
config = yaml.safe_load(parser.parse_args().config.read_text())
out = Path(config["output_dir"])
out.mkdir(parents=True, exist_ok=True)
shape = {
    "quiet_s": 1e9,
    "mb_per_s": 0,
    "step_at_s": 1e9,
    "step_mb": 0,
    "tooth_s": 1e9,
    "tooth_mb": 0,
    **config["memory"],
}
# An allocator's: some MB are taken and given back from step to step.
noise = torch.Generator().manual_seed(0)


def wanted(t: float) -> float:
    leaked = max(0.0, t - shape["quiet_s"]) * shape["mb_per_s"]
    step = min(1.0, max(0.0, t - shape["step_at_s"])) * shape["step_mb"]
    tooth = t % shape["tooth_s"] / shape["tooth_s"] * shape["tooth_mb"]
    return leaked + step + tooth + 8 * torch.rand((), generator=noise).item()


torch.manual_seed(0)
model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(4 * config["steps"], 64))
asked: list[int] = []
signal.signal(signal.SIGTERM, lambda signum, _: asked.append(signum))
begun, held = time.monotonic(), []
for done, (samples,) in enumerate(DataLoader(data, batch_size=4, num_workers=1), start=1):
    loss = model(samples).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    while len(held) < wanted(time.monotonic() - begun):
        held.append(b"x" * MB)
    while len(held) > wanted(time.monotonic() - begun) + 8:
        held.pop()
    time.sleep(0.05)
    if asked:
        torch.save({"model": model.state_dict(), "done": done}, out / "last.new")
        os.replace(out / "last.new", out / "last.pt")
        print(f"saved after step {done} with {len(held)} MB at {time.monotonic() - begun:.1f} s", flush=True)
        sys.exit(143)
