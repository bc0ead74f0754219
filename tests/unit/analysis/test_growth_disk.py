from __future__ import annotations

from tests.unit.analysis.test_growth import a_training
from vtune.analysis.growth_disk import with_disk
from vtune.domain.events import Fact
from vtune.domain.record import Measurement

MIB = 2**20


def left(*saves: tuple[float, str], epoch: float | None = 400.0) -> Measurement:
    facts = [Fact(pid=10, t_s=t, name="saved", data={"path": path, "bytes": 5 * MIB}) for t, path in saves]
    return with_disk(Measurement(), a_training(), facts, epoch)


def test_checkpoints_with_a_number_stay_and_add_up() -> None:
    # Every twenty of an epoch's four hundred steps.
    measured = left((2.0, "/o/step_20.pt"), (4.0, "/o/step_40.pt"), (6.0, "/o/step_60.pt"))
    assert measured.disk_bytes_per_epoch == 20 * 5 * MIB


def test_a_checkpoint_that_is_written_over_does_not_grow() -> None:
    assert left((2.0, "/o/last.pt"), (4.0, "/o/last.pt")).disk_bytes_per_epoch == 0


def test_a_best_checkpoint_that_came_once_does_not_hide_those_that_stay() -> None:
    numbered = ((2.0, "/o/step_20.pt"), (4.0, "/o/step_40.pt"), (6.0, "/o/step_60.pt"))
    measured = left(*numbered, (6.1, "/o/best.pt"))
    assert measured.disk_bytes_per_epoch == 20 * 5 * MIB and not measured.unknown
    assert left((6.1, "/o/best.pt")).disk_bytes_per_epoch == 0


def test_digits_of_a_folder_that_all_checkpoints_go_to_number_nothing() -> None:
    """As those of a trial's own folder."""
    output = "/r/trials/0001/output"
    assert left((2.0, f"{output}/last.pt"), (4.0, f"{output}/last.pt"), (4.1, f"{output}/best.pt")) == Measurement(
        disk_bytes_per_epoch=0
    )
    numbered = tuple((2.0 * k, f"{output}/step_{20 * k}.pt") for k in (1, 2, 3))
    assert left(*numbered, (6.1, f"{output}/best.pt")).disk_bytes_per_epoch == 20 * 5 * MIB


def test_of_one_folder_of_a_checkpoint_nobody_knows_whether_the_next_replaces_it() -> None:
    measured = left((2.0, "/o/checkpoint-20/model.pt"), (2.1, "/o/checkpoint-20/optimizer.pt"))
    assert measured.disk_bytes_per_epoch is None and "disk_bytes_per_epoch" in measured.unknown


def test_of_one_checkpoint_nobody_knows_whether_the_next_replaces_it() -> None:
    measured = left((2.0, "/o/step_20.pt"))
    assert measured.disk_bytes_per_epoch is None and "disk_bytes_per_epoch" in measured.unknown


def test_without_the_length_of_an_epoch_or_a_checkpoint_nothing_is_projected() -> None:
    assert left((2.0, "/o/a1.pt"), (4.0, "/o/a2.pt"), epoch=None).disk_bytes_per_epoch is None
    assert left() == Measurement()
