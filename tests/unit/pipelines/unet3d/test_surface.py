from __future__ import annotations

import fcntl
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import ndimage
from scipy.spatial.distance import cdist
from torch import Tensor

from vtune.pipelines.unet3d.distance import DISTANCE_CAP, DistanceInWorker, distance_to
from vtune.pipelines.unet3d.losses import surface
from vtune.pipelines.unet3d.losses.surface import surface_error


def logits_of(*probabilities: float) -> Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).logit().reshape(1, 1, 1, 1, -1)


def labels(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).reshape(1, 1, 1, 1, -1)


def random_case() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn((2, 1, 8, 9, 10), generator=generator, dtype=torch.float64)
    return logits, (torch.rand(logits.shape, generator=generator) < 0.1).double()


@pytest.mark.parametrize("shape", [(6, 7, 8), (1, 9, 11), (5, 1, 1), (1, 14, 3, 2)])
def test_the_distance_is_the_one_to_the_nearest_voxel_of_the_mask(shape: tuple[int, ...]) -> None:
    mask = np.random.default_rng(0).random(shape) < 0.02
    mask.flat[0] = True
    everywhere = np.argwhere(np.ones_like(mask))
    by_hand = cdist(everywhere, np.argwhere(mask)).min(axis=1).reshape(mask.shape)
    found = distance_to(mask)
    assert found.dtype == np.float32
    assert np.allclose(found, np.minimum(by_hand, DISTANCE_CAP), atol=1e-6)
    assert np.allclose(distance_to(mask, cap=2.5), np.minimum(by_hand, 2.5), atol=1e-6)


@pytest.mark.parametrize("cap", [1.0, 4.5, DISTANCE_CAP, 11.0, 12.0, 40.0])
def test_the_distance_is_scipys_to_the_bit_up_to_any_cap(cap: float) -> None:
    mask = np.random.default_rng(1).random((40, 41, 42)) < 0.0003
    expected = ndimage.distance_transform_edt(~mask)
    assert expected.max() > 20
    assert np.array_equal(distance_to(mask, cap), np.minimum(expected, cap).astype(np.float32))


def test_far_is_capped_and_nothing_is_as_far_as_can_be() -> None:
    mask = np.zeros((1, 1, 40), dtype=bool)
    assert (distance_to(mask) == DISTANCE_CAP).all()
    mask[..., 0] = True
    assert distance_to(mask)[0, 0, 5] == 5
    assert distance_to(mask)[0, 0, 30] == DISTANCE_CAP


def test_the_mask_may_be_a_view_and_stays_as_it_was() -> None:
    whole = np.random.default_rng(0).random((12, 14, 16)) < 0.05
    view = whole[::2, 1:12, ::-1]
    before = view.copy()
    assert np.array_equal(distance_to(view), distance_to(np.ascontiguousarray(view)))
    assert np.array_equal(view, before)


@pytest.mark.slow
def test_a_distance_takes_some_ten_bytes_a_voxel() -> None:
    measuring = """if True:
        import resource
        import numpy as np
        from vtune.pipelines.unet3d.distance import distance_to
        mask = np.random.default_rng(0).random((256, 256, 256), dtype=np.float32) < 0.01
        distance_to(mask[:8])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        distance_to(mask)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / mask.size)
    """
    ran = subprocess.run([sys.executable, "-c", measuring], capture_output=True, text=True, check=True)
    # The peak before was of the random numbers, four bytes a voxel, which are gone: what it took is up to that more.
    assert float(ran.stdout) < 8


def test_surface_distance_by_hand() -> None:
    # True surface at 0, predicted one at 2: distances to them 0 1 2 3 and 2 1 0 1.
    probabilities = np.array([0.1, 0.2, 0.9, 0.3])
    far = np.array([0 + 2, 1 + 1, 2 + 0, 3 + 1]) / DISTANCE_CAP
    by_hand = ((probabilities - np.array([1, 0, 0, 0])) ** 2 * far).mean()
    value = surface_error(logits_of(*probabilities), labels(1, 0, 0, 0))
    assert value.item() == pytest.approx(by_hand, rel=1e-6)


def test_a_surface_that_nobody_knows_of_is_not_near_to_anything() -> None:
    # As above; what follows is predicted and labelled where nobody knows.
    known = surface_error(logits_of(0.1, 0.2, 0.9, 0.3), labels(1, 0, 0, 0))
    masked = surface_error(logits_of(0.1, 0.2, 0.9, 0.3, 0.99), labels(1, 0, 0, 0, 1), labels(1, 1, 1, 1, 0))
    assert masked.item() == pytest.approx(known.item(), rel=1e-6)


@pytest.mark.slow
def test_outside_of_both_surfaces_it_is_monais_hausdorff_loss() -> None:
    from monai.losses import HausdorffDTLoss

    # MONAI's distances are also those of the inside to the outside. Where the inside is wholly right they count 0.
    logits, label = random_case()
    logits = torch.where(label > 0, 100.0, -logits.abs() - 0.1)
    theirs = HausdorffDTLoss(alpha=1.0, include_background=True, sigmoid=True)(logits, label)
    assert surface_error(logits, label).item() == pytest.approx(theirs.item() / DISTANCE_CAP, rel=1e-5)


def test_a_surface_further_off_costs_more() -> None:
    label = torch.zeros(1, 1, 1, 1, 12)
    label[..., 1] = 1
    costs = []
    for place in (1, 2, 4, 8):
        predicted = torch.full_like(label, -20.0)
        predicted[..., place] = 20.0
        costs.append(surface_error(predicted, label).item())
    assert costs == sorted(costs)
    assert costs[0] < costs[1]


def test_surface_distances_of_several_threads_agree() -> None:
    logits, label = random_case()
    expected = surface_error(logits, label).item()
    found: list[float] = []
    threads = [threading.Thread(target=lambda: found.append(surface_error(logits, label).item())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert found == [expected] * 4


def test_a_thread_waits_while_another_measures_distances() -> None:
    found: list[Tensor] = []
    with surface._ONE_AT_A_TIME:
        thread = threading.Thread(target=lambda: found.append(surface.surface_error(*random_case())))
        thread.start()
        thread.join(timeout=0.3)
        assert thread.is_alive()
    thread.join(timeout=20)
    assert len(found) == 1


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    path = tmp_path / "a folder" / "distance.lock"
    path.parent.mkdir()
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    yield path, file
    os.close(file)


def always(number: int) -> bool:
    return True


def test_a_worker_waits_for_whoever_has_the_lock(lock: tuple[Path, int]) -> None:
    path, file = lock
    fcntl.flock(file, fcntl.LOCK_EX)
    mask = np.eye(12, dtype=bool)[None]
    found: list[np.ndarray] = []
    # As another process gets it.
    ours = pickle.loads(pickle.dumps(DistanceInWorker(path, always)))
    worker = threading.Thread(target=lambda: found.append(ours(0, mask)))
    worker.start()
    worker.join(timeout=0.3)
    assert worker.is_alive()
    fcntl.flock(file, fcntl.LOCK_UN)
    worker.join(timeout=20)
    assert np.array_equal(found[0], distance_to(mask))


def test_a_sample_that_needs_no_distance_does_not_wait(lock: tuple[Path, int]) -> None:
    path, file = lock
    fcntl.flock(file, fcntl.LOCK_EX)
    assert DistanceInWorker(path, lambda number: number > 3)(3, np.eye(12, dtype=bool)[None]) is None


def test_the_lock_of_a_killed_worker_is_free(lock: tuple[Path, int]) -> None:
    path, _ = lock
    holding = "import fcntl, sys, time; file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_EX); print(flush=True)"
    holding += "; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-S", "-c", holding, path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.kill()
        before = time.monotonic()
        DistanceInWorker(path, always)(0, np.eye(12, dtype=bool)[None])
        assert time.monotonic() - before < 20


def test_the_lock_is_given_back_after_a_failure(lock: tuple[Path, int]) -> None:
    path, file = lock
    with pytest.raises(AttributeError):
        DistanceInWorker(path, always)(0, None)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
