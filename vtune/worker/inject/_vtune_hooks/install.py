"""At the start of a Python: say that it started, and wait for the modules worth watching to be imported."""

from __future__ import annotations

import os
import sys
import time

# By hand, too: every Python under a trial would pay for importing typing.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any

# Imported module -> our module whose `placed(module)` hooks it. Ours are imported only then: most Pythons under a trial
# never import torch and should not pay for it.
TARGETS = {
    "torch": "forks",
    "torchvision": "forks",
    "monai": "forks",
    "torch._dynamo": "forks",
    "torch.nn.modules.module": "module_calls",
    "torch.optim.optimizer": "steps",
    "torch.autograd": "backwards",
    "torch.serialization": "saves",
    "torch.utils.data.dataloader": "loaders",
    "torch.utils.data._utils.worker": "loader_worker",
    "torch._dynamo.eval_frame": "compiling",
    "torch.amp.grad_scaler": "scaler",
    "torch.cuda.memory": "memory",
    "torch.xpu.memory": "memory",
    "torch.accelerator.memory": "memory",
    "torchdata.stateful_dataloader.worker": "loader_worker",
    "torchdata.stateful_dataloader.stateful_dataloader": "stateful",
    "safetensors": "other_writers",
}


# What a full run's list of Pythons may grow to, in bytes.
MOST_OF_A_LAUNCH = 2**18


class Finder:
    """First on the meta path. For a target it lets the real finders find, and acts right after the module has run."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        ours = TARGETS.get(name)
        if ours is None:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                _act_after(spec, ours)
                return spec
        return None


def _act_after(spec: Any, ours: str) -> None:
    """Set on the loader's instance, so that the module's `__loader__` keeps its type."""
    try:
        from _vtune_hooks import forks, frames

        loader = spec.loader
        run = loader.exec_module

        @frames.unseen
        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)
            forks.import_begins()
            try:
                run(module)
            except BaseException as error:
                frames.leave_out_of_traceback(error)
                raise
            finally:
                forks.import_ends()
            _place(module, ours)

        loader.exec_module = exec_module
    except Exception as error:
        _problem(f"cannot watch {spec.name}: {error!r}")


def _place(module: ModuleType, ours: str) -> None:
    try:
        import importlib

        from _vtune_hooks import alive, recorder

        if ours in ("steps", "loaders"):
            if recorder.here.light and _is_started_by_multiprocessing():
                # Workers of a loader, mostly, made anew for each of many epochs: who has nothing to tell says nothing.
                recorder.after_the_hello[:] = [alive.begin]
            else:
                recorder.say_hello()
                alive.begin()
        importlib.import_module("_vtune_hooks." + ours).placed(module)
    except Exception as error:
        _problem(f"cannot hook {module.__name__}: {error!r}")


def _is_started_by_multiprocessing() -> bool:
    return any(word == "--multiprocessing-fork" or "multiprocessing.forkserver" in word for word in sys.orig_argv)


def _problem(text: str) -> None:
    try:
        from _vtune_hooks import recorder

        recorder.problem(text)
    except Exception:
        pass


def install(folder: str) -> None:
    sys.meta_path.insert(0, Finder())
    _say_that_python_started(folder)
    # Asked first: full runs need none of it.
    if os.path.exists(os.path.join(folder, "protection.json")):
        from _vtune_hooks import file_events

        file_events.begin(folder)


def _say_that_python_started(folder: str) -> None:
    # By hand: importing json would be the dearest part of the start.
    argv = ", ".join(_quoted(part) for part in sys.orig_argv)
    line = (
        f'{{"t": {time.monotonic()!r}, "pid": {os.getpid()}, "ppid": {os.getppid()}, "argv": [{argv}], '
        f'"executable": {_quoted(sys.executable or "")}, "python": "{sys.version.split()[0]}"}}\n'
    )
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(os.path.join(folder, "pythons.jsonl"), flags, 0o666)
    try:
        # The workers of a full run may be started anew for each of a thousand epochs.
        if not os.environ.get("VTUNE_LAUNCH") or os.fstat(descriptor).st_size < MOST_OF_A_LAUNCH:
            os.write(descriptor, line.encode("ascii"))
    finally:
        os.close(descriptor)


def _quoted(text: str) -> str:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    import json

    return json.dumps(text)
