"""What `vtune compare` answers to a person and to a CI job: its verdicts, refusals and exit codes, on real studies.

A study of another machine, and ones that read their data cold or warm, are copies in which that alone is changed: there
is one machine here, and its trainings read nothing.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launches import TRAINING, Bench, Failed
from table import Claim, share

COMMAND = ("--workers", "2", "--prefetch", "2", "--sample-ms", "10", "--cv", "0.1")
COMPUTE_MS = 10.0
# Far beyond what two launches differ by: what is tried here is the answer, not how fine the eye is.
SLOWER = 1.25


@dataclass(frozen=True)
class Question:
    arguments: tuple[str, ...]
    code: int
    # The verdict of an answer, or a word that a refusal says.
    says: str


QUESTIONS = (
    Question(("base", "again"), 0, "tie"),
    Question(("base", "again", "--fail-if-slower", "3%"), 0, "tie"),
    Question(("base", "slower"), 0, "slower"),
    Question(("base", "slower", "--fail-if-slower", "3%"), 1, "slower"),
    Question(("base", "slower", "--fail-if-slower", "50%"), 0, "slower"),
    Question(("slower", "base", "--fail-if-slower", "3%"), 0, "faster"),
    Question(("base", "elsewhere"), 2, "machine"),
    Question(("base", "elsewhere", "--fail-if-slower", "3%"), 2, "machine"),
    Question(("base", "elsewhere", "--force"), 0, "tie"),
    Question(("cold", "warm"), 2, "cold"),
    Question(("cold", "warm", "--force"), 0, "tie"),
    Question(("base", "failed"), 2, "no trial"),
    Question(("base", "nowhere"), 2, "nowhere"),
)
QUICK = QUESTIONS[:1]


def measure(bench: Bench) -> dict[str, Any]:
    prepare(bench)
    rows = []
    questions = QUICK if bench.quick else QUESTIONS
    bench.tell(f"{len(questions)} questions, a second each")
    for question in questions:
        said = bench.vtune("compare", *question.arguments, "--json", "--results", bench.scratch)
        rows.append({"arguments": question.arguments, "code": said.code, "says": words_of(said.stdout)})
        bench.keep({"rows": rows, "failures": []})
    return {"rows": rows, "failures": []}


def prepare(bench: Bench) -> None:
    def train(study: str, seed: int, times: float = 1.0) -> None:
        bench.tell(f"probe for the study {study}")
        wanted = [*COMMAND, "--compute-ms", f"{COMPUTE_MS * times:g}", "--seed", str(seed)]
        bench.probe(study, [sys.executable, TRAINING, *wanted])

    train("base", 1)
    train("again", 2)
    if bench.quick:
        return
    train("slower", 3, SLOWER)
    # A training that ends before it has stepped; the study has a trial without a rate.
    bench.vtune(
        *("probe", "--quiet", "--study", "failed", "--results", str(bench.scratch), "--"),
        *(sys.executable, str(TRAINING), "--workers", "-1"),
    )
    copied(bench.scratch, "again", "elsewhere", machine=lambda told: told | {"cpu_model": "another processor"})
    copied(bench.scratch, "base", "cold", record=lambda told: told | {"cache": "cold"})
    copied(bench.scratch, "again", "warm", record=lambda told: told | {"cache": "warm"})


Edit = Callable[[dict[str, Any]], dict[str, Any]]


def copied(results: Path, source: str, name: str, *, machine: Edit | None = None, record: Edit | None = None) -> None:
    folder = results / name
    shutil.copytree(results / source, folder)
    if machine is not None:
        path = folder / "machine.json"
        path.write_text(json.dumps(machine(json.loads(path.read_text(encoding="utf-8")))), encoding="utf-8")
    if record is not None:
        path = folder / "journal.jsonl"
        told = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        edited = [record(one) if "samples_per_s" in one else one for one in told]
        path.write_text("".join(json.dumps(one) + "\n" for one in edited), encoding="utf-8")


def words_of(stdout: str) -> str:
    """The verdict, or the refusal."""
    try:
        told = json.loads(stdout)
    except ValueError:
        raise Failed(f"not one JSON object: {stdout[:200]!r}") from None
    return str(told.get("verdict") or told.get("error"))


def as_asked(row: dict[str, Any]) -> bool:
    question = next(one for one in QUESTIONS if list(one.arguments) == list(row["arguments"]))
    said = row["says"] == question.says if question.code < 2 else question.says in row["says"]
    return bool(row["code"] == question.code and said)


def claims(data: dict[str, Any]) -> list[Claim]:
    rows = data["rows"]
    right = sum(map(as_asked, rows))
    figure = share(right, len(rows)) if rows else "none"
    return [Claim("`vtune compare` answers as it says it does", "all", figure, bool(rows) and right == len(rows))]


def lines(data: dict[str, Any]) -> list[str]:
    out = [
        "`again` is `base` once more, `slower` truly takes 25 % longer a step; `elsewhere` was measured on another"
        " machine, `cold` and `warm` read their data so, `failed` has no rate, `nowhere` does not exist.",
        "",
        "| command | exit code | says | |",
        "|---|---|---|---|",
    ]
    for row in data["rows"]:
        command = " ".join(["vtune compare", *row["arguments"]])
        says = row["says"].replace("|", "\\|")
        out.append(f"| `{command}` | {row['code']} | {says} | {'as said' if as_asked(row) else '**not as said**'} |")
    return out
