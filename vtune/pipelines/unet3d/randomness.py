"""Where this process's random numbers come from. The samples need none of it: they are drawn from their numbers."""

import random
from typing import Any

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def random_state(device: torch.device) -> dict[str, Any]:
    algorithm, key, position, has_gauss, gauss = np.random.get_state(legacy=True)
    return {
        "torch": torch.get_rng_state(),
        "device": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "python": random.getstate(),
        # A list, since an array would need code of numpy's to be read again.
        "numpy": [str(algorithm), [int(word) for word in key], int(position), int(has_gauss), float(gauss)],
    }


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    torch.set_rng_state(state["torch"])
    if device.type == "cuda" and state["device"] is not None:
        torch.cuda.set_rng_state(state["device"], device)
    random.setstate(state["python"])
    algorithm, key, *rest = state["numpy"]
    np.random.set_state((algorithm, np.array(key, dtype=np.uint32), *rest))
