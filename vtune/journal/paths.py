"""Every path of a study, in one place."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from vtune.journal.file_names import PROTECTION, WRITTEN_LIST


@dataclass(frozen=True, slots=True)
class TrialPaths:
    root: Path

    @property
    def spec(self) -> Path:
        return self.root / "spec.json"

    @property
    def limits(self) -> Path:
        return self.root / "limits.json"

    @property
    def protection(self) -> Path:
        return self.root / PROTECTION

    @property
    def written(self) -> Path:
        """What the training changed of the user's files, or would have: the list, and below `written/` the files."""
        return self.root / WRITTEN_LIST

    @property
    def not_restored(self) -> Path:
        """The files that could not be put back, with the reasons."""
        return self.root / "not-restored.json"

    @property
    def stop(self) -> Path:
        return self.root / "stop"

    @property
    def pythons(self) -> Path:
        return self.root / "pythons.jsonl"

    @property
    def telemetry(self) -> Path:
        return self.root / "telemetry.jsonl"

    @property
    def gpus(self) -> Path:
        return self.root / "gpus.json"

    @property
    def supervisor(self) -> Path:
        return self.root / "supervisor.json"

    @property
    def supervisor_log(self) -> Path:
        return self.root / "supervisor.log"

    @property
    def outcome(self) -> Path:
        return self.root / "outcome.json"

    @property
    def stacks_text(self) -> Path:
        return self.root / "stacks.txt"

    @property
    def stacks(self) -> Path:
        return self.root / "stacks.json"

    @property
    def output(self) -> Path:
        return self.root / "output"

    @property
    def stdout(self) -> Path:
        return self.root / "stdout.log"

    @property
    def stderr(self) -> Path:
        return self.root / "stderr.log"

    def step_records(self) -> list[Path]:
        return sorted(self.root.glob("steps-*.bin"))

    def step_facts(self) -> list[Path]:
        return sorted(self.root.glob("steps-*.jsonl"))

    def file_facts(self) -> list[Path]:
        return sorted(self.root.glob("files-*.jsonl"))

    def counts(self) -> list[Path]:
        return sorted(self.root.glob("counts-*.bin"))


@dataclass(frozen=True, slots=True)
class LaunchPaths:
    root: Path

    @property
    def launch(self) -> Path:
        return self.root / "launch.json"

    @property
    def events(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def log(self) -> Path:
        """What a guard without a terminal says."""
        return self.root / "guard.log"

    @property
    def attempts(self) -> Path:
        return self.root / "attempts"

    def attempt(self, number: int) -> TrialPaths:
        return TrialPaths(self.attempts / f"{number:02d}")

    def attempt_numbers(self) -> list[int]:
        return _numbers(self.attempts, r"\d{2,}")


@dataclass(frozen=True, slots=True)
class StudyPaths:
    root: Path

    @property
    def experiment(self) -> Path:
        return self.root / "experiment.yaml"

    @property
    def machine(self) -> Path:
        return self.root / "machine.json"

    @property
    def journal(self) -> Path:
        return self.root / "journal.jsonl"

    @property
    def choice(self) -> Path:
        return self.root / "choice.json"

    @property
    def phases(self) -> Path:
        return self.root / "phases.json"

    @property
    def search(self) -> Path:
        return self.root / "search.json"

    @property
    def report_md(self) -> Path:
        return self.root / "report.md"

    @property
    def trials_csv(self) -> Path:
        return self.root / "trials.csv"

    @property
    def scout_result(self) -> Path:
        return self.root / "scout.json"

    @property
    def ignored_flags(self) -> Path:
        return self.root / "ignored-flags.json"

    @property
    def compile_cache(self) -> Path:
        return self.root / "compile-cache"

    @property
    def lock(self) -> Path:
        return self.root / ".lock"

    @property
    def trials(self) -> Path:
        return self.root / "trials"

    @property
    def scout(self) -> TrialPaths:
        return TrialPaths(self.root / "scout")

    def trial(self, number: int) -> TrialPaths:
        return TrialPaths(self.trials / f"{number:04d}")

    def trial_numbers(self) -> list[int]:
        return _numbers(self.trials, r"\d{4,}")

    @property
    def launches(self) -> Path:
        return self.root / "launches"

    @property
    def launches_lock(self) -> Path:
        """Held by the supervisor of the launch that runs."""
        return self.launches / ".lock"

    def launch(self, number: int) -> LaunchPaths:
        return LaunchPaths(self.launches / f"{number:04d}")

    def launch_numbers(self) -> list[int]:
        return _numbers(self.launches, r"\d{4,}")


def _numbers(folder: Path, pattern: str) -> list[int]:
    if not os.path.isdir(folder):
        return []
    return sorted(int(path.name) for path in folder.iterdir() if re.fullmatch(pattern, path.name))


def last_study_file(results: Path) -> Path:
    """Names the study used last in a results folder, for commands without --config."""
    return results / ".last-study"
