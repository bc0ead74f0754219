"""Applying what the spec asks of a loader, where it can be done without breaking the training; else saying why not."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from _vtune_hooks import recorder

WORKER_KNOBS = ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "in_order")
# What torch refuses, or ignores, without workers; and the value that means "not set".
ONLY_WITH_WORKERS = {
    "prefetch_factor": None,
    "persistent_workers": False,
    "multiprocessing_context": None,
    "timeout": 0,
    "in_order": True,
}

_wanted: dict[str, dict[str, Any]] | None = None


def wanted_of(key: str) -> dict[str, Any]:
    """Option -> value asked of the loader with this key."""
    global _wanted
    if _wanted is None:
        _wanted = _read_spec()
    return _wanted.get(key, {})


def _read_spec() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    try:
        with open(os.path.join(recorder.here.folder, "spec.json"), encoding="utf-8") as file:
            effects = json.load(file).get("effects", ())
        for effect in effects:
            if effect.get("kind") == "SetDataLoaderOption":
                found.setdefault(effect["loader"], {})[effect["option"]] = effect["value"]
    except FileNotFoundError:
        pass
    except Exception as error:
        recorder.problem(f"spec.json cannot be read, nothing is turned: {error!r}")
    return found


def turn(wanted: dict[str, Any], arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Changes the constructor's `arguments` in place. What was turned, and what was left alone with the reason."""
    turned: dict[str, Any] = {}
    left_alone: dict[str, str] = {}
    dataset = arguments.get("dataset")
    inner = _loader_inside(dataset)
    if inner is not None:
        return turned, dict.fromkeys(wanted, f"its data set {type(dataset).__name__} owns a loader ({inner})")
    if "batch_size" in wanted:
        _turn_batch_size(wanted["batch_size"], arguments, turned, left_alone)
    if "num_workers" in wanted:
        arguments["num_workers"] = turned["num_workers"] = wanted["num_workers"]
    without = not arguments.get("num_workers")
    for option in ("prefetch_factor", "persistent_workers", "pin_memory", "in_order"):
        if option not in wanted:
            continue
        if without and option in ONLY_WITH_WORKERS and wanted[option] != ONLY_WITH_WORKERS[option]:
            left_alone[option] = "the loader has no workers"
        elif option not in arguments:
            left_alone[option] = "this torch has no such option"
        else:
            arguments[option] = turned[option] = wanted[option]
    if without and "num_workers" in turned:
        arguments.update({name: value for name, value in ONLY_WITH_WORKERS.items() if name in arguments})
    return turned, left_alone


def assert_again(loader: Any, turned: dict[str, Any]) -> None:
    """Just before the workers start: the script may have set its own values on the loader since it was made."""
    for option in WORKER_KNOBS:
        if option in turned and getattr(loader, option, None) != turned[option]:
            # Not by setattr: torch refuses some of these names once a loader is initialized.
            loader.__dict__[option] = turned[option]
    if "num_workers" not in turned:
        return
    if turned["num_workers"] == 0:
        if loader.prefetch_factor is not None or loader.persistent_workers or loader.timeout:
            loader.__dict__.update(prefetch_factor=None, persistent_workers=False, timeout=0)
    elif loader.prefetch_factor is None:
        loader.__dict__["prefetch_factor"] = 2  # what torch itself takes


def _turn_batch_size(value: Any, arguments: dict[str, Any], turned: dict[str, Any], left_alone: dict[str, str]) -> None:
    sampler = arguments.get("batch_sampler")
    if sampler is not None:
        plain = getattr(sys.modules.get("torch.utils.data.sampler"), "BatchSampler", None)
        if plain is None or type(sampler) is not plain:
            left_alone["batch_size"] = f"batches are made by its own sampler {type(sampler).__name__}"
            return
        arguments["batch_sampler"] = plain(sampler.sampler, value, sampler.drop_last)
    elif arguments.get("batch_size") is None:
        left_alone["batch_size"] = "batch_size=None: its data set makes the batches"
        return
    else:
        arguments["batch_size"] = value
    turned["batch_size"] = value


def _loader_inside(dataset: object) -> str | None:
    loader = getattr(sys.modules.get("torch.utils.data.dataloader"), "DataLoader", None)
    attributes = getattr(dataset, "__dict__", None)
    if loader is None or not isinstance(attributes, dict):
        return None
    return next((name for name, value in list(attributes.items()) if isinstance(value, loader)), None)
