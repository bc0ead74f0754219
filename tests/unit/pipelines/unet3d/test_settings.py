from __future__ import annotations

from pathlib import Path

import pytest

from vtune.pipelines.unet3d.settings import SettingsError, load_settings


def complaint(path: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    return str(caught.value)


@pytest.mark.parametrize("name", ["exp001.yaml", "quickstart.yaml"])
def test_the_shipped_configs_load(root: Path, name: str) -> None:
    load_settings(root / "configs" / name)


def test_the_big_config_is_the_documented_system(root: Path) -> None:
    settings = load_settings(root / "configs" / "exp001.yaml")
    assert settings.data.patch_size == (72, 136, 136)
    assert (settings.data.records, settings.data.patches_per_record) == (806, 5)
    training = settings.training
    assert (training.workers, training.train_batch_size, training.accumulate_steps) == (1, 1, 1)
    assert (training.train_iterations_per_epoch, training.max_epochs) == (4000, 32)
    assert (training.surface_distance_interval, training.worker_start) == (16, "spawn")


@pytest.mark.parametrize("name", ["exp001.yaml", "quickstart.yaml"])
def test_every_key_of_the_shipped_configs_is_written_out(root: Path, name: str) -> None:
    """A reader should see all there is to turn, and a tuner edit what is there."""
    import yaml

    from vtune.pipelines.unet3d.settings import SECTIONS

    document = yaml.safe_load((root / "configs" / name).read_text(encoding="utf-8"))
    for section, kind in SECTIONS.items():
        assert set(document[section]) == set(kind.__dataclass_fields__), section


def test_a_section_for_vtune_is_left_alone(write_config) -> None:
    path = write_config({"vtune.command": "whatever", "vtune.nonsense": [1, 2]})
    load_settings(path)


def test_a_mistyped_key_names_the_file_the_key_and_the_nearest_spelling(write_config) -> None:
    path = write_config({"training.train_batchsize": 4})
    assert complaint(path) == (
        f'{path}: training.train_batchsize: unknown key, did you mean "training.train_batch_size"?'
    )


def test_a_mistyped_section_is_found(write_config) -> None:
    assert 'trainig: unknown key, did you mean "training"?' in complaint(write_config({"trainig.workers": 4}))


def test_a_key_in_the_wrong_section_is_sent_to_the_right_one(write_config) -> None:
    assert 'workers: unknown key, did you mean "training.workers"?' in complaint(write_config({"workers": 4}))
    assert 'data.filters: unknown key, did you mean "model.filters"?' in complaint(write_config({"data.filters": 4}))


def test_a_key_like_no_other_gets_the_list_of_known_ones(write_config) -> None:
    assert "loss.zzz: unknown key, known here: bce_weight, " in complaint(write_config({"loss.zzz": 4}))


def test_all_problems_are_reported_at_once(write_config) -> None:
    path = write_config({"training.workers": "two", "model.depht": 3, "output_dir": None})
    lines = complaint(path).splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"{path}: ") for line in lines)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("training.workers", "two", 'expected a whole number, got "two"'),
        ("training.workers", 1.5, "expected a whole number, got 1.5"),
        ("training.workers", True, "expected a whole number, got True"),
        ("training.workers", None, "expected a whole number, got nothing"),
        ("training.workers", -1, "expected at least 0, got -1"),
        ("training.worker_start", "thread", 'expected "spawn" or "fork", got "thread"'),
        ("training.torch_threads", 0, "expected at least 1, got 0"),
        ("training.torch_threads", "all", 'expected a whole number or null, got "all"'),
        ("training.learning_rate", ".nan", 'expected a number, got ".nan"'),
        ("model.deep_supervision", 1, "expected true or false, got 1"),
        ("data.patch_size", 32, "expected a list of 3 whole numbers, got 32"),
        ("data.patch_size", [32, 32], "expected a list of 3 whole numbers, got [32, 32]"),
        ("data.patch_size", [16, 16, 4], "expected at least 8, got [16, 16, 4]"),
        ("data.foreground_probability", 1.5, "expected 0 to 1, got 1.5"),
        ("data", 3, "expected a section with keys, got 3"),
    ],
)
def test_a_wrong_value_is_shown_with_what_was_expected(write_config, key: str, value: object, expected: str) -> None:
    assert complaint(write_config({key: value})).endswith(f": {key}: {expected}")


def test_a_patch_that_does_not_fit_into_a_volume_is_refused(write_config) -> None:
    text = complaint(write_config({"data.patch_size": [16, 44, 16]}))
    assert "data.patch_size: needs 53 voxels along y with its read_margin, data.volume_size has 48" in text


def test_a_network_too_deep_for_the_patch_is_refused(write_config) -> None:
    assert "model.depth: 5 levels leave one voxel" in complaint(write_config({"model.depth": 5}))


def test_a_learning_rate_without_a_dot_is_a_number(write_config) -> None:
    path = write_config()
    text = path.read_text(encoding="utf-8").replace("learning_rate: 0.01", "learning_rate: 3e-4")
    path.write_text(text, encoding="utf-8")
    assert load_settings(path).training.learning_rate == 3e-4


def test_the_same_key_twice_is_an_error(write_config) -> None:
    path = write_config()
    text = path.read_text(encoding="utf-8").replace("  workers: 0", "  workers: 0\n  workers: 4")
    path.write_text(text, encoding="utf-8")
    assert 'key "workers" twice' in complaint(path)


@pytest.mark.parametrize("content", ["", "- 1\n", "a: [", "\x00"])
def test_a_file_that_is_no_config_is_a_one_line_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(content, encoding="utf-8")
    assert len(complaint(path).splitlines()) == 1


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert complaint(tmp_path / "none.yaml") == f"{tmp_path / 'none.yaml'}: cannot be read: No such file or directory"
