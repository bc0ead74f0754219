"""Every call of a torch module, told to whoever listens, while somebody does: a few steps of a training.

A method of torch.nn.Module is exchanged, and torch's global hooks are not used: those put another frame under the
user's forward, so that a warning which points up the stack would name another line and be printed once more.
Trainings exchange `Module.__call__` themselves; what stands below it and is called by it hardly anybody does. Where
somebody does, we leave it to them for good.
"""

from __future__ import annotations

import functools
import inspect
from types import ModuleType
from typing import Any, Protocol

from _vtune_hooks import recorder, vram_limit
from _vtune_hooks.frames import leave_out_of_traceback, unseen


class Listener(Protocol):
    def entering(self, module: Any, given: tuple[Any, ...]) -> bool:
        """True for a module whose end shall be told. `given`: its arguments, those by name last."""
        ...

    def left(self) -> None: ...

    def failed(self) -> None: ...


class Calls:
    """The method of one class, which is taken hold of before any code of the training runs, and never again."""

    def __init__(self, owner: Any) -> None:
        own = vars(owner)
        # Before torch 2.1 nothing stood between the two.
        self.name = "_call_impl" if own.get("__call__") is own.get("_wrapped_call_impl") else "__call__"
        self.original = own.get(self.name)
        self.owner = owner
        self.listener: Listener | None = None
        # Somebody else exchanges it: ours may lie beneath theirs, or be put back by them at any time.
        self.is_lost = not inspect.isfunction(self.original)
        self._is_watching = False
        self._ours = None if self.is_lost else _calling(self, self.original)

    def watch(self, listener: Listener) -> bool:
        """False where the method is not ours to exchange."""
        self._look()
        if self.is_lost:
            return False
        self.listener = listener
        if not self._is_watching:
            self._is_watching = True
            setattr(self.owner, self.name, self._ours)
        return True

    def leave_alone(self) -> None:
        self.listener = None
        self._look()
        if self._is_watching:
            self._is_watching = False
            self._put_right()

    def called_unasked(self) -> None:
        """Ours lies beneath somebody's, or they have put back what they had found."""
        self.is_lost = True
        self._put_right()

    def _put_right(self) -> None:
        if self.stands_here():
            setattr(self.owner, self.name, self.original)

    def stands_here(self) -> bool:
        return vars(self.owner).get(self.name) is self._ours

    def not_known_to(self, module: ModuleType | None) -> None:
        """One that took hold of the method while it was ours, to recognize it later: now it holds the original."""
        for name, value in list(vars(module).items()) if module is not None else ():
            if value is self._ours:
                setattr(module, name, self.original)

    def _look(self) -> None:
        expected = self._ours if self._is_watching else self.original
        if vars(self.owner).get(self.name) is not expected:
            self.is_lost = True
            self.listener = None
            self._is_watching = False
            self._put_right()


_of_modules: list[Calls] = []


def placed(module: ModuleType) -> None:
    """After torch.nn.modules.module has run."""
    owner = getattr(module, "Module", None)
    if _of_modules or not isinstance(owner, type):
        return
    _of_modules.append(Calls(owner))
    vram_limit.watch_moves(owner)


def of_modules() -> Calls | None:
    return _of_modules[0] if _of_modules else None


def _calling(calls: Calls, original: Any) -> Any:
    @unseen
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        listener = _entering(calls, self, (*args, kwargs))
        try:
            # Never what stands in the class now: that may be somebody's who calls us.
            result = original(self, *args, **kwargs)
        except BaseException as error:
            leave_out_of_traceback(error)
            if listener is not None:
                _tell(listener.failed)
            raise
        if listener is not None:
            _tell(listener.left)
        return result

    return call


def _entering(calls: Calls, module: Any, given: tuple[Any, ...]) -> Listener | None:
    # Other threads have no part in a step, and must not end a look at one.
    if not recorder.is_main_thread():
        return None
    listener = calls.listener
    try:
        if listener is None:
            calls.called_unasked()
        elif calls.stands_here():
            return listener if listener.entering(module, given) else None
        else:
            listener.failed()
    except Exception as error:
        recorder.problem(f"a module that is called: {error!r}")
        if listener is not None:
            _tell(listener.failed)
    return None


def _tell(what: Any) -> None:
    try:
        what()
    except Exception as error:
        recorder.problem(f"a module that was called: {error!r}")
