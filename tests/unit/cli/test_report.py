import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.studies import a_failure, a_trial, write_study
from vtune.cli.main import run

FOUR = {"workers": 4}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def a_study(here: Path, name: str = "demo") -> Path:
    return write_study(here / "results", a_trial(1, 10.0), a_trial(2, 31.0, asked=FOUR), a_failure(3), name=name).root


def test_the_study_used_last_is_summarized_and_its_files_are_written(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_study(here)
    assert run(["report"]) == 0
    said = capsys.readouterr()
    assert "adopt workers=4 (trial 2): 3.1×" in said.out and "study demo in results" in said.err
    assert (folder / "report.md").read_text().startswith("# demo\n\n**adopt workers=4")
    assert b"\r\n2,probe,completed,true,false,4," in (folder / "trials.csv").read_bytes()
    assert json.loads((folder / "choice.json").read_text())["best"] == 2
    assert sorted(path.name for path in folder.iterdir()) == ["choice.json", "journal.jsonl", "report.md", "trials.csv"]


def test_json_is_one_object_with_what_is_promised(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = a_study(here)
    assert run(["report", "--json", "--quiet"]) == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert said.err == ""
    assert {"study", "baseline", "best", "speedup", "speedup_ci95", "tie", "trials", "choice"} <= set(told)
    assert told["baseline"]["trial"] == 1 and told["best"]["trial"] == 2 and told["speedup"] == pytest.approx(3.1)
    assert [trial["trial"] for trial in told["trials"]] == [1, 2, 3]
    assert told["choice"] == json.loads((folder / "choice.json").read_text())


def test_a_single_format_stands_on_stdout_as_it_is_in_its_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = a_study(here)
    assert run(["report", "--format", "md"]) == 0
    assert capsys.readouterr().out == (folder / "report.md").read_text()
    assert not (folder / "trials.csv").exists()
    assert run(["report", "--format", "csv"]) == 0
    table = capsys.readouterr().out
    assert len(list(csv.DictReader(io.StringIO(table, newline="")))) == 3 and table.count("\r\n") == 4


def test_several_formats_are_written_and_json_goes_to_stdout(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = a_study(here)
    assert run(["report", "--format", "csv,md,json"]) == 0
    said = capsys.readouterr()
    names = ("report.md", "trials.csv", "choice.json")
    assert said.err.endswith(f"written: {' · '.join(f'results/demo/{name}' for name in names)}\n")
    assert json.loads(said.out)["study"] == "demo"
    assert (folder / "report.md").exists() and (folder / "trials.csv").exists()


def test_limits_choose_again_and_no_feasible_trial_is_no_failure_of_a_report(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_study(here)
    assert run(["report", "--ram-limit", "1GiB"]) == 0
    assert "no trial fits the limits; trial 1 is nearest: --ram-limit 3GiB" in capsys.readouterr().out


def test_limits_typed_for_a_what_if_leave_the_files_of_the_study_alone(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = a_study(here)
    assert run(["report"]) == 0
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    assert run(["report", "--ram-limit", "1GiB"]) == 0
    said = capsys.readouterr()
    assert "a what-if, with a RAM limit of 1GiB (the study's own: none)" in said.err and "a what-if" in said.out
    assert "written:" not in said.err and "report.md" not in said.out
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == kept
    assert run(["report", "--ram-limit", "1GiB", "--format", "csv,md,json"]) == 0
    assert "report.md · " in capsys.readouterr().err and "a what-if" in (folder / "report.md").read_text()
    assert (folder / "choice.json").read_bytes() == kept["choice.json"]
    (folder / "experiment.yaml").write_text("vtune:\n  command: /not/here\n  limits: {ram: 1GiB}\n")
    assert run(["report", "--ram-limit", "1024MiB"]) == 0
    assert "what-if" not in capsys.readouterr().err
    assert json.loads((folder / "choice.json").read_text())["best"] is None


@pytest.mark.parametrize("journal", [b"", b'{"torn', b"garbage\n", b'{"schema": 99, "trial": 1}\n'])
def test_a_study_without_a_readable_trial_is_reported(
    here: Path, capsys: pytest.CaptureFixture[str], journal: bytes
) -> None:
    folder = a_study(here)
    (folder / "journal.jsonl").write_bytes(journal)
    for arguments in ([], ["--json"], ["--format", "md"], ["--format", "csv"]):
        assert run(["report", *arguments]) == 0
    said = capsys.readouterr().out
    assert "no trial was recorded yet" in said and ("left out" in said) == bool(journal)


def test_lines_run_together_and_written_twice_are_said_and_what_can_be_read_is(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = a_study(here) / "journal.jsonl"
    first, second, third = journal.read_bytes().splitlines()
    journal.write_bytes(first + second + b"\n" + third + b"\n" + second + b"\n" + first[:200] + third + b"\n")
    assert run(["report", "--json", "--quiet"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [trial["trial"] for trial in told["trials"]] == [1, 2, 3] and told["best"]["trial"] == 2
    notes = " ".join(told["notes"])
    assert "2 lines of the journal held more than one record" in notes and "up to 1 of their records" in notes
    assert "trials 2, 3 stand in more than one line of the journal: their last line" in notes


def test_the_machines_cores_tell_what_neighbours_may_have_taken(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    busy = {"others_cores": 1.4}
    trials = [a_trial(1, 10.0, measured=busy), a_trial(2, 11.5, asked=FOUR, measured=busy)]
    paths = write_study(here / "results", *trials)
    for cores, best in ((2.0, 1), (64.0, 2)):
        machine = {"host": "h", "kernel": "6", "cpu_model": None, "cores": cores, "ram_bytes": None, "shm_bytes": None}
        paths.machine.write_text(json.dumps(machine))
        assert run(["report", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["best"]["trial"] == best and told["choice"]["unconfirmed"] == ([] if best == 1 else [1, 2])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--study", "dmeo"], ["no study dmeo", "--study demo"]),
        (["--study", "../demo"], ["--study must"]),
        (["--results", "nowhere"], ["no folder nowhere"]),
        (["--format", "html"], ["md, csv or json", "html"]),
        (["--format", ""], ["--format must"]),
        (["--ram-limit", "lots", "--price", "cheap"], ["--ram-limit must", "--price must"]),
        (["--config", "missing.yaml"], ["missing.yaml"]),
    ],
)
def test_wrong_usage_is_told_and_writes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    folder = a_study(here)
    assert run(["report", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == "" and all(word in said.err for word in words)
    assert [path.name for path in folder.iterdir()] == ["journal.jsonl"]
    assert run(["report", "--json", *arguments]) == 2
    assert json.loads(capsys.readouterr().out)["exit_code"] == 2


def test_a_config_names_its_study_also_where_its_training_is_not(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a_study(here, "scrolls")
    a_study(here, "other")
    (here / "scrolls.yaml").write_text("vtune:\n  command: /not/here/python train.py\n  limits: {ram: 1GiB}\n")
    assert run(["report", "--config", "scrolls.yaml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["study"] == "scrolls" and told["best"] is None


def test_where_nothing_can_be_written_the_report_is_still_shown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = a_study(here)
    (folder / "report.md").mkdir()
    assert run(["report"]) == 0
    said = capsys.readouterr()
    assert "report.md was not written" in said.err and "in report.md" not in said.out
    assert said.err.endswith("written: results/demo/trials.csv · results/demo/choice.json\n")
    (folder / "trials.csv").unlink()
    (folder / "choice.json").unlink()
    for name in ("trials.csv", "choice.json"):
        (folder / name).mkdir()  # stands in the way, also of root
    assert run(["report", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["best"]["trial"] == 2 and said.err.count("was not written") == 3
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


WITHOUT_POSIX = """
import sys
for name in ("fcntl", "termios", "resource", "pwd", "grp"):
    sys.modules[name] = None
from vtune.cli.main import run
sys.exit(run(["report", "--json"]))
"""


def test_what_runs_trials_can_be_imported_there_to_say_no() -> None:
    script = WITHOUT_POSIX.rpartition("from")[0] + "import vtune.api"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_platform_that_cannot_run_trials_reads_reports(here: Path) -> None:
    a_study(here)
    done = subprocess.run([sys.executable, "-c", WITHOUT_POSIX], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["best"]["trial"] == 2


def test_stdout_without_unicode_gets_the_documents_own_encoding(here: Path) -> None:
    a_study(here)
    for arguments in ([], ["--format", "md"]):
        done = subprocess.run(
            [sys.executable, "-m", "vtune", "report", *arguments], capture_output=True, timeout=60,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )  # fmt: skip
        assert done.returncode == 0 and "×" in done.stdout.decode()
