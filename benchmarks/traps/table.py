"""The figures as Markdown: each tuner over all traps, then each trap."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sight
from score import FALSE_GAIN, Score, Truth, score, summary
from tuners import TUNERS

from traps import TRAPS, Trap, key_of, settled
from truth import truths_of

OF_ALL = (
    *((tuner.name, tuner.words) for tuner in TUNERS),
    ("vtune phase", "`vtune phase`, of each knob in turn the two values that its model likes best, by real trials"),
    ("vtune search", "`vtune search --trials 20`, all knobs together, by real trials"),
)  # fmt: skip
BEGIN, END = "<!-- figures: written by run.py -->", "<!-- end of the figures -->"


def told_of(out: Path) -> str:
    found = {trap.name: _read(out / f"{trap.name}.json") for trap in TRAPS}
    there = {name: told for name, told in found.items() if told is not None}
    if not there:
        return "Nothing was measured yet."
    lines = [*_head(there), "", *_peers(there), "", *_vtune(there)]
    for trap in TRAPS:
        if trap.name in there:
            lines += ["", *_trap(trap, there[trap.name])]
    return "\n".join(lines)


def _head(there: Mapping[str, Mapping[str, Any]]) -> list[str]:
    dates = sorted({told["date"] for told in there.values()})
    machines = sorted({told["machine"] for told in there.values()})
    minutes = sum(told["seconds"] for told in there.values()) / 60
    words = f"{' to '.join(dict.fromkeys((dates[0], dates[-1])))} · {'; '.join(machines)} · {minutes:.0f} min"
    words += ", repeats included · `python benchmarks/traps/run.py`"
    if any(told["quick"] for told in there.values()):
        words += " · **a quick run: no figures to rely on**"
    return [words]


def scored(told: Mapping[str, Any], trap: Trap, name: str) -> Score | None:
    """None where it was not asked, or cannot be judged."""
    row = told["tuners"].get(name)
    if row is None or "refused" in row:
        return None
    truths: dict[str, Truth] = truths_of(told["truth"])
    try:
        return score(
            truths,
            baseline=key_of(settled(trap, trap.baseline)),
            choice=row["key"] if row.get("choice") else None,
            claimed=row["claimed"],
            seconds=row["seconds"],
        )
    except (KeyError, ValueError):
        return None


def _peers(there: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = [
        "### The tuners",
        "",
        "| tuner | as asked | traps it was made for | mean regret | worst | within 5 % | runs that die"
        " | false gains | minutes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, words in OF_ALL:
        scores = [
            one for trap in TRAPS if trap.name in there and (one := scored(there[trap.name], trap, name)) is not None
        ]
        if not scores:
            continue
        all_of = summary(scores)
        lines.append(
            f"| {name} | {words} | {all_of.traps} of {len(there)} | {all_of.mean_regret:.0%}"
            f" | {all_of.worst_regret:.0%} | {all_of.within_5_percent} | {all_of.broken} | {all_of.false_gains}"
            f" | {all_of.seconds / 60:.1f} |"
        )
    lines += [
        "",
        "Regret: what the chosen settings lose against the best whole run under the limits, 100 % where the chosen run"
        f" dies. A false gain is a claimed speed-up that is more than {FALSE_GAIN:.0%} above the true one.",
        "",
        "| trap | " + " | ".join(name for name, _ in OF_ALL) + " |",
        "|---|" + "---|" * len(OF_ALL),
    ]
    for trap in TRAPS:
        if trap.name in there:
            told = there[trap.name]
            cells = [told.get("skipped") or _cell(told, trap, name) for name, _ in OF_ALL]
            lines.append(f"| {trap.words} | " + " | ".join(cells) + " |")
    return lines


def _cell(told: Mapping[str, Any], trap: Trap, name: str) -> str:
    row = told["tuners"].get(name)
    if row is None:
        return "not asked yet"
    if "refused" in row:
        return row["refused"].split(":")[0]
    judged = scored(told, trap, name)
    if judged is None:
        return "not judged"
    words = [f"{judged.regret:.0%}", row["key"] if row.get("choice") else row.get("failed", "no choice")]
    if judged.broke:
        words[0] = "**dies**"
    if row["claimed"] is not None and (judged.is_false_gain or row["claimed"] > 1 + FALSE_GAIN):
        claim = f"claims {row['claimed']:.1f}×, true {judged.true:.1f}×"
        words.append(f"**{claim}**" if judged.is_false_gain else claim)
    if row.get("trials"):
        words.append(f"{row['trials']} trials")
    if row.get("besides"):
        words.append(f"and {', '.join(row['besides'])}")
    return " · ".join(words).replace("|", "/")


def _vtune(there: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = [
        "### What `vtune probe` sees",
        "",
        "Of the author's own settings and of the bait, the settings that a short trial flatters: how far its rate is"
        " off that of the whole run, or the end that it names.",
        "",
        "| trap | own settings | bait | sees it | seconds |",
        "|---|---|---|---|---|",
    ]
    seen = asked = 0
    for trap in TRAPS:
        told = there.get(trap.name)
        row = told["tuners"].get("vtune") if told else None
        if told is None or row is None:
            continue
        truths = truths_of(told["truth"])
        cells, good = dict.fromkeys(("own", "bait"), "not asked"), True
        for which, probe in row["probes"].items():
            true = truths.get(probe["key"])
            is_right, words = sight.judged(trap, probe, true.samples_per_s if true else None, of_bait=which == "bait")
            good &= is_right
            cells[which] = f"{probe['key']}: {words}".replace("|", "/")
        asked += 1
        seen += good
        seconds = sum(probe["seconds"] for probe in row["probes"].values())
        lines.append(f"| {trap.words} | {' | '.join(cells.values())} | {'yes' if good else '**no**'} | {seconds:.0f} |")
    return [*lines, "", f"{seen} of {asked} traps seen."]


def _trap(trap: Trap, told: Mapping[str, Any]) -> list[str]:
    lines = [f"#### {trap.name}: {trap.words}", "", f"{told['date']} · `{told['command']}`", ""]
    if "skipped" in told:
        return [*lines, f"Left out: {told['skipped']}."]
    lines += ["| settings | samples/s of the whole run | |", "|---|---|---|"]
    own, bait = key_of(settled(trap, trap.baseline)), key_of(settled(trap, trap.bait))
    for row in sorted(told["truth"], key=lambda row: -(row["samples_per_s"] or 0.0)):
        role = "the author's own" if row["key"] == own else "bait" if row["key"] == bait else ""
        lines.append(f"| {row['key']} | {row['broke'] or format(row['samples_per_s'], '.1f')} | {role} |")
    return lines


def _read(path: Path) -> dict[str, Any] | None:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None
