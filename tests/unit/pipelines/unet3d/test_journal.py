from __future__ import annotations

import json
from pathlib import Path

import pytest

from vtune.pipelines.unet3d.curves import Metrics
from vtune.pipelines.unet3d.journal import Progress
from vtune.pipelines.unet3d.settings import LossSettings


def write(path: Path, *lines: dict[str, object], torn: bytes = b"") -> None:
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines) + torn)


def steps(path: Path) -> list[object]:
    return [line.get("step") for line in map(json.loads, path.read_text().splitlines())]


def resumed(logs: Path, *, after: int, is_validated: bool) -> Path:
    metrics = Metrics(logs, earlier="ours", resumed_after=after, is_validated=is_validated, tensorboard=False)
    metrics.close()
    return metrics.path


LINES: list[dict[str, object]] = [{"step": 1}, {"step": 2}, {"step": 2, "validation": {"dice": 0.5}}, {"step": 3}]


@pytest.mark.parametrize(
    ("after", "is_validated", "left"),
    [(0, True, 0), (1, False, 1), (2, False, 2), (2, True, 3), (3, False, 4), (9, True, 4)],
)
def test_what_was_told_after_the_checkpoint_is_cut(tmp_path: Path, after: int, is_validated: bool, left: int) -> None:
    write(tmp_path / "metrics.jsonl", *LINES)
    path = resumed(tmp_path, after=after, is_validated=is_validated)
    assert [json.loads(line) for line in path.read_text().splitlines()] == LINES[:left]


@pytest.mark.parametrize("torn", [b'{"step": 4, "lo', b'{"step": 4}', b"\x00\x00\x00", b"[]\n"])
def test_a_torn_line_is_cut_as_well(tmp_path: Path, torn: bytes) -> None:
    write(tmp_path / "metrics.jsonl", *LINES, torn=torn)
    assert steps(resumed(tmp_path, after=9, is_validated=True)) == [1, 2, 2, 3]


def test_a_file_that_was_removed_begins_again(tmp_path: Path) -> None:
    assert resumed(tmp_path, after=7, is_validated=False).read_bytes() == b""


def test_earlier_runs_keep_their_lines_under_numbers(tmp_path: Path) -> None:
    for number in range(3):
        metrics = Metrics(tmp_path, earlier="another's", resumed_after=0, is_validated=True, tensorboard=False)
        metrics.step(number, epoch=1, learning_rate=0.1, values={"loss": 0.1 + 0.2})
        metrics.close()
    assert [steps(tmp_path / f"metrics{kept}.jsonl") for kept in (".1", ".2", "")] == [[0], [1], [2]]
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["loss"] == 0.1 + 0.2


def test_an_empty_file_is_not_kept(tmp_path: Path) -> None:
    for _ in range(2):
        Metrics(tmp_path, earlier="another's", resumed_after=0, is_validated=True, tensorboard=False).close()
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_line_is_with_the_system_when_it_is_told(tmp_path: Path) -> None:
    metrics = Metrics(tmp_path, earlier="another's", resumed_after=0, is_validated=True, tensorboard=False)
    metrics.step(1, epoch=1, learning_rate=0.1, values={"loss": 1.0})
    assert steps(metrics.path) == [1]
    metrics.close()


def test_without_tensorboard_it_says_so_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        import tensorboard  # noqa: F401

        is_installed = True
    except ImportError:
        is_installed = False
    metrics = Metrics(tmp_path, earlier="another's", resumed_after=0, is_validated=True, tensorboard=True)
    metrics.step(1, epoch=1, learning_rate=0.1, values={"loss": 1.0})
    metrics.validation(1, epoch=1, means={"dice": 0.5}, records={"a": {"dice": 0.5}})
    metrics.close()
    assert (tmp_path / "tensorboard").exists() == is_installed
    assert steps(metrics.path) == [1, 1]


def test_progress_goes_on_where_it_was_saved() -> None:
    loss = LossSettings(cldice_weight=0.5)
    whole, cut = (Progress(loss, steps_per_epoch=4) for _ in range(2))
    given = [
        {"total": 0.1, "bce": 0.3, "dice": 0.7, "cldice": 0.2},
        {"total": 0.2, "bce": 0.4, "dice": 0.1, "surface": 1},
    ]
    for losses in given:
        whole.add(losses)
    cut.add(given[0])
    later = Progress(loss, steps_per_epoch=4)
    later.restore(json.loads(json.dumps(cut.state())))
    later.add(given[1])
    expected = "Train step 2/4 epoch 3 loss 0.150 (bce 0.350 dice 0.400 surface 1.000 cldice 0.200)"
    assert [progress.line(2, 3).rsplit(" ", 2)[0] for progress in (whole, later)] == [expected] * 2
