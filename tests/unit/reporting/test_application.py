"""The winner as it goes into the user's own files."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from support.others import disturbed
from support.studies import a_failure, a_trial, write_study
from vtune.cli.main import run
from vtune.domain.record import TrialRecord
from vtune.journal.fingerprint import fingerprint_of
from vtune.journal.paths import StudyPaths
from vtune.reporting.loader_lines import python_lines
from vtune.reporting.study_report import read_study_report

CONFIG = """\
# mine
vtune:
  command: "{python} train.py --config {config}"
  study: demo
training:
  workers: 1   # one is enough?
  train_batch_size: 1
"""
FASTER = a_trial(2, 31.0, asked={"workers": 4, "batch_size": 2})
SLOWER = a_trial(3, 5.0, asked={"workers": 0, "batch_size": 1})


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a study whose winner turned it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    config = tmp_path / "mine.yaml"
    config.write_text(CONFIG)
    write_study(tmp_path / "results", a_trial(1, 10.0, batch=1), FASTER, SLOWER)
    return config


def out_of(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    out, err = capsys.readouterr()
    return out, err


def test_it_shows_a_diff_and_changes_nothing(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "--config", "mine.yaml"]) == 0
    out, err = out_of(capsys)
    assert "-  workers: 1   # one is enough?\n-  train_batch_size: 1\n" in out
    assert "+  workers: 4   # one is enough?\n+  train_batch_size: 2\n" in out
    assert "the effective batch is 2 instead of 1" in out and "vtune apply --write" in err
    assert config.read_text() == CONFIG and sorted(p.name for p in config.parent.glob("mine*")) == ["mine.yaml"]


def test_the_effective_batch_before_and_after_is_in_its_json(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "--config", "mine.yaml", "--json"]) == 0
    said = json.loads(out_of(capsys)[0])
    assert said["effective_batch"] == {"now": 2.0, "before": 1.0, "ratio": 2.0, "exact": True, "measured": True}


def test_the_diff_has_the_lines_that_a_patch_has_and_can_be_applied(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], config: Path
) -> None:
    if shutil.which("patch") is None:
        pytest.skip("no patch here")
    long = f"  x: [{', '.join(['1234'] * 200)}]"
    text = "odd: 'a\u2028b'\n" + CONFIG.replace("# one", "#\tone") + long
    raw = text.replace("\n", "\r\n").encode()
    config.write_bytes(raw)
    assert run(["apply", "--config", "mine.yaml"]) == 0
    diff = capfd.readouterr().out
    subprocess.run(["patch", "--binary", "-s", "mine.yaml"], input=diff.encode(), cwd=tmp_path, check=True)
    patched = config.read_bytes()
    config.write_bytes(raw)
    assert run(["apply", "--config", "mine.yaml", "--write"]) == 0
    assert config.read_bytes() == patched != raw


def test_written_it_keeps_all_other_bytes_the_mode_and_a_backup(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_bytes(CONFIG.replace("\n", "\r\n").encode())
    config.chmod(0o640)
    wanted = CONFIG.replace("workers: 1", "workers: 4").replace("train_batch_size: 1", "train_batch_size: 2")
    assert run(["apply", "--config", "mine.yaml", "--write"]) == 0
    assert config.read_bytes() == wanted.replace("\n", "\r\n").encode()
    assert stat.S_IMODE(config.stat().st_mode) == 0o640
    assert (config.parent / "mine.yaml.bak").read_bytes() == CONFIG.replace("\n", "\r\n").encode()
    # What is there already is not written again, and another backup never takes the place of the first.
    config.write_text(CONFIG)
    assert run(["apply", "--config", "mine.yaml", "--write"]) == 0
    assert (config.parent / "mine.yaml.bak.1").read_text() == CONFIG
    assert "mine.yaml.bak.1" in out_of(capsys)[1]


def test_what_is_there_already_is_told_and_not_written(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(CONFIG.replace("workers: 1", "workers: 4").replace("train_batch_size: 1", "train_batch_size: 2"))
    assert run(["apply", "--config", "mine.yaml", "--write"]) == 0
    out, _ = out_of(capsys)
    assert "says so already" in out and not list(config.parent.glob("*.bak*"))


def test_through_a_link_the_file_that_it_names_is_changed(config: Path) -> None:
    real = config.parent / "real" / "mine.yaml"
    real.parent.mkdir()
    config.rename(real)
    config.symlink_to(real)
    (real.parent / "train.py").write_text("")
    assert run(["apply", "--config", "mine.yaml", "--write", "--quiet"]) == 0
    assert config.is_symlink() and "workers: 4" in real.read_text()


def test_what_cannot_be_changed_in_place_goes_into_a_file_beside(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = CONFIG.replace("workers: 1 ", "workers: &w 1 ") + "validation:\n  workers: *w\n"
    config.write_text(shared)
    assert run(["apply", "--config", "mine.yaml"]) == 0
    out, _ = out_of(capsys)
    assert "cannot be changed in place: training.workers is shared: line 9 has it as *w" in out
    assert not list(config.parent.glob("*.tuned*"))
    assert run(["apply", "--config", "mine.yaml", "--write"]) == 2
    assert config.read_text() == shared
    beside = (config.parent / "mine.tuned.yaml").read_text()
    assert "workers: 4" in beside and "workers: 1" in beside


@pytest.fixture
def asked_of(config: Path) -> Path:
    """A study that was asked of the config, as vtune writes it down; the config is not named again."""
    question = (
        f'vtune: {{command: "{{python}} train.py --config {{config}}", config: "{config}", cwd: "{config.parent}"}}\n'
    )
    (config.parent / "results" / "demo" / "experiment.yaml").write_text(question)
    config.write_text(CONFIG.partition("  study: demo\n")[2])
    return config


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        ("workers: 1 ", "workers: 1\n  workers: 2 ", "the key training.workers stands there twice"),
        ("workers: 1 ", "workers: 1\n  workers: 4 ", "the key training.workers stands there twice"),
        ("workers: 1 ", "workers: ${W} ", "training.workers is ${W}: its value comes from elsewhere"),
        ("batch_size: 1", "batch_size: ${B}", "training.train_batch_size is ${B}: its value comes from elsewhere"),
        ("workers: 1 ", 'workers: "{{ w }}" ', 'training.workers is "{{ w }}": its value comes from elsewhere'),
    ],
)
@pytest.mark.parametrize("named", [(), ("--config", "mine.yaml")])
def test_a_key_that_vtune_cannot_read_for_sure_is_refused_and_not_taken_for_an_argument_of_the_script(
    asked_of: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, refused: str, named: tuple[str, ...]
) -> None:
    text = asked_of.read_text() if not named else CONFIG
    asked_of.write_text(text.replace(old, new))
    assert run(["apply", *named]) == 0
    out, _ = out_of(capsys)
    assert f"# mine.yaml cannot be changed in place: {refused}" in out and "where the script makes it" not in out
    assert run(["apply", "--write", *named]) == 2
    assert refused in out_of(capsys)[1] and asked_of.read_text() == text.replace(old, new)
    beside = (asked_of.parent / "mine.tuned.yaml").read_text()
    assert beside.count("workers: ") == 1 and "workers: 4" in beside and "train_batch_size: 2" in beside


def test_a_flag_that_goes_before_a_key_from_elsewhere_is_told(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CONFIG.replace("{config}", "{config} --workers 1").replace("workers: 1 ", "workers: ${W} ")
    config.write_text(text)
    assert run(["apply", "--config", "mine.yaml", "--write"]) == 0
    assert "--workers 4" in out_of(capsys)[0] and "workers: ${W}" in config.read_text()


@pytest.mark.parametrize(("text", "why"), [(None, "no such file"), ("training: [\n", "mine.yaml:2:1: not YAML")])
def test_a_config_that_is_gone_or_cannot_be_read_is_an_error_with_its_reason(
    asked_of: Path, capsys: pytest.CaptureFixture[str], text: str | None, why: str
) -> None:
    asked_of.unlink()
    if text is not None:
        asked_of.write_text(text)
    for words in (["apply"], ["apply", "--write"], ["apply", "--trial", "3"]):
        assert run(words) == 2
        out, err = out_of(capsys)
        assert out == "" and why in err
    assert not list(asked_of.parent.glob("*.tuned*"))
    # What there is nothing to apply of needs no config.
    assert run(["apply", "--trial", "1"]) == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "mine.yaml: cannot be read: No such file"),
        ("training: [\n", "mine.yaml:2:1: not YAML"),
        ("training:\n  workers: 1\n  workers: 2\n", 'mine.yaml:3:3: duplicate key "workers"'),
    ],
)
def test_the_same_of_a_config_that_only_the_command_names_and_whose_key_the_trial_turned(
    asked_of: Path, capsys: pytest.CaptureFixture[str], text: str | None, why: str
) -> None:
    study = StudyPaths(asked_of.parent / "results" / "demo")
    study.experiment.write_text('vtune: {command: "{python} train.py --config mine.yaml"}\n')
    assert run(["apply", "--write"]) == 0
    assert "workers: 4" in asked_of.read_text()
    asked_of.unlink()
    if text is not None:
        asked_of.write_text(text)
    # As long as no trial turned a key of it, it may be a file that vtune never could read.
    assert run(["apply"]) == 0
    study.trial(2).root.mkdir(parents=True)
    effect = {"kind": "SetConfigKey", "path": ["training", "workers"], "value": 4}
    study.trial(2).spec.write_text(json.dumps({"effects": [effect]}))
    out_of(capsys)
    assert run(["apply", "--write"]) == 2
    out, err = out_of(capsys)
    assert out == "" and why in err


def test_a_file_of_that_name_is_not_written_over(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(CONFIG.replace("workers: 1 ", "workers: &w 1 ") + "validation:\n  workers: *w\n")
    (config.parent / "mine.tuned.yaml").write_text("somebody's\n")
    assert run(["apply", "--config", "mine.yaml"]) == 0
    assert "into mine.tuned.1.yaml" in out_of(capsys)[0]
    for _ in range(2):
        assert run(["apply", "--config", "mine.yaml", "--write"]) == 2
    assert (config.parent / "mine.tuned.yaml").read_text() == "somebody's\n"
    assert sorted(one.name for one in config.parent.glob("*tuned*")) == ["mine.tuned.1.yaml", "mine.tuned.yaml"]


def test_a_full_disk_is_told_and_leaves_all_as_it_was(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert run(["apply", "--config", "mine.yaml", "--write", "--json"]) == 3
    told = json.loads(out_of(capsys)[0])
    assert told["error"].endswith("mine.yaml cannot be written: No space left on device")
    assert config.read_text() == CONFIG and [one.name for one in config.parent.glob("*mine*")] == ["mine.yaml"]


def test_another_trial_than_the_winner(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "--config", "mine.yaml", "--trial", "3"]) == 0
    assert "+  workers: 0 " in out_of(capsys)[0]
    assert run(["apply", "--config", "mine.yaml", "--trial", "9"]) == 2
    assert "has no trial 9" in out_of(capsys)[1]
    assert run(["apply", "--config", "mine.yaml", "--trial", "1"]) == 0
    assert "nothing to apply" in out_of(capsys)[1]


def test_as_json_it_is_one_object(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "--config", "mine.yaml", "--json"]) == 0
    told = json.loads(out_of(capsys)[0])
    assert told["trial"] == 2 and told["settings"] == {"workers": 4, "batch_size": 2}
    assert told["config"]["written"] is None and "+  workers: 4" in told["config"]["diff"]


def test_where_nothing_is_better_there_is_nothing_to_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path / "results", a_trial(1, 10.0))
    assert run(["apply", "--study", "demo", "--write"]) == 0
    assert "nothing was shown to be better" in out_of(capsys)[1]


@pytest.mark.parametrize(
    ("record", "options", "code", "why"),
    [
        (a_trial(1, 10.0), ["--ram-limit", "1GiB"], 4, "no trial fits the limits"),
        (disturbed(a_trial(1, 10.0)), [], 3, "trial 1 ran on a busy machine"),
        (a_failure(1), [], 4, "no trial has a rate"),
    ],
)
def test_where_no_trial_can_be_chosen_its_own_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    record: TrialRecord, options: list[str], code: int, why: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path / "results", record)
    assert run(["apply", "--study", "demo", *options]) == code
    assert why in out_of(capsys)[1]
    assert run(["apply", "--study", "demo", "--json", *options]) == code
    told = json.loads(out_of(capsys)[0])
    assert why in told["error" if code == 3 else "why"] and (set(told) == {"error", "hint", "exit_code"}) is (code == 3)


def test_a_flag_is_told_as_the_command_and_an_argument_as_the_line_of_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text(
        "loader = DataLoader(\n    data,\n    num_workers=2,  # few\n    persistent_workers=a.keep,\n)\n"
        'p.add_argument("--keep", action="store_true")\n'
    )
    asked = {"workers": 4, "batch_size": 2, "pin_memory": True, "persistent_workers": True}
    found = a_trial(2, 31.0, asked=asked, batch=2)
    paths = write_study(tmp_path / "results", a_trial(1, 10.0, batch=1), found)
    paths.experiment.write_text('vtune: {command: "{python} train.py --batch-size 1", study: demo}\n')
    report = read_study_report(paths)
    assert report.experiment is not None
    question = fingerprint_of(report.experiment)
    paths.scout_result.parent.mkdir(parents=True, exist_ok=True)
    paths.scout_result.write_text(json.dumps({"question": question, "where": f"{script}:1"}))
    assert run(["apply", "--study", "demo"]) == 0
    out, _ = out_of(capsys)
    assert "train.py --batch-size 2" in out
    assert f"# {script}:3: num_workers=4\n-num_workers=2,  # few\n+num_workers=4,  # few\n" in out
    kept = " persistent_workers=a.keep,\n# a.keep becomes True by --keep in the command\n"
    assert f"# {script}:4: persistent_workers comes from a.keep, which stays\n{kept}" in out
    added = "-persistent_workers=a.keep,\n+persistent_workers=a.keep, pin_memory=True,\n"
    assert f"# {script}:4: pin_memory=True\n{added}" in out


@pytest.mark.parametrize(
    ("source", "line", "after"),
    [
        ("DataLoader(d, 1, True, None, None, 2)\n", 1, "DataLoader(d, 1, True, None, None, 4)"),
        ("x = torch.utils.data.DataLoader(d, num_workers=2)\n", 1, "x = torch.utils.data.DataLoader(d, num_workers=4)"),
        ("x = 1\n\x0cy = 2\nDataLoader(d, num_workers=2)\n", 3, "DataLoader(d, num_workers=4)"),
        ("a = make(DataLoader(d, num_workers=0), 'ü')\n", 1, "a = make(DataLoader(d, num_workers=4), 'ü')"),
        ("x = DataLoader(d, shuffle=True)  # all\n", 1, "x = DataLoader(d, shuffle=True, num_workers=4)  # all"),
        ("a = make(DataLoader(d), 'ü')\n", 1, "a = make(DataLoader(d, num_workers=4), 'ü')"),
        ("x = DataLoader(\n    d,\n    shuffle=True)\n", 3, "shuffle=True, num_workers=4)"),
        ("x = DataLoader(\n    d,  # of mine\n)\n", 2, "d, num_workers=4,  # of mine"),
        ("x = DataLoader()\n", 1, "x = DataLoader(num_workers=4)"),
        # Nobody knows what these hold, or how to write it there.
        ("x = DataLoader(d, **more)\n", 1, None),
        ("x = DataLoader((d))\n", 1, None),
        ("x = DataLoader(i for i in d)\n", 1, None),
    ],
)
def test_a_line_of_python_is_told_as_it_has_to_be(tmp_path: Path, source: str, line: int, after: str | None) -> None:
    (tmp_path / "s.py").write_text(source)
    (found,) = python_lines({"num_workers": 4}, f"{tmp_path / 's.py'}:{line}")
    assert (found.line, found.after) == (line, after)


def test_several_options_of_one_line_change_it_once(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("x = DataLoader(d, num_workers=2)\n")
    found = python_lines({"num_workers": 4, "pin_memory": True, "drop_last": False}, f"{tmp_path / 's.py'}:1")
    after = "x = DataLoader(d, num_workers=4, pin_memory=True, drop_last=False)"
    assert [(one.line, one.after) for one in found] == [(1, after)] * 3


OPTIONS = """\
p = argparse.ArgumentParser()
p.add_argument("-j", "--num-workers", type=int, default=1)
p.add_argument("--loaders", dest="processes", type=int)
p.add_argument("--pin-memory", action="store_true")
p.add_argument("--no-keep", dest="keep", action="store_false")
"""


@pytest.mark.parametrize(
    ("there", "option", "value", "typed"),
    [
        ("a.num_workers", "num_workers", 4, ("--num-workers", "4")),
        ("vars(a)['num_workers']", "num_workers", 4, ("--num-workers", "4")),
        ("a.processes", "num_workers", 4, ("--loaders", "4")),
        ("a.pin_memory", "pin_memory", True, ("--pin-memory",)),
        # No word turns a switch off, and none this one on.
        ("a.pin_memory", "pin_memory", False, None),
        ("a.keep", "persistent_workers", True, None),
        # Nobody knows which option, if any.
        ("WORKERS", "num_workers", 4, None),
        ("min(8, a.num_workers)", "num_workers", 4, None),
    ],
)
def test_an_expression_stays_in_the_script_and_what_feeds_it_is_named(
    tmp_path: Path, there: str, option: str, value: int | bool, typed: tuple[str, ...] | None
) -> None:
    (tmp_path / "s.py").write_text(f"{OPTIONS}DataLoader(d, {option}={there})\n")
    (found,) = python_lines({option: value}, f"{tmp_path / 's.py'}:6")
    assert (found.line, found.after, found.fed_by, found.typed) == (6, None, there, typed)


def test_options_are_also_found_in_the_script_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text("DataLoader(d, num_workers=args.num_workers)\n")
    (tmp_path / "train.py").write_text(OPTIONS)
    (found,) = python_lines({"num_workers": 4}, f"{tmp_path / 'data.py'}:1", [tmp_path / "train.py"])
    assert found.typed == ("--num-workers", "4")


@pytest.mark.parametrize("source", ["def broken(:\n", "x = 1\n", None])
def test_a_script_that_cannot_be_read_is_told_by_its_line(tmp_path: Path, source: str | None) -> None:
    if source is not None:
        (tmp_path / "s.py").write_text(source)
    (found,) = python_lines({"num_workers": 4}, f"{tmp_path / 's.py'}:1")
    assert (found.line, found.before, found.after) == (1, None, None)
    assert python_lines({"num_workers": 4}, None)[0].where == "where the script makes it"


def test_a_config_that_was_changed_meanwhile_is_left_alone(config: Path) -> None:
    from vtune.config.write_edit import write_edit
    from vtune.errors import UsageError

    with pytest.raises(UsageError, match="changed meanwhile"):
        write_edit(config, b"other", b"new")
    assert config.read_text() == CONFIG and os.listdir(config.parent).count("mine.yaml.bak") == 0


OWN_KNOBS = """\
  knobs:
    flip: {key: augmentation.flip, values: [0.1, 0.5]}
    loss: {flag: --loss, values: [dice, ce]}
"""


@pytest.fixture
def of_own_knobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a study whose winner turned knobs that only its experiment knows."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    config = tmp_path / "mine.yaml"
    text = CONFIG.replace("{config}", "{config} --loss dice").replace("training:", f"{OWN_KNOBS}training:")
    config.write_text(text + "augmentation:\n  flip: 0.3  # of both axes\n")
    asked = {"flip": 0.5, "loss": "ce"}
    write_study(tmp_path / "results", a_trial(1, 10.0), a_trial(2, 31.0, asked=asked))
    return config


def test_knobs_of_the_users_own_are_applied_through_their_key_and_flag(
    of_own_knobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["apply", "--config", "mine.yaml", "--write"]) == 0
    out, _ = out_of(capsys)
    assert "-  flip: 0.3  # of both axes\n+  flip: 0.5  # of both axes\n" in out
    assert "--loss ce" in out and "flip=0.5 may change the result" in out
    assert "  flip: 0.5  # of both axes\n" in of_own_knobs.read_text()


def test_reports_read_a_knob_that_no_experiment_knows_any_more(
    of_own_knobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_own_knobs.unlink()
    assert run(["report", "--study", "demo"]) == 0
    out, _ = out_of(capsys)
    assert "flip=0.5 loss=ce" in out
    header, *rows = (of_own_knobs.parent / "results" / "demo" / "trials.csv").read_text().splitlines()
    assert dict(zip(header.split(","), rows[1].split(","), strict=True))["setting.flip"] == "0.5"
    assert "flip" in (of_own_knobs.parent / "results" / "demo" / "report.md").read_text()
