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


@pytest.mark.parametrize(
    "text", ["vtune:\n  commnd: x\n", "training: {}\n", ": [", "vtune:\n  command: x\n  limits: {rem: 1GiB}\n"]
)
def test_a_file_that_says_nothing_clear_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "exp.yaml").write_text(text)
    with pytest.raises(ConfigErrors):
        remember(tmp_path / "exp.yaml")
    with pytest.raises(ConfigErrors):
        remember(tmp_path / "missing.yaml")
