"""The limit as the hooks hold it, process by process. Not yet run on a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from emulated.accelerator import UUID

MIB = 2**20
ROOT = Path(__file__).resolve().parents[3]
PATH = f"{ROOT / 'vtune' / 'worker' / 'inject'}:{ROOT / 'benchmarks'}"
TRAIN = """
import sys, time, torch
from pathlib import Path
from emulated import accelerator
device = accelerator.install(total_bytes=1000 * 2**20)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
folder, number, ranks = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
{before}
def step():
    model(torch.ones(3)).sum().backward()
    optimizer.step()
device.allocate(10 * 2**20)
{body}
"""

pytestmark = pytest.mark.slow


def start(folder: Path, body: str, *, number: int = 0, ranks: int = 1, before: str = "", **env: str) -> Any:
    code = TRAIN.format(body=body, before=before)
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(number), str(ranks)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": PATH, "VTUNE_TRIAL": str(folder), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: Any) -> tuple[int, str, str]:
    try:
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, stdout.strip(), stderr


def facts(folder: Path, name: str) -> list[dict[str, Any]]:
    lines = [line for file in sorted(folder.glob("steps-*.jsonl")) for line in file.read_text().splitlines()]
    found = [json.loads(line) for line in lines]
    return sorted((fact for fact in found if fact["fact"] == name), key=lambda fact: fact["t"])


@pytest.fixture
def limited(tmp_path: Path) -> Path:
    (tmp_path / "spec.json").write_text(json.dumps({"effects": [{"kind": "LimitVram", "bytes": 400 * MIB}]}))
    return tmp_path


def test_the_first_forward_that_asks_for_too_much_dies_of_torchs_own_error(limited: Path) -> None:
    body = "step()\ndevice.allocate(500 * 2**20)"
    code, _, stderr = ended(start(limited, body))
    assert code == 1 and "OutOfMemoryError" in stderr and "419 MB allowed" in stderr
    assert "_vtune" not in stderr
    (told,) = facts(limited, "vram_limit")
    assert (told["bytes"], told["total"], told["by"]) == (400 * MIB, 1000 * MIB, "limit")
    assert facts(limited, "memory")[-1]["ooms"] == 1


def test_a_model_that_is_moved_to_the_device_is_enough_to_hold_it(limited: Path) -> None:
    """No batch and no backward before it asks for more."""
    code, stdout, stderr = ended(start(limited, "model.to('cpu')\nprint(device.fraction)"))
    assert (code, stdout) == (0, "0.4"), stderr


def test_a_device_that_the_training_has_not_opened_stays_closed(limited: Path) -> None:
    body = "device.stats.update(allocated=0, allocated_peak=0, reserved=0, reserved_peak=0)\ndevice.is_open = False\n"
    code, stdout, stderr = ended(start(limited, f"{body}step()\nprint(device.is_open, device.fraction)"))
    assert (code, stdout) == (0, "False 1.0"), stderr
    assert facts(limited, "vram_limit") == []


def test_without_a_limit_nothing_of_torch_is_wrapped(limited: Path) -> None:
    (limited / "spec.json").write_text(json.dumps({"effects": []}))
    body = "step()\nprint(device.fraction, torch.nn.Module.to.__code__.co_filename.startswith('<frozen'))"
    assert ended(start(limited, body))[1] == "1.0 False"


def opened_after(folder: Path, used_bytes: int | None) -> None:
    """The parent's first look at the device, before the training was started."""
    gpus = [] if used_bytes is None else [{"uuid": UUID, "used_bytes": used_bytes}]
    (folder / "telemetry.jsonl").write_text(json.dumps({"t_s": 0.0, "gpus": gpus}) + "\n")


@pytest.mark.parametrize(
    ("used_before", "fraction"),
    # The emulated context takes 300 MiB; what neighbours held before is theirs; what is read as negative is not known.
    [(0, 0.1), (250 * MIB, 0.35), (None, 0.4), (310 * MIB, 0.4)],
)
def test_the_context_is_under_the_limit_too(limited: Path, used_before: int | None, fraction: float) -> None:
    opened_after(limited, used_before)
    code, stdout, stderr = ended(start(limited, "step()\nprint(round(device.fraction, 6))"))
    assert (code, stdout) == (0, str(fraction)), stderr
    (told,) = facts(limited, "vram_limit")
    assert told["bytes"] == pytest.approx(fraction * 1000 * MIB, abs=1)
    assert told["context"] == round((0.4 - fraction) * 1000) * MIB


def test_a_cache_that_reaches_the_limit_is_emptied_and_the_training_goes_on(limited: Path) -> None:
    """Its context and all that it reserved stay within what the watch from outside would end it for."""
    opened_after(limited, 0)
    body = """
step()
most = 0
for _ in range(8):
    device.allocate(40 * 2**20); device.free(40 * 2**20); device.splinter(20 * 2**20)
    most = max(most, device.context_bytes + device.stats["reserved"])
print(most <= 400 * 2**20, device.stats["retries"] > 0)
"""
    limit = {"kind": "LimitVram", "bytes": 400 * MIB}
    (limited / "spec.json").write_text(json.dumps({"effects": [limit]}))
    code, stdout, stderr = ended(start(limited, body))
    assert (code, stdout) == (0, "True True"), stderr


def test_a_context_that_cannot_be_one_is_somebody_elses_memory(limited: Path) -> None:
    opened_after(limited, 0)
    before = "torch.emulated.mem_get_info = lambda *_: (0, 64 * 2**30)"
    assert ended(start(limited, "step()\nprint(device.fraction)", before=before))[1] == "0.4"


def test_each_of_several_ranks_has_a_context_of_its_own(limited: Path) -> None:
    """The second takes the first one's for its own: what else is on the device by then is the first one's too."""
    opened_after(limited, 200 * MIB)
    first = "step()\n(folder / 'held').touch()\nwhile not (folder / 'seen').exists(): time.sleep(0.02)"
    holder = start(limited, first, number=0)
    second = "while not (folder / 'held').exists(): time.sleep(0.02)\nstep()\nprint(round(device.fraction, 6))"
    try:
        code, stdout, stderr = ended(start(limited, second, number=1))
    finally:
        (limited / "seen").touch()
        ended(holder)
    # Of 400 MiB for two, 100 MiB of context each.
    assert (code, stdout) == (0, "0.1"), stderr


def test_ranks_on_one_device_share_the_limit(limited: Path) -> None:
    wait = """
deadline = time.monotonic() + 40
step()
while len(list(folder.glob("steps-*.jsonl"))) < ranks and time.monotonic() < deadline: time.sleep(0.02)
while abs(device.fraction - 0.2) > 1e-6 and time.monotonic() < deadline: step(); time.sleep(0.02)
(folder / f"shared-{number}").touch()
while len(list(folder.glob("shared-*"))) < ranks and time.monotonic() < deadline: time.sleep(0.02)
print(round(device.fraction, 6))
"""
    ranks = [start(limited, wait, number=number, ranks=2) for number in range(2)]
    assert [ended(rank)[:2] for rank in ranks] == [(0, "0.2"), (0, "0.2")]
    assert facts(limited, "vram_limit")[-1]["sharing"] == 2
    assert facts(limited, "problem") == []


def test_ranks_that_outnumber_the_devices_share_them_before_they_have_met(limited: Path) -> None:
    code, stdout, stderr = ended(start(limited, "step()\nprint(device.fraction)", LOCAL_WORLD_SIZE="4"))
    assert (code, stdout) == (0, "0.1"), stderr


def test_the_scripts_own_limit_is_kept_where_it_is_the_smaller_one_at_any_time(limited: Path) -> None:
    body = """
step()
ask, tell = torch.emulated.get_per_process_memory_fraction, torch.emulated.set_per_process_memory_fraction
said = [(device.fraction, ask())]
tell(0.25); said.append((device.fraction, ask()))
tell(0.9); said.append((device.fraction, ask()))
print(said)
"""
    code, stdout, stderr = ended(start(limited, body))
    assert code == 0, stderr
    # What holds, and what the script is told.
    assert stdout == "[(0.4, 1.0), (0.25, 0.25), (0.4, 0.9)]"
    assert [fact["by"] for fact in facts(limited, "vram_limit")] == ["limit", "script", "limit"]


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ("del torch.emulated.set_per_process_memory_fraction", "has no set_per_process_memory_fraction"),
        ("def refuses(*_): raise RuntimeError('not supported')\n"
         "torch.emulated.set_per_process_memory_fraction = refuses", "not supported"),
        ("del torch.emulated.memory_stats", "does not tell what its allocator holds"),
    ],
)  # fmt: skip
def test_an_allocator_that_cannot_be_held_is_told_once_and_the_training_goes_on(
    limited: Path, change: str, because: str
) -> None:
    code, stdout, stderr = ended(start(limited, "for _ in range(5): step()\nprint('done')", before=change))
    assert (code, stdout) == (0, "done"), stderr
    told = [fact for fact in facts(limited, "unknown") if "limit" in fact["what"]]
    assert len(told) == 1 and because in told[0]["because"]


def test_a_forked_childs_device_is_held_by_the_child(limited: Path) -> None:
    body = """
import os
device.stats.update(allocated=0, allocated_peak=0, reserved=0, reserved_peak=0)
child = os.fork()
if child == 0:
    device.allocate(10 * 2**20)
    step()
    print(device.fraction, flush=True)
    os._exit(0)
os.waitpid(child, 0)
step()
print(device.fraction)
"""
    assert ended(start(limited, body))[1].split() == ["0.4", "1.0"]
