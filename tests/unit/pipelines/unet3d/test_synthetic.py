from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from vtune.pipelines.unet3d.data.synthetic import AIR, PAPYRUS, VirtualScroll
from vtune.pipelines.unet3d.data.volumes import Block, Triple


def scroll(*, record: int = 0, seed: int = 0, size: Triple = (128, 192, 192), chunk: Triple = (32, 64, 64)):
    return VirtualScroll(seed=seed, record=record, size=size, chunk=chunk)


@pytest.fixture(scope="module")
def block() -> Block:
    return scroll().read((0, 0, 0), (64, 192, 192))


def test_a_box_is_the_same_bytes_in_whatever_order_it_is_read(block: Block) -> None:
    again = scroll()
    again.read((50, 100, 90), (20, 20, 20))
    part = again.read((10, 60, 50), (40, 30, 90))
    assert np.array_equal(part.image, block.image[10:50, 60:90, 50:140])
    assert np.array_equal(part.label, block.label[10:50, 60:90, 50:140])


def test_chunks_are_an_access_cost_and_leave_no_trace_in_the_content(block: Block) -> None:
    other = scroll(chunk=(48, 40, 96)).read((0, 0, 0), (64, 192, 192))
    # Vectorized arithmetic may round the last bit otherwise at the end of a row: a voxel on a threshold may differ.
    assert (other.image != block.image).mean() < 1e-4
    assert (other.label != block.label).mean() < 1e-4


def test_records_and_seeds_are_different_scrolls(block: Block) -> None:
    for other in (scroll(record=1), scroll(seed=1)):
        image = other.read((0, 0, 0), (32, 64, 64)).image
        assert (image != block.image[:32, :64, :64]).mean() > 0.5


def test_both_classes_are_there_in_every_scroll() -> None:
    for record in range(8):
        share = scroll(record=record).read((32, 64, 64), (32, 64, 64)).label.mean()
        assert 0.02 < share < 0.3, record


def test_the_surface_is_a_border_between_papyrus_and_air(block: Block) -> None:
    """Label and image agree: to one side of a surface it is bright, to the other dark."""
    smooth = ndimage.gaussian_filter(block.image.astype(np.float32), 1.5)
    surface = block.label.astype(bool)
    steepness = ndimage.gaussian_gradient_magnitude(block.image.astype(np.float32), 1.5)
    assert steepness[surface].mean() > 2 * steepness[~surface].mean()
    assert abs(np.median(smooth[surface]) - (AIR + PAPYRUS) / 2) < 15
    near = ndimage.binary_dilation(surface, iterations=3)
    assert np.percentile(smooth[near], 5) < AIR + 20
    assert np.percentile(smooth[near], 95) > PAPYRUS - 30


def test_the_surface_is_thin_sheets_and_not_lumps(block: Block) -> None:
    thickness = ndimage.distance_transform_edt(block.label)
    assert thickness.max() < 6
    pieces, count = ndimage.label(block.label, structure=np.ones((3, 3, 3)))
    largest = np.bincount(pieces.ravel())[1:].max()
    assert count > 2
    extent = ndimage.find_objects(pieces)[int(np.argmax(np.bincount(pieces.ravel())[1:]))]
    assert max(part.stop - part.start for part in extent[1:]) > 90, "a sheet goes on for many windings' spacing"
    assert largest > 5000


def test_sheets_are_curved(block: Block) -> None:
    """The normals of a flat stack all point one way; a scroll's turn with the place."""
    smooth = ndimage.gaussian_filter(block.image.astype(np.float32), 2)
    gradient = np.stack([ndimage.sobel(smooth, axis=axis) for axis in (1, 2)])
    surface = block.label.astype(bool)
    # Doubled angles, since up and down a sheet are the same direction.
    angles = 2 * np.arctan2(gradient[0][surface], gradient[1][surface])
    agreement = np.hypot(np.cos(angles).mean(), np.sin(angles).mean())
    assert agreement < 0.9


def test_sheets_have_gaps() -> None:
    """Along a sheet the label stops somewhere: there are holes of dark between two windings' faces."""
    label = scroll(record=2).read((0, 0, 0), (16, 192, 192)).label
    distance = ndimage.distance_transform_edt(label == 0)
    assert distance.max() > 14, "more than half the widest pitch away from any surface: only in a hole"


def test_both_faces_of_a_sheet_are_the_outer_one_and_as_much_again(block: Block) -> None:
    size, corner = (64, 192, 192), (0, 0, 0)
    both = VirtualScroll(seed=0, record=0, size=(128, 192, 192), chunk=(32, 64, 64), faces="both").read(corner, size)
    assert np.array_equal(both.image, block.image)
    assert both.label[block.label == 1].all()
    assert 1.8 < both.label.sum() / block.label.sum() < 2.2


def test_crossed_layers_tell_the_outer_half_of_a_sheet_from_the_inner_one(block: Block) -> None:
    size, corner = (64, 192, 192), (0, 0, 0)
    volume = VirtualScroll(seed=0, record=0, size=(128, 192, 192), chunk=(32, 64, 64), layers="crossed")
    crossed = volume.read(corner, size)
    assert np.array_equal(crossed.label, block.label), "the sheets are where they were"
    changed = crossed.image != block.image
    darker = crossed.image[changed].mean() - block.image[changed].mean()
    assert darker < -15
    # The labelled face is the outer one: what changed lies behind it.
    assert not (changed & (block.label == 1)).sum() > 0.1 * (block.label == 1).sum()
    assert 0.2 < changed.sum() / (block.image > 100).sum() < 0.8


def test_reading_outside_of_a_volume_is_refused() -> None:
    with pytest.raises(ValueError, match="not within"):
        scroll().read((0, 0, 180), (8, 8, 13))
    with pytest.raises(ValueError, match="not within"):
        scroll().read((-1, 0, 0), (8, 8, 8))


def test_a_volume_larger_than_any_disk_can_be_read_anywhere() -> None:
    huge = scroll(size=(100_000, 100_000, 100_000), chunk=(16, 16, 16))
    block = huge.read((99_980, 60_000, 12_345), (20, 20, 20))
    assert block.image.std() > 5
