"""A training that saves, resumes exactly, and meets one accident when its config says so and its settings are bold.

Standard words of such scripts: --config FILE, --resume; SIGTERM saves after the step. Each sample depends on its number
alone, so that a resumed run goes on with the same losses whatever loads them.
"""

import argparse
import io
import json
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import torch
import yaml
from torch.utils.data import DataLoader, Dataset, Subset

# Without its compiler torch starts in half the time: tests/support/light.py.
sys.modules["torch._dynamo"] = SimpleNamespace(disable=lambda call, *_, **__: call, graph_break=lambda: None)

parser = argparse.ArgumentParser()
parser.add_argument("--config", type=Path, required=True)
parser.add_argument("--resume", action="store_true")
asked = parser.parse_args()
config = yaml.safe_load(asked.config.read_text())
steps, workers = config["steps"], config["workers"]
batch, accumulate = config["batch_size"], config["accumulate_steps"]
out = Path(config["output_dir"])
out.mkdir(parents=True, exist_ok=True)
last, losses = out / "last.pt", out / "losses.jsonl"
accident = config.get("accident") if workers >= 2 or batch >= 4 else None
at_step = config.get("at_step", 20)


class Numbers(Dataset):
    def __len__(self):
        return steps * batch * accumulate

    def __getitem__(self, index):
        time.sleep(600 if accident == "no_batch" else config.get("load_s", 0.002))
        if accident == "lost_worker" and index >= at_step * batch * accumulate:
            os.kill(os.getpid(), signal.SIGKILL)
        if accident == "hang" and index >= at_step * batch * accumulate:
            time.sleep(10_000)
        return torch.full((8,), (index % 97) / 97.0)


if "index" in config:
    Path(config["index"]).write_text(f"made at {time.time()}")
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
done = 0
if asked.resume and last.exists():
    saved = torch.load(last)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    done = saved["done"]
    print(f"going on after step {done}", flush=True)
elif losses.exists():
    losses.unlink()


class Slow:
    """Takes time while it is saved, as a large model does, and is nothing when it is loaded."""

    def __reduce__(self):
        time.sleep(config.get("save_s", 0))
        return int, ()


def save():
    new = last.with_suffix(".new")
    if accident == "full_disk" and done >= at_step:
        new.symlink_to("/dev/full")
    text = io.BytesIO()
    told = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": done}
    torch.save({**told, "slow": Slow()} if "save_s" in config else told, text)
    new.write_bytes(text.getvalue())
    os.replace(new, last)


asked_to_stop = []
signal.signal(signal.SIGTERM, lambda *_: None if config.get("deaf") else asked_to_stop.append(True))
loader = DataLoader(Subset(Numbers(), range(done * batch * accumulate, len(Numbers()))), batch, num_workers=workers)
kept, waiting, of_step = [], 0, 0.0
for samples in loader:
    loss = (model(samples) - samples.mean(1, keepdim=True)).square().mean() / accumulate
    loss.backward()
    waiting += 1
    of_step += loss.item()
    if waiting < accumulate:
        continue
    told, waiting, of_step = of_step, 0, 0.0
    optimizer.step()
    optimizer.zero_grad()
    done += 1
    with open(losses, "a") as file:
        file.write(json.dumps({"step": done, "loss": told}) + "\n")
    time.sleep(config.get("step_s", 0.02))
    if accident == "leak":
        # As much as a first validation may take, and keep.
        if done == config.get("jump_at_step"):
            kept.append(bytearray(os.urandom(2**20)) * 200)
        if done > config.get("quiet_steps", 0):
            kept.append(bytearray(os.urandom(2**20)) * 4)
        time.sleep(0.07)
    if accident in ("hang", "hang_itself") and done == at_step:
        signal.signal(signal.SIGTERM, lambda *_: (save(), os._exit(0)))
        while accident == "hang_itself":
            time.sleep(60)
    if accident == "device" and done == at_step:
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which"
            " 1.00 GiB is free."
        )
    if done % config.get("save_every", 10) == 0 or asked_to_stop:
        save()
    if asked_to_stop:
        print(f"saved after step {done}", flush=True)
        sys.exit(config.get("leaves_with", 143))
print("done", flush=True)
