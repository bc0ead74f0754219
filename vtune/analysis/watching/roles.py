"""Who is who in a training's tree, by name, command line and parent."""

from __future__ import annotations

from collections.abc import Mapping

from vtune.domain.watching import Role, Seen

# What torch calls the main thread of a loader worker since 2.6.
WORKER_NAME = "pt_data_worker"
_NAMES_ITS_WORKERS = (2, 6)
_FORKSERVER = "multiprocessing.forkserver"
_COMPILES = "compile_worker"
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.semaphore_tracker", "torch_shm_manager", _COMPILES)
_SPAWNED = "--multiprocessing-fork"
# execnet's worker (a pytest-xdist process): it is sent by its stdin what to run, and no training is started so.
_SENT = "exec(eval(sys.stdin.readline()))"


def roles_of(tree: Mapping[int, Seen]) -> dict[int, Role]:
    helpers = {pid for pid in tree if _is_helper(pid, tree)}
    workers = {pid for pid in tree if pid not in helpers and tree[pid].name.startswith(WORKER_NAME)}
    for pid in tree.keys() - helpers - workers:
        if _looks_like_a_worker(pid, tree, helpers):
            workers.add(pid)
    # A process that has workers of its own is a rank, however it was started.
    workers -= {owner for pid in workers if (owner := _owner(pid, tree, helpers)) in workers and _is_rank(tree[owner])}
    owners = {_owner(pid, tree, helpers) for pid in workers}
    trainers = {
        pid
        for pid in tree.keys() - helpers - workers
        if pid in owners
        or (tree[pid].holds_torch and not _is_only_forked(pid, tree) and not _is_sent_its_work(tree[pid]))
    }
    above = {ancestor for pid in trainers for ancestor in _ancestors(pid, tree)}
    roles: dict[int, Role] = {}
    for pid in tree:
        if pid in workers:
            roles[pid] = "worker"
        elif pid in trainers:
            roles[pid] = "launcher" if pid in above and pid not in owners else "training"
        else:
            roles[pid] = "other"
    return roles


def _is_helper(pid: int, tree: Mapping[int, Seen]) -> bool:
    text = " ".join(tree[pid].command)
    if any(word in text for word in _HELPERS):
        return True
    if any(_COMPILES in " ".join(tree[one].command) for one in _ancestors(pid, tree)):
        return True
    # What a fork server forks carries its command line: the one whose parent is none is the server itself.
    parent = tree.get(tree[pid].ppid)
    return _FORKSERVER in text and (parent is None or parent.command != tree[pid].command)


def _looks_like_a_worker(pid: int, tree: Mapping[int, Seen], helpers: set[int]) -> bool:
    """Where torch does not name them: what the training forked or spawned, and what is on no GPU."""
    one, owner = tree[pid], tree.get(_owner(pid, tree, helpers))
    if owner is None or not owner.holds_torch or one.on_gpu or one.holds_torch is False:
        return False
    if owner.torch is None or owner.torch >= _NAMES_ITS_WORKERS:
        return False
    text = " ".join(one.command)
    return one.command == owner.command or _SPAWNED in text or _FORKSERVER in text


def _is_rank(seen: Seen) -> bool:
    return not seen.name.startswith(WORKER_NAME)


def _is_only_forked(pid: int, tree: Mapping[int, Seen]) -> bool:
    """A forked process (a manager, an uploader) has its parent's torch in its maps without using it."""
    parent = tree.get(tree[pid].ppid)
    return (
        parent is not None
        and bool(parent.holds_torch)
        and parent.command == tree[pid].command
        and not tree[pid].on_gpu
        and _SPAWNED not in tree[pid].command
    )


def _is_sent_its_work(seen: Seen) -> bool:
    return any(_SENT in word for word in seen.command)


def _owner(pid: int, tree: Mapping[int, Seen], helpers: set[int]) -> int:
    """The parent; of what a fork server forked, who started the server."""
    parent = tree[pid].ppid
    return tree[parent].ppid if parent in helpers and parent in tree else parent


def _ancestors(pid: int, tree: Mapping[int, Seen]) -> list[int]:
    found: list[int] = []
    above = tree[pid].ppid
    while above in tree and above not in found:
        found.append(above)
        above = tree[above].ppid
    return found
