from pathlib import Path

import pytest

from vtune.config.problems import ConfigErrors
from vtune.config.remembered import remember
from vtune.domain.experiment import Price


def test_with_the_training_here_all_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "exp.yaml").write_text(
        'vtune:\n  command: "{python} -c pass --config {config}"\n  price: $2/h\ntraining:\n  workers: 1\n'
    )
    found = remember(tmp_path / "exp.yaml")
    assert found.study == "exp" and found.price == Price(per_hour=2.0, currency="$") and found.experiment is not None


def test_without_the_training_its_limits_and_its_price_are(tmp_path: Path) -> None:
    (tmp_path / "exp.yaml").write_text(
        "vtune:\n  command: /not/here/python train.py\n  cwd: /not/here\n  study: scrolls\n"
        "  limits: {ram: 24GiB}\n  price: 3.67/h\n"
    )
    found = remember(tmp_path / "exp.yaml")
    assert found.experiment is None and found.study == "scrolls"
    assert found.limits.ram is not None and found.limits.ram.text == "24GiB" and found.price is not None


def test_why_the_training_is_not_known_is_kept(tmp_path: Path) -> None:
    text = 'vtune:\n  command: "{python} -c pass --config {config}"\n  config: mine.yaml\n'
    (tmp_path / "exp.yaml").write_text(text)
    unread = remember(tmp_path / "exp.yaml").unread
    assert unread is not None and "no such file" in unread.message
    (tmp_path / "mine.yaml").write_text("training: [\n")
    unread = remember(tmp_path / "exp.yaml").unread
    assert unread is not None and "mine.yaml:2:1: not YAML" in unread.message
    (tmp_path / "mine.json").write_text('{"workers": 1, "workers": 2}')
    (tmp_path / "exp.yaml").write_text(text.replace("mine.yaml", "mine.json"))
    unread = remember(tmp_path / "exp.yaml").unread
    assert unread is not None and 'mine.json: duplicate key "workers"' in unread.message


def test_of_a_training_key_that_stands_there_twice_the_last_one_counts_as_for_most_readers(tmp_path: Path) -> None:
    text = 'vtune:\n  command: "{python} -c pass --config {config}"\ntraining:\n  workers: 1\n  workers: 2\n'
    (tmp_path / "exp.yaml").write_text(text)
    found = remember(tmp_path / "exp.yaml")
    assert found.unread is None and found.experiment is not None
    assert found.experiment.workload.config == {"training": {"workers": 2}}
    # Of vtune's own section nobody guesses which was meant.
    (tmp_path / "exp.yaml").write_text(text.replace("training:", "  study: a\n  study: b\ntraining:"))
    with pytest.raises(ConfigErrors, match="study"):
        remember(tmp_path / "exp.yaml")


@pytest.mark.parametrize(
    "text", ["vtune:\n  commnd: x\n", "training: {}\n", ": [", "vtune:\n  command: x\n  limits: {rem: 1GiB}\n"]
)
def test_a_file_that_says_nothing_clear_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "exp.yaml").write_text(text)
    with pytest.raises(ConfigErrors):
        remember(tmp_path / "exp.yaml")
    with pytest.raises(ConfigErrors):
        remember(tmp_path / "missing.yaml")
