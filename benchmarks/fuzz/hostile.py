"""Hostile values, and how a text or a file is spoilt. Each choice is drawn from one seeded generator."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

# As YAML text: most of them are also values of JSON or TOML, or a mistake there.
VALUES = (
    "", "null", "true", "yes", "on", "off", "0", "-1", "1", "3.5", "-0.0", "1e308", "1e999", ".inf", "-.inf", ".nan",
    "nan", "0x10", "0o17", "0b11", "1_000", "1:30", "2026-01-01", "2026-13-45", "=", "<<", "[]", "{}", "[[]]", "[{}]",
    "[null]", "{a: {b: {c: 1}}}", "[1, [2, [3]]]", '""', '" "', '"\\0"', '"\\ud800"', '"\\ud83d\\ude00"', '"\\u2028"',
    "é", "🎉", '"a\\nb"', "'it''s'", "../../x", "/", "/dev/zero", "/dev/full", "/proc/self/mem", "~nobody/x",
    "{config}", "{python}", "{pyhton}", "$(x)", "${x}", "a && b", "python", "python train.py",
    "python train.py {config}",
    "-", "-c", "--", "%", "0%", "50%", "100%", "101%", "1GiB", "-1GiB", "0B", "1ib", "3m", "0s", "900h", "3.67/h",
    "EUR 0/h", "same", "close", "x2", "x0", "x9999", "workers=4", "workers=", "=4", "workers=-1", "bogus=1",
    "batch_size=999999999999", "{workers: 4}", "{workers: [1, 2]}", "{workers: {key: a.b, values: [1, x]}}",
    "{mine: {flag: --mine, values: [1, 2]}}", "{on: {key: a}}", "{yes: 1}", "{1: 2}", "{null: 1}", "{2026-01-01: 1}",
    "&a [*a]", "*nowhere", "!!python/object:os.system x", "!include x", "!!binary x", "!!int x", "!!float 1:1:1",
    "|\n  text\n", "? a\n: b", "a: b: c", "[1, 2", "{a: 1", "\t", "@", "`", "9" * 400, "9" * 5000, "-" + "9" * 5000,
    "0x" + "f" * 3000,
    "1:" * 2000 + "1", "a" * 256, "a" * 5000, "a/" * 3000, "a." * 3000 + "a",
    "[" * 3000, "{a: " * 3000,
    "- " * 2000, "a b " * 2000,
)  # fmt: skip

# 611 bytes that merge into 10**9 keys, and what else grows out of a few lines.
BOMBS = (
    "a0: &a0 {x: 1, y: 2}\n"
    + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12)),
    "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)),
    "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 300)),
    "a: " + "1:" * 20_000 + "1\n",
    "a: " + "[" * 20_000,
    "a: " + "{a: " * 20_000,
    "- " * 20_000,
    "".join(f"k{n}: {{a: {n}}}\n" for n in range(3000)),
    '"' + "a" * 100_000 + '": 1\n',
    "? " * 5_000,
    "a: |\n" + "  x\n" * 20_000,
    "#" * 100_000 + "\na: 1\n",
    "&a " * 1000,
    "a: &a\n  b: *a\n",
)
TOML_BOMBS = (
    ".".join("a" * 50_000) + " = 1\n",
    "[" + ".".join("a" * 50_000) + "]\n",
    "a = " + "[" * 20_000,
    "a = " + "{a = " * 5000,
    "a = " + "9" * 5000,
    "a = 0x" + "f" * 5000,
    "".join(f"[[a]]\nb = {n}\n" for n in range(3000)),
)
JSON_BOMBS = (
    "[" * 100_000,
    '{"a":' * 100_000,
    '{"a": ' + "9" * 5000 + "}",
    '{"a": "\\ud800"}',
    '{"a": NaN, "a": 1e999}',
)
ENCODINGS = ("utf-16", "utf-32", "latin-1", "utf-8-sig", "utf-7")


def value(random: Random) -> str:
    return random.choice(VALUES)


def spoilt_text(random: Random, text: str) -> bytes:
    """One to three mutations of a text, by line, character, value or encoding."""
    for _ in range(random.randint(1, 3)):
        lines = text.split("\n")
        at = random.randrange(len(lines))
        place = random.randrange(len(text) + 1)
        match random.randrange(9):
            case 0:
                del lines[at]
                text = "\n".join(lines)
            case 1:
                text = "\n".join([*lines[:at], lines[at], *lines[at:]])
            case 2:
                key, colon, _ = lines[at].partition(": ")
                lines[at] = f"{key}{colon}{value(random)}" if colon else value(random)
                text = "\n".join(lines)
            case 3:
                text = text[:place] + random.choice("\t\x00\x07:#{}[]&*!|>'\"%@`-,\u2028\u0085é🎉\ufeff") + text[place:]
            case 4:
                text = text[:place]
            case 5:
                text = text[:place] + random.choice(BOMBS) + text[place:] if random.random() < 0.3 else text + text
            case 6:
                lines.insert(at, f"{value(random)[:60]}: {value(random)}")
                text = "\n".join(lines)
            case 7:
                text = text.replace("\n", random.choice(("\r\n", "\r", "\n\n", "\n\t")))
            case _:
                text = text.replace(random.choice(("1", "a", ":", '"', "null", "e")), value(random), 2)
    raw = text.encode("utf-8", "surrogatepass")
    match random.randrange(12):
        case 0:
            return text.encode(random.choice(ENCODINGS), "replace")
        case 1:
            at = random.randrange(len(raw) + 1)
            return raw[:at] + bytes([random.randrange(256)]) + raw[at:]
    return raw


def spoilt_json(random: Random, text: str) -> bytes:
    """A value somewhere in it is another one, or it is spoilt as a text."""
    if random.random() < 0.3:
        return spoilt_text(random, text)
    if random.random() < 0.1:
        return random.choice(JSON_BOMBS).encode()
    other = random.choice(
        (None, True, 0, -1, 10**400, 1e308, "", "text", "\ud800", "\0", "a" * 300, [], {}, [[]], [None], {"a": 1}, "[]")
    )
    try:
        data = json.loads(text)
        places = list(_places(data))
        if not places or random.random() < 0.1:
            data = other
        else:
            above, key = random.choice(places)
            above[key] = other
        return json.dumps(data).encode()
    except ValueError:
        return spoilt_text(random, text)


def _places(data: object) -> list[tuple[dict[str, object] | list[object], object]]:
    found: list[tuple[dict[str, object] | list[object], object]] = []
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, inner in pairs:
        found.append((data, key))  # type: ignore[arg-type]
        found += _places(inner)
    return found


def other_kind(random: Random, path: Path) -> None:
    """Something that is no file stands in its place."""
    kinds: tuple[Callable[[], object], ...] = (
        lambda: os.mkfifo(path),
        lambda: path.mkdir(),
        lambda: path.symlink_to(path.name),
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to("/dev/full"),
        lambda: path.symlink_to("/proc/self/mem"),
        lambda: path.write_bytes(b""),
        lambda: path.write_bytes(bytes(range(256)) * 64),
    )
    path.unlink(missing_ok=True)
    random.choice(kinds)()
