"""Calls of vtune with something hostile in them, each in a fresh folder, by a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from fuzz import hostile
from fuzz.world import EXPERIMENT, STUDY, TRAINING

Words = list[str]
# They read a config, and start nothing.
DRY = (["probe", "--dry-run"], ["phase", "--dry-run"], ["search", "--dry-run"], ["knobs"])
READERS = (
    *DRY, ["report"], ["report", "--format", "json"], ["report", "--format", "md,csv"], ["apply"], ["apply", "--write"],
    ["compare", "1", "2"], ["compare", "demo", "demo:3"], ["compare", "1", "2", "--race", "--dry-run"],
    ["launch", "--dry-run"], ["launch", "--dry-run", "--trial", "3"], ["launch", "--dry-run", "--force"],
)  # fmt: skip
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "probe": (
        "--set",
        "--steps",
        "--trial-time",
        "--startup-time",
        "--vram-limit",
        "--ram-limit",
        "--allow",
        "--price",
    ),
    "phase": ("--plan", "--up-to", "--set", "--steps", "--ram-limit", "--price", "--allow", "--trial-time"),
    "search": ("--trials", "--sampler", "--budget", "--set", "--steps", "--vram-limit"),
    "launch": ("--trial", "--set", "--grace", "--vram-limit", "--ram-limit"),
    "report": ("--format", "--vram-limit", "--ram-limit", "--price"),
    "apply": ("--trial", "--vram-limit", "--ram-limit"),
    "compare": ("--fail-if-slower", "--rounds"),
    "watch": ("--epochs", "--vram-limit", "--ram-limit", "--price"),
    "knobs": (),
    "doctor": ("--python",),
}
STUDY_FILES = (
    "journal.jsonl", "machine.json", "experiment.yaml", "choice.json", "scout.json", "ignored-flags.json",
    "trials/0001/spec.json", "trials/0002/spec.json", "trials/0002/outcome.json", "trials/0002/config.yaml",
    "trials/0002/steps-7.jsonl", "phases.json", "search.json", ".lock", "launches/0001/state.json",
    "launches/0001/launch.json", "report.md", "trials.csv",
)  # fmt: skip


def typed(random: Random) -> str:
    """A word as a shell can hand it on: without a NUL, and with bytes that are no UTF-8 as Python has them."""
    word = random.choice((hostile.value(random), hostile.value(random), "caf\udce9", "x" * 300, "\udcff/\udcfe"))
    return word.replace("\0", "").strip("\n") or "x"


def config_values(random: Random, folder: Path) -> Words:
    """A hostile value of a key of `vtune:`, right or misspelt."""
    keys = (
        "command", "config", "cwd", "study", "env", "limits", "window", "run", "machine", "launch", "resume", "price",
        "allow", "knobs", "settings", "on", "yes", "comand", hostile.value(random)[:40],
    )  # fmt: skip
    inner = (
        "ram",
        "vram",
        "steps",
        "max_steps",
        "trial_time",
        "epochs",
        "cores",
        "grace",
        "workers",
        "PATH",
        "lr",
        "on",
    )
    lines = EXPERIMENT.split("\n")
    for _ in range(random.randint(1, 3)):
        value = hostile.value(random)
        value = f"{{{random.choice(inner)}: {value}}}" if random.random() < 0.4 else value
        key = random.choice(keys)
        lines = [line for line in lines if not line.startswith(f"  {key}:")]
        lines.insert(1, f"  {key}: {value}")
    (folder / "exp.yaml").write_text("\n".join(lines), "utf-8", "surrogatepass")
    return [*random.choice(DRY), "--config", "exp.yaml"]


def config_text(random: Random, folder: Path) -> Words:
    path = folder / "exp.yaml"
    match random.randrange(8):
        case 0:
            hostile.other_kind(random, path)
        case 1:
            path.write_text(EXPERIMENT + random.choice(hostile.BOMBS))
        case _:
            path.write_bytes(hostile.spoilt_text(random, EXPERIMENT))
    return [*random.choice((*DRY, ["report"], ["apply"])), "--config", "exp.yaml"]


def training_config(random: Random, folder: Path) -> Words:
    suffix = random.choice(tuple(TRAINING))
    path = folder / f"user{suffix}"
    bombs = {".yaml": hostile.BOMBS, ".json": hostile.JSON_BOMBS, ".toml": hostile.TOML_BOMBS}[suffix]
    match random.randrange(8):
        case 0:
            hostile.other_kind(random, path)
        case 1:
            path.write_text(random.choice(bombs))
        case 2 | 3 if suffix == ".json":
            path.write_bytes(hostile.spoilt_json(random, TRAINING[suffix]))
        case _:
            path.write_bytes(hostile.spoilt_text(random, TRAINING[suffix]))
    if random.random() < 0.3:
        return [*random.choice(DRY), "--", "python", "train.py", "--config", path.name]
    return [*random.choice(DRY), "--config", f"named{suffix[1:]}.yaml"]


def flags(random: Random, folder: Path) -> Words:
    command = random.choice(tuple(OPTIONS))
    words = [command]
    if command in ("probe", "phase", "search", "launch"):
        words.append("--dry-run")
    if command in ("probe", "phase", "search", "knobs"):
        words += ["--config", "exp.yaml"]
    for _ in range(random.randint(1, 3)):
        known = (*OPTIONS[command], "--study", "--config", "--results", "--stpes", "--quiet", typed(random))
        option, word = random.choice(known), typed(random)
        words += random.choice(([option, word], [f"{option}={word}"], [option]))
    if command == "compare":
        words += random.choice((["1", "2"], ["demo:1", typed(random)], [typed(random)], []))
    if command == "watch":
        # A number could be somebody's process, and nothing would be looked at for eight seconds.
        words += ["no-such-study"]
    return words


def plans(random: Random, folder: Path) -> Words:
    path = folder / "plan.yaml"
    match random.randrange(8):
        case 0:
            hostile.other_kind(random, path)
        case 1:
            path.write_text(random.choice(hostile.BOMBS))
        case _:
            path.write_bytes(hostile.spoilt_text(random, path.read_text()))
    return ["phase", "--dry-run", "--config", "exp.yaml", "--plan", "plan.yaml"]


def study_files(random: Random, folder: Path) -> Words:
    study = folder / "results" / STUDY
    for name in random.sample(STUDY_FILES, random.randint(1, 2)):
        path = study / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text() if path.is_file() else '{"schema": 1}\n'
        match random.randrange(6):
            case 0:
                hostile.other_kind(random, path)
            case 1 | 2 if path.suffix == ".json":
                path.write_bytes(hostile.spoilt_json(random, text))
            case 1 | 2 if path.suffix == ".jsonl":
                lines = text.split("\n")
                at = random.randrange(len(lines))
                lines[at] = hostile.spoilt_json(random, lines[at] or "{}").decode("latin-1")
                path.write_bytes("\n".join(lines).encode("latin-1"))
            case _ if not path.is_dir():
                path.write_bytes(hostile.spoilt_text(random, text))
    words = random.choice(READERS)
    return [*words, *random.choice(([], ["--study", STUDY], ["--results", "results"]))]


def last_study(random: Random, folder: Path) -> Words:
    path = folder / "results" / ".last-study"
    if random.random() < 0.2:
        hostile.other_kind(random, path)
    else:
        named = random.choice((*hostile.VALUES, "../..", "/etc", "demo\ndemo", "demo\0", ".", "..", "demo/../demo"))
        raw = named.encode("utf-8", "surrogatepass") + random.choice((b"\n", b"", b"\xff", b"\0"))
        path.write_bytes(raw)
    return list(random.choice(READERS))


def names(random: Random, folder: Path) -> Words:
    name = typed(random)
    if random.random() < 0.3:
        name = random.choice(("x" * 256, "x" * 5000, "x/" * 2500, ".", "..", "/", "train.py", "results", "/dev/stdin"))
    if name == "/dev/stdin":  # a terminal would be waited for
        name = "/dev/null"
    option = random.choice(("--config", "--study", "--results", "--plan", "--trial"))
    match random.randrange(3):
        case 0:
            return [*random.choice(DRY), "--config", name]
        case 1:
            return ["compare", name, random.choice(("1", name)), "--results", random.choice(("results", name))]
    words = list(random.choice(READERS))
    return [*words, option, name]


def commands(random: Random, folder: Path) -> Words:
    """A training's command: nothing of it is started."""
    program = random.choice(("python", "./train.py", "python3", "nope", "torchrun", "env", typed(random)))
    words = [random.choice(("train.py", "--config", "-m", "-c", "--num-workers", typed(random))) for _ in range(4)]
    return [*random.choice(DRY), "--", program, *words[: random.randint(0, 4)]]


def results(random: Random, folder: Path) -> Words:
    path = folder / "result.json"
    if random.random() < 0.15:
        hostile.other_kind(random, path)
    else:
        path.write_bytes(hostile.spoilt_json(random, path.read_text()))
    return ["compare", *random.choice((["result.json", "1"], ["2", "result.json"], ["result.json", "result.json"]))]


KINDS: Mapping[str, Callable[[Random, Path], Words]] = {
    "values of vtune:": config_values,
    "text of a config": config_text,
    "the training's config": training_config,
    "flags": flags,
    "plans": plans,
    "files of a study": study_files,
    ".last-study": last_study,
    "names": names,
    "commands": commands,
    "results to compare": results,
}


def call(kind: str, seed: int, folder: Path) -> Words:
    """Spoils something in the folder, and gives the words of the call."""
    random = Random(f"{kind} {seed}")
    words = KINDS[kind](random, folder)
    if random.random() < 0.5:
        words.insert(1, "--json")
    return words
