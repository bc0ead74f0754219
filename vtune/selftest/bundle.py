"""One file to attach to an issue: table, machine, and the records that the verdicts can be made from again."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from vtune.domain.selftest import CellResult
from vtune.errors import UsageError
from vtune.journal.files import to_json
from vtune.journal.paths import TrialPaths
from vtune.selftest.cells import Cell
from vtune.selftest.readings import Records
from vtune.selftest.run import judge_cells
from vtune.selftest.sanitize import Sanitizer
from vtune.version import VERSION

FORMAT = 1
RECORDS = "records"
# Zip knows no time before this; when a record was made is nobody's business.
NO_TIME = (1980, 1, 1, 0, 0, 0)
# Of a bundle that somebody sent: no self-test needs more.
MOST_BYTES = 256 * 2**20
# Of these files this is all that is read again, or that helps whoever reads the bundle.
KEPT = {
    "spec.json": ("schema", "trial", "origin", "reason", "settings", "effects", "command"),
    "outcome.json": ("ended_by", "exit_code", "signal", "seconds", "stragglers", "shm_removed", "start_error"),
    "pythons.jsonl": ("t", "pid", "ppid", "python"),
    "supervisor.json": ("started_s",),
}
STDERR_CHARS = 16 * 1024
_WHICH = "name the bundle.zip that vtune doctor --selftest wrote"


def write_bundle(
    target: Path, records: Path, cells: Sequence[CellResult], survey: Any, sanitizer: Sanitizer, *, made: str
) -> None:
    """Complete or not there at all."""
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    about = {"bundle": FORMAT, "vtune": VERSION, "made": made, "machine": _machine(survey)}
    try:
        with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED) as bundle:
            _add(bundle, "about.json", _json(sanitizer.value(to_json(about))))
            _add(bundle, "table.json", _json(sanitizer.value(to_json(list(cells)))))
            for name, content in _contents(records, sanitizer):
                _add(bundle, f"{RECORDS}/{name}", content)
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


def replay(bundle: Path, cells: Sequence[Cell]) -> tuple[CellResult, ...]:
    """The verdicts anew, by the same functions, from what the bundle holds."""
    with tempfile.TemporaryDirectory(prefix="vt-") as folder:
        try:
            with zipfile.ZipFile(bundle) as packed:
                if sum(one.file_size for one in packed.infolist()) > MOST_BYTES:
                    raise UsageError(f"{bundle} is too large for a bundle", hint=_WHICH)
                packed.extractall(folder)  # zipfile itself leaves out `..` and leading slashes
        except (OSError, zipfile.BadZipFile) as error:
            raise UsageError(f"{bundle} is no bundle of a self-test: {error}", hint=_WHICH) from error
        return judge_cells(Records(Path(folder) / RECORDS), cells)


def _contents(records: Path, sanitizer: Sanitizer) -> Iterator[tuple[str, bytes]]:
    """By name: a file that nobody thought of stays here."""
    for run in sorted(path for path in records.iterdir() if path.is_dir()):
        for path in sorted([*run.glob("*.json"), *run.glob("truth.jsonl*")]):
            yield f"{run.name}/{path.name}", _sanitized(path, sanitizer)
        trial = TrialPaths(run / "trial")
        whole = [trial.spec, trial.outcome, trial.gpus, trial.telemetry, trial.pythons, trial.supervisor]
        for path in (*whole, *trial.step_facts()):
            if path.is_file():
                yield f"{run.name}/trial/{path.name}", _sanitized(path, sanitizer)
        for path in trial.step_records():
            if path.is_file():
                yield f"{run.name}/trial/{path.name}", path.read_bytes()  # numbers only
        if trial.stderr.is_file():
            words = trial.stderr.read_text(encoding="utf-8", errors="replace")
            yield f"{run.name}/trial/{trial.stderr.name}", _end_of(sanitizer.text(words)).encode()


def _end_of(clean: str) -> str:
    """Cut after it was sanitized: half a secret is not known for one. From a whole line on, where there is one."""
    if len(clean) <= STDERR_CHARS:
        return clean
    kept = clean[-STDERR_CHARS:]
    return kept.partition("\n")[2] or kept


def _sanitized(path: Path, sanitizer: Sanitizer) -> bytes:
    text = path.read_text(encoding="utf-8", errors="replace")
    kept = KEPT.get(path.name)
    if ".jsonl" not in path.name:
        return _json(_only(sanitizer.value(json.loads(text)), kept))
    lines = []
    for line in text.splitlines():
        try:
            item = json.loads(line)
        except ValueError:  # torn by a kill
            continue
        lines.append(json.dumps(_only(sanitizer.value(item), kept)))
    return "".join(f"{line}\n" for line in lines).encode()


def _only(item: Any, kept: Sequence[str] | None) -> Any:
    return item if kept is None else {name: item[name] for name in kept if name in item}


def _machine(survey: Any) -> Any:
    """The survey without its neighbours' processes."""
    told = to_json(survey)
    for one in (told.get("gpus") or {}).get("devices") or ():
        one.pop("processes", None)
    return told


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()


def _add(bundle: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, NO_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    bundle.writestr(entry, content)
