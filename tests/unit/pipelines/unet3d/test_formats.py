"""Volumes as other programs leave them on disk, and as ours do: each box has to be the array's own."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vtune.pipelines.unet3d.data.stored import list_volumes, open_image, write_image
from vtune.pipelines.unet3d.data.tiff import Headers
from vtune.pipelines.unet3d.data.volumes import DataError, MissingPackage
from vtune.pipelines.unet3d.data.zarr_store import ZarrArray, zarr_written

SIZE = (20, 37, 53)
# Whole, a corner, the opposite corner, one voxel, one plane, one line, and one across most strips, tiles and chunks.
BOXES = [
    ((0, 0, 0), SIZE),
    ((0, 0, 0), (3, 5, 7)),
    ((15, 30, 41), (5, 7, 12)),
    ((19, 36, 52), (1, 1, 1)),
    ((7, 0, 0), (1, 37, 53)),
    ((4, 11, 0), (1, 1, 53)),
    ((2, 13, 17), (17, 19, 33)),
]
Writer = Callable[[Path, np.ndarray], Path]


def volume(dtype: str = "uint16") -> np.ndarray:
    values = np.random.default_rng(0).integers(0, 250, SIZE)
    return (values / 3 if np.dtype(dtype).kind == "f" else values).astype(dtype)


def npy(path: Path, array: np.ndarray) -> Path:
    np.save(path.with_suffix(".npy"), array)
    return path.with_suffix(".npy")


def tiff(**options: Any) -> Writer:
    def write(path: Path, array: np.ndarray) -> Path:
        tifffile = pytest.importorskip("tifffile")
        tifffile.imwrite(path.with_suffix(".tif"), array, photometric="minisblack", **options)
        return path.with_suffix(".tif")

    return write


def tiff_page_by_page(path: Path, array: np.ndarray) -> Path:
    """No word of the volume's shape in it, and the pixels of each page behind its own list of tags."""
    tifffile = pytest.importorskip("tifffile")
    with tifffile.TiffWriter(path.with_suffix(".tiff")) as writer:
        for plane in array:
            writer.write(plane, photometric="minisblack", metadata=None, contiguous=False)
    return path.with_suffix(".tiff")


def slices(**options: Any) -> Writer:
    def write(path: Path, array: np.ndarray) -> Path:
        tifffile = pytest.importorskip("tifffile")
        path.mkdir()
        for z, plane in enumerate(array):
            # Numbers of no fixed width: in the order of the alphabet 10 comes before 2.
            tifffile.imwrite(path / f"slice_{z}.tif", plane, photometric="minisblack", **options)
        return path

    return write


def slices_that_differ(path: Path, array: np.ndarray) -> Path:
    """Each with tags of another length, as from a scanner that writes the time of day or its temperature."""
    tifffile = pytest.importorskip("tifffile")
    path.mkdir()
    for z, plane in enumerate(array):
        tifffile.imwrite(
            path / f"{z:03d}.tif", plane, photometric="minisblack", description="C" + "x" * z, metadata=None
        )
    return path


def slices_with_tags_behind(path: Path, array: np.ndarray) -> Path:
    """As libtiff writes them: the pixels first."""
    path.mkdir()
    for z, plane in enumerate(array):
        (path / f"{z:03d}.tif").write_bytes(tiff_with_tags_behind(plane))
    return path


def tiff_with_tags_behind(plane: np.ndarray) -> bytes:
    pixels = plane.astype("<u2").tobytes()
    pixels += b"\0" * (len(pixels) % 2)
    length, width = plane.shape
    tags = [(256, 4, width), (257, 4, length), (258, 3, 16), (259, 3, 1), (262, 3, 1), (273, 4, 8), (277, 3, 1),
            (278, 4, length), (279, 4, plane.size * 2), (339, 3, 1)]  # fmt: skip
    listed = b"".join(
        tag.to_bytes(2, "little") + kind.to_bytes(2, "little") + (1).to_bytes(4, "little") + value.to_bytes(4, "little")
        for tag, kind, value in tags
    )
    head = b"II*\0" + (8 + len(pixels)).to_bytes(4, "little")
    return head + pixels + len(tags).to_bytes(2, "little") + listed + b"\0\0\0\0"


def zarr(**options: Any) -> Writer:
    def write(path: Path, array: np.ndarray) -> Path:
        package = pytest.importorskip("zarr")
        target = path.with_suffix(".zarr")
        created = package.create_array(store=str(target), shape=array.shape, dtype=array.dtype, **options)
        created[:] = array
        return target

    return write


def zarr_levels(path: Path, array: np.ndarray) -> Path:
    package = pytest.importorskip("zarr")
    group = package.create_group(str(path.with_suffix(".ome.zarr")))
    for level in range(3):
        shown = array[:: 2**level, :: 2**level, :: 2**level]
        group.create_array(str(level), shape=shown.shape, dtype=shown.dtype, chunks=(8, 8, 8))[:] = shown
    return path.with_suffix(".ome.zarr")


FORMATS = {
    "npy": npy,
    "npy in Fortran's order": lambda path, array: npy(path, np.asfortranarray(array)),
    "npy of another machine": lambda path, array: npy(path, array.astype(array.dtype.newbyteorder(">"))),
    "tiff": tiff(),
    "tiff of another machine": tiff(byteorder=">"),
    "BigTIFF": tiff(bigtiff=True),
    "ImageJ": tiff(imagej=True),
    "OME-TIFF": tiff(metadata={"axes": "ZYX"}, ome=True),
    "tiff with pages apart": tiff_page_by_page,
    "tiff zlib": tiff(compression="zlib"),
    "tiff zlib of another machine": tiff(compression="zlib", byteorder=">"),
    "tiff zlib in strips": tiff(compression="zlib", rowsperstrip=5),
    "tiff in strips": tiff(rowsperstrip=5, contiguous=False),
    "tiff in tiles": tiff(tile=(16, 32)),
    "tiff zlib in tiles": tiff(compression="zlib", tile=(16, 32), predictor=False),
    "slices": slices(),
    "slices zlib": slices(compression="zlib"),
    "slices of another machine": slices(byteorder=">"),
    "slices that differ": slices_that_differ,
    "slices with tags behind": slices_with_tags_behind,
    "zarr": zarr(chunks=(8, 16, 16)),
    "zarr raw": zarr(chunks=(8, 16, 16), compressors=None),
    "zarr format 2": zarr(chunks=(8, 16, 16), zarr_format=2),
    "zarr in shards": zarr(chunks=(4, 8, 8), shards=(8, 16, 16)),
    "zarr in one chunk": zarr(chunks=SIZE),
    "zarr levels": zarr_levels,
}


@pytest.mark.parametrize("kind", FORMATS)
def test_any_box_of_any_format_is_the_arrays_own(kind: str, tmp_path: Path) -> None:
    array = volume()
    found = open_image(FORMATS[kind](tmp_path / "scan", array))
    found.verify()
    assert (found.size, found.dtype) == (SIZE, np.dtype("uint16"))
    for corner, size in BOXES:
        box = found.read(corner, size)
        inside = tuple(slice(start, start + length) for start, length in zip(corner, size, strict=True))
        assert np.array_equal(box, array[inside]), (corner, size)
        assert box.dtype.isnative and box.flags.c_contiguous and box.flags.writeable
        assert type(box) is np.ndarray
    with pytest.raises(ValueError, match="not within"):
        found.read((15, 0, 0), (6, 1, 1))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "bool"])
@pytest.mark.parametrize("ending", [".npy", ".tif", "", ".zarr"])
def test_what_we_write_is_what_we_read(ending: str, dtype: str, tmp_path: Path) -> None:
    _needs(ending)
    array = volume(dtype)
    if ending in (".tif", "") and dtype == "bool":
        pytest.skip("TIFF packs eight into a byte")
    for compress in (False, True):
        path = tmp_path / f"{compress}{ending}"
        with write_image(path, SIZE, array.dtype, compress=compress) as put:
            for z in range(0, 20, 6):
                put(z, array[z : z + 6])
        found = open_image(path)
        found.verify()
        assert found.dtype == array.dtype
        assert np.array_equal(found.read((0, 0, 0), SIZE), array)


@pytest.mark.parametrize("ending", [".npy", ".tif", "", ".zarr"])
def test_a_writer_that_fails_leaves_what_was_there_before(ending: str, tmp_path: Path) -> None:
    _needs(ending)
    path, old = tmp_path / f"scan{ending}", volume("uint8")

    def write(array: np.ndarray, *, fails: bool) -> None:
        with write_image(path, SIZE, array.dtype) as put:
            put(0, array[:10])
            assert not list_volumes(str(tmp_path)) or path.exists(), "half a volume is not listed"
            if fails:
                raise RuntimeError("power cut")
            put(10, array[10:])

    with pytest.raises(RuntimeError):
        write(old, fails=True)
    assert list(tmp_path.iterdir()) == []
    write(old, fails=False)
    with pytest.raises(RuntimeError):
        write(old + 1, fails=True)
    assert np.array_equal(open_image(path).read((0, 0, 0), SIZE), old)
    write(old + 1, fails=False)
    assert np.array_equal(open_image(path).read((0, 0, 0), SIZE), old + 1)
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_is_a_line_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "scan.npy"
    with pytest.raises(DataError) as caught, write_image(target, SIZE, np.dtype("uint8")):
        pass
    assert str(caught.value).startswith(f"{target}: cannot be written: ")


def cut(path: Path, share: float) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    return path


def test_a_truncated_npy_is_named(tmp_path: Path) -> None:
    assert "is truncated: " in refusal(cut(npy(tmp_path / "scan", volume()), 0.7))
    assert "is no readable .npy file" in refusal(cut(npy(tmp_path / "scan", volume()), 0.0005))


@pytest.mark.parametrize("share", [0.999, 0.9, 0.5, 0.05])
@pytest.mark.parametrize(
    "kind", ["tiff", "BigTIFF", "ImageJ", "tiff with pages apart", "tiff zlib", "tiff zlib in tiles", "tiff in strips"]
)
def test_a_truncated_tiff_is_told_by_its_header(kind: str, share: float, tmp_path: Path, capfd) -> None:
    refused = refusal(cut(FORMATS[kind](tmp_path / "scan", volume()), share))
    assert "truncated" in refused or "is no readable TIFF" in refused
    assert capfd.readouterr().err == "", "one line is ours to write"


def test_a_truncated_slice_is_told_before_it_is_read(tmp_path: Path) -> None:
    stack = slices()(tmp_path / "scan", volume())
    cut(stack / "slice_7.tif", 0.6)
    with pytest.raises(DataError, match=r"slice_7\.tif: is truncated"):
        open_image(stack).verify()
    with pytest.raises(DataError, match=r"slice_7\.tif: is truncated"):
        open_image(stack).read((0, 0, 0), SIZE)


def test_a_damaged_compressed_slice_is_told_when_it_is_read(tmp_path: Path) -> None:
    stack = slices(compression="zlib")(tmp_path / "scan", volume())
    content = bytearray((stack / "slice_7.tif").read_bytes())
    content[-500:-400] = bytes(100)
    (stack / "slice_7.tif").write_bytes(content)
    with pytest.raises(DataError, match=r"slice_7\.tif: page 0 cannot be decoded"):
        open_image(stack).read((0, 0, 0), SIZE)


def test_a_missing_slice_is_not_closed_up(tmp_path: Path) -> None:
    stack = slices()(tmp_path / "scan", volume())
    (stack / "slice_7.tif").unlink()
    with pytest.raises(DataError, match=r"a slice is missing before slice_8\.tif"):
        open_image(stack).verify()


def test_a_slice_of_another_shape_is_named(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    stack = slices()(tmp_path / "scan", volume())
    tifffile.imwrite(stack / "slice_7.tif", volume()[0, :30])
    with pytest.raises(DataError, match=r"slice_7\.tif: has 30 × 53 pixels of uint16, the first slice 37 × 53"):
        open_image(stack).read((0, 0, 0), SIZE)


def test_a_changed_file_is_parsed_anew(tmp_path: Path) -> None:
    """Headers are kept, and a file may be replaced while they are."""
    path = tiff()(tmp_path / "scan", volume())
    assert open_image(path).size == SIZE
    tiff(compression="zlib")(tmp_path / "scan", volume()[:10])
    assert np.array_equal(open_image(path).read((0, 0, 0), (10, 37, 53)), volume()[:10])


def test_no_more_headers_are_kept_than_fit(tmp_path: Path) -> None:
    paths = [str(tiff(compression="zlib")(tmp_path / str(number), volume())) for number in range(5)]
    headers = Headers(2 * open_image(paths[0])._pages.places_bytes)
    kept = [headers.of(path) for path in paths]
    again = [headers.of(path) is pages for path, pages in zip(paths[::-1], kept[::-1], strict=True)]
    assert again == [True, True, False, False, False]
    assert Headers(0).of(paths[0]).size == SIZE


def test_what_is_no_volume_is_refused_in_one_line(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    package = pytest.importorskip("zarr")
    assert "expected a volume with axes z, y, x, it is of shape [37, 53]" in refusal(npy(tmp_path / "a", volume()[0]))
    assert "expected integers or floats, it holds complex64" in refusal(
        npy(tmp_path / "b", volume().astype("complex64"))
    )
    assert "it holds object" in refusal(npy(tmp_path / "c", np.full((2, 3, 4), None, dtype=object)))

    tifffile.imwrite(tmp_path / "colour.tif", np.zeros((20, 30, 3), np.uint8), photometric="rgb")
    assert "expected gray pages, these have 3 channels" in refusal(tmp_path / "colour.tif")
    with tifffile.TiffWriter(tmp_path / "mixed.tif") as writer:
        for edge in (20, 30):
            writer.write(np.zeros((edge, edge), np.uint8), metadata=None, photometric="minisblack")
    assert "expected pages of one size, it has 2 kinds" in refusal(tmp_path / "mixed.tif")
    (tmp_path / "text.tif").write_text("not at all")
    assert "is no readable TIFF" in refusal(tmp_path / "text.tif")
    (tmp_path / "empty").mkdir()
    assert "has no TIFF slices" in refusal(tmp_path / "empty")
    (tmp_path / "both").mkdir()
    tifffile.imwrite(tmp_path / "both" / "0.tif", volume())
    with pytest.raises(DataError, match=r"both/0\.tif: expected one slice, it has 20 pages"):
        open_image(tmp_path / "both")

    package.create_group(str(tmp_path / "group.zarr"))
    assert 'is a zarr group without an array "0"' in refusal(tmp_path / "group.zarr")
    (tmp_path / "nothing.zarr").mkdir()
    assert "is no readable zarr array" in refusal(tmp_path / "nothing.zarr")

    assert "no such file or folder" in refusal(tmp_path / "absent.npy")
    (tmp_path / "scan.nii.gz").write_text("")
    assert "expected .npy, .tif, .tiff, .zarr or a folder of TIFF slices" in refusal(tmp_path / "scan.nii.gz")


def test_a_damaged_chunk_is_an_error_of_its_array(tmp_path: Path) -> None:
    path = zarr(chunks=(8, 16, 16))(tmp_path / "scan", volume())
    chunk = path / "c" / "0" / "0" / "0"
    chunk.write_bytes(b"damaged")
    found = open_image(path)
    assert found.read((8, 16, 16), (4, 4, 4)).shape == (4, 4, 4)
    with pytest.raises(DataError) as caught:
        found.read((0, 0, 0), (4, 4, 4))
    assert str(caught.value).startswith(f"{path}: cannot be read at [0, 0, 0]: ")
    assert len(str(caught.value).splitlines()) == 1


def test_a_compression_without_its_package_is_told_by_the_header(tmp_path: Path) -> None:
    tifffile = pytest.importorskip("tifffile")
    if importlib.util.find_spec("imagecodecs"):
        pytest.skip("imagecodecs is installed")
    path = tiff(compression="zlib")(tmp_path / "scan", volume())
    with tifffile.TiffFile(path, mode="r+") as file:
        for page in file.pages:
            page.aspage().tags["Compression"].overwrite(5)
    assert "<COMPRESSION.LZW: 5> requires the 'imagecodecs' package" in refusal(path)


def test_the_packages_of_formats_are_imported_by_who_reads_them_only() -> None:
    """Each worker that is spawned imports this; tifffile and zarr would add half a second to every start."""
    code = "import sys, vtune.pipelines.unet3d.write_volumes; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert {"tifffile", "zarr", "scipy", "edt", "cc3d"}.isdisjoint(loaded)


@pytest.mark.parametrize(("package", "ending"), [("tifffile", ".tif"), ("zarr", ".zarr")])
def test_a_missing_package_is_named_with_the_extra_that_has_it(
    package: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"scan{ending}"
    path.mkdir() if ending == ".zarr" else path.write_bytes(b"II*\0")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackage) as caught:
        open_image(path)
    assert str(caught.value) == f"reading {path} needs the package {package}: pip install 'vtune[seg]'"
    with (
        pytest.raises(MissingPackage, match=f"writing .* needs the package {package}"),
        write_image(path, SIZE, np.dtype("uint8")),
    ):
        pass


def test_a_listing_pairs_by_name_whatever_the_ending(tmp_path: Path) -> None:
    for name in ("b.npy", "a.tif", "c.ome.tif", ".hidden.npy", "notes.txt", "d.TIFF"):
        (tmp_path / name).write_text("")
    for name in ("e.zarr", "f.ome.zarr", "g", "h.v2", "no slices"):
        (tmp_path / name).mkdir()
    for folder in ("g", "h.v2"):
        (tmp_path / folder / "0.tif").write_text("")
    (tmp_path / "no slices" / "readme.txt").write_text("")
    found = {stem: [Path(path).name for path in paths] for stem, paths in list_volumes(str(tmp_path)).items()}
    assert json.dumps(found) == json.dumps(
        {"a": ["a.tif"], "b": ["b.npy"], "c": ["c.ome.tif"], "d": ["d.TIFF"], "e": ["e.zarr"], "f": ["f.ome.zarr"],
         "g": ["g"], "h.v2": ["h.v2"]}
    )  # fmt: skip


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        open_image(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and len(message.splitlines()) == 1
    return message


def _needs(ending: str) -> None:
    if ending in (".tif", ""):
        pytest.importorskip("tifffile")
    if ending == ".zarr":
        pytest.importorskip("zarr")


def test_a_store_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    for value in (1, 2):
        with zarr_written(tmp_path / "again.zarr", SIZE, np.dtype(np.uint8), compress=False) as put:
            put(0, np.full(SIZE, value, np.uint8))
        assert (ZarrArray(str(tmp_path / "again.zarr")).read((0, 0, 0), SIZE) == value).all()
        shutil.rmtree(tmp_path / "again.zarr")
