from __future__ import annotations

from vtune.analysis.watching.roles import roles_of
from vtune.domain.watching import Role, Seen

TRAIN = ("python", "train.py")
SPAWNED = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()", "--multiprocessing-fork")
TRACKER = ("python", "-c", "from multiprocessing.resource_tracker import main;main(5)")
SERVER = ("python", "-c", "from multiprocessing.forkserver import main; main(8, 9)")
NEW, OLD = (2, 6), (2, 4)


def _one(
    ppid: int,
    command: tuple[str, ...] = TRAIN,
    *,
    name: str = "python",
    torch: tuple[int, int] | None = NEW,
    on_gpu: bool = False,
) -> Seen:
    return Seen(ppid=ppid, name=name, command=command, holds_torch=torch is not None, torch=torch, on_gpu=on_gpu)


def _worker(ppid: int, command: tuple[str, ...] = TRAIN) -> Seen:
    return _one(ppid, command, name="pt_data_worker")


def _of(role: Role, tree: dict[int, Seen]) -> list[int]:
    return sorted(pid for pid, found in roles_of(tree).items() if found == role)


def test_workers_are_told_by_the_name_that_torch_gives_them_and_helpers_are_none() -> None:
    tree = {1: _one(0), 2: _one(1, TRACKER, torch=None), 3: _worker(1, SPAWNED), 4: _worker(1, SPAWNED)}
    assert _of("worker", tree) == [3, 4] and _of("training", tree) == [1] and _of("other", tree) == [2]


def test_a_fork_server_is_no_worker_and_what_it_forks_is() -> None:
    tree = {1: _one(0), 2: _one(1, SERVER), 3: _worker(2, SERVER), 4: _worker(2, SERVER)}
    assert _of("worker", tree) == [3, 4] and _of("training", tree) == [1] and _of("other", tree) == [2]


def test_with_a_torch_that_does_not_name_them_workers_are_the_trainings_forked_and_spawned_processes() -> None:
    forked = {1: _one(0, torch=OLD), 2: _one(1, torch=OLD), 3: _one(1, TRACKER, torch=None)}
    assert _of("worker", forked) == [2]
    spawned = {1: _one(0, torch=OLD), 2: _one(1, SPAWNED, torch=OLD)}
    assert _of("worker", spawned) == [2]
    served = {1: _one(0, torch=OLD), 2: _one(1, SERVER, torch=OLD), 3: _one(2, SERVER, torch=OLD)}
    assert _of("worker", served) == [3]


def test_what_is_on_a_gpu_is_a_rank_and_no_worker() -> None:
    tree = {1: _one(0, torch=OLD), 2: _one(1, SPAWNED, torch=OLD, on_gpu=True), 3: _one(2, SPAWNED, torch=OLD)}
    assert _of("training", tree) == [2] and _of("worker", tree) == [3] and _of("launcher", tree) == [1]


def test_ranks_of_torchrun_train_and_torchrun_only_launches() -> None:
    ranks = ("python", "-u", "train.py")
    tree = {1: _one(0, ("python", "torchrun", "train.py")), 2: _one(1, ranks), 3: _one(1, ranks), 4: _worker(2, ranks)}
    assert _of("training", tree) == [2, 3] and _of("launcher", tree) == [1] and _of("worker", tree) == [4]


def test_a_spawned_rank_that_has_workers_is_no_worker() -> None:
    tree = {1: _one(0), 2: _one(1, SPAWNED), 3: _worker(2, SPAWNED)}
    assert _of("training", tree) == [2] and _of("launcher", tree) == [1]


def test_what_a_training_forked_for_itself_does_not_train() -> None:
    tree = {1: _one(0), 2: _one(1), 3: _worker(1)}
    assert _of("training", tree) == [1] and _of("other", tree) == [2]
    without_workers = {1: _one(0), 2: _one(1)}
    assert _of("training", without_workers) == [1] and _of("other", without_workers) == [2]


def test_compilers_and_what_they_fork_are_no_workers() -> None:
    compiler = ("python", "torch/_inductor/compile_worker/__main__.py", "--pickler=x")
    tree = {1: _one(0, torch=OLD), 2: _one(1, compiler, torch=OLD), 3: _one(2, compiler, torch=OLD)}
    assert _of("worker", tree) == [] and _of("training", tree) == [1]


def test_a_shell_around_the_training_is_not_the_training() -> None:
    tree = {1: _one(0, ("bash", "run.sh"), torch=None), 2: _one(1)}
    assert _of("training", tree) == [2] and _of("other", tree) == [1]


def test_of_another_users_process_the_workers_name_is_enough() -> None:
    unseen = Seen(ppid=0, name="python", command=TRAIN, holds_torch=None)
    tree = {1: unseen, 2: Seen(ppid=1, name="pt_data_worker", command=TRAIN, holds_torch=None)}
    assert _of("training", tree) == [1] and _of("worker", tree) == [2]


def test_a_process_that_is_sent_its_work_is_a_training_only_where_it_has_loader_workers() -> None:
    sent = ("python", "-u", "-c", "import sys;exec(eval(sys.stdin.readline()))")
    tree = {1: _one(0, sent), 2: _one(0), 3: _one(1)}
    assert _of("training", tree) == [2, 3] and _of("other", tree) == [1]
    assert _of("training", {1: _one(0, sent), 2: _worker(1, sent)}) == [1]
