"""Takes a known amount of device memory and gives it back; each line on stdin is a stage, the answer tells it.

open    the device is in use, nothing of ours is on it but its context
held    MIB of tensors
freed   given back to the driver
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

MIB = 1024
BLOCK_MIB = 64


def main() -> None:
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if accelerator is None:
        sys.exit("no device")
    # The last one: whoever takes the device by a wrong number takes the first.
    device = torch.device(accelerator.type, torch.accelerator.device_count() - 1)
    small = torch.ones(1, device=device)
    properties = torch.get_device_module(device).get_device_properties(device)
    told: dict[str, Any] = {"uuid": str(getattr(properties, "uuid", "")) or None, "known_bytes": MIB * 2**20}
    tell(told | {"stage": "open"})
    sys.stdin.readline()
    held = [torch.ones(BLOCK_MIB * 2**18, device=device) for _ in range(MIB // BLOCK_MIB)]
    torch.get_device_module(device).synchronize(device)
    tell(told | {"stage": "held", "reserved_bytes": torch.get_device_module(device).memory_reserved(device)})
    sys.stdin.readline()
    held.clear()
    torch.get_device_module(device).empty_cache()
    tell(told | {"stage": "freed", "reserved_bytes": torch.get_device_module(device).memory_reserved(device)})
    sys.stdin.readline()
    del small


def tell(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
