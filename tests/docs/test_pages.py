"""Every page: its links lead somewhere, its commands exist, nothing in it is true on one machine only."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
FENCE = re.compile(r"^(`{3,})([^\n]*)\n(.*?)^\1\s*$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
SHELLS = {"", "sh", "bash", "shell", "console"}
# In pieces, or this file would be found by its own check.
MACHINE_PATHS = re.compile(r"(?<![\w.~-])(/wo{}rk/|/ro{}ot/|/opt/wh{}eels|/tmp/bash{}_jobs)".replace("{}", ""))


def test_every_link_inside_the_repository_leads_to_a_file_and_its_heading(pages: list[Path], root: Path) -> None:
    broken = []
    for page in pages:
        for target in LINK.findall(_prose(page)):
            parts = urlsplit(target)
            if parts.scheme:
                continue
            where = (page.parent / parts.path).resolve() if parts.path else page
            if not where.exists():
                broken.append(f"{page.relative_to(root)}: {target}: no such file")
            elif parts.fragment and where.suffix == ".md" and parts.fragment not in _anchors(where):
                broken.append(f"{page.relative_to(root)}: {target}: no such heading")
    assert not broken


def test_every_make_target_and_vtune_option_in_a_code_block_exists(pages: list[Path], root: Path) -> None:
    wrong = []
    for page in pages:
        for command in _commands(page):
            problem = _problem(command, root)
            if problem:
                wrong.append(f"{page.relative_to(root)}: {shlex.join(command)}: {problem}")
    assert not wrong


def test_the_readme_shows_the_two_commands_of_a_newcomer(root: Path) -> None:
    commands = list(_commands(root / "README.md"))
    assert ["make", "demo"] in commands
    assert ["make", "test"] in commands


def test_the_quick_commands_of_the_readme_run(root: Path) -> None:
    for command in _commands(root / "README.md"):
        if command[0] == "vtune" and {"--help", "--version"}.intersection(command):
            ran = _vtune(command[1:], root)
            assert ran.returncode == 0, ran.stderr


def test_the_readmes_tree_names_every_package_and_every_top_folder(root: Path, tracked_files: list[Path]) -> None:
    tree = _readme_tree(root)
    folders = {path.parent.name for path in (root / "vtune").glob("*/__init__.py")}
    folders |= {path.relative_to(root).parts[0] for path in tracked_files if path.parent != root}
    modules = {path.name for path in (root / "vtune").glob("*.py")} - {"__init__.py", "__main__.py", "version.py"}
    expected = [f"{name}/" for name in folders if not name.startswith(".")] + list(modules)
    assert sorted(name for name in expected if not re.search(rf"(?<![\w.]){re.escape(name)}", tree)) == []


def test_the_readmes_tree_names_nothing_that_is_not_there(root: Path) -> None:
    known = {path.name for folder in ("", "docs", "tests") for path in (root / folder).iterdir()}
    known |= {path.name for path in (root / "vtune").rglob("*")}
    entry = re.compile(r"^[\s│├└─]*([\w.-]+)(?:/|(?<=\.py)|(?<=\.md)|(?<=\.txt)|(?<=\.toml))(?=\s|$)", re.MULTILINE)
    assert [name for name in entry.findall(_readme_tree(root)) if name not in known] == []


def test_decisions_are_numbered_without_gaps(root: Path) -> None:
    decisions = sorted((root / "docs" / "decisions").glob("*.md"))
    numbers = [re.match(r"(\d{4})-[a-z0-9-]+\.md$", path.name) for path in decisions]
    assert [int(found[1]) if found else 0 for found in numbers] == list(range(1, len(decisions) + 1))
    for path in decisions:
        assert path.read_text(encoding="utf-8").startswith(f"# {path.name[:4]} · "), (
            f"{path.name} must open with its number"
        )


def test_nothing_tells_of_the_machine_that_it_was_written_on(tracked_files: list[Path], root: Path) -> None:
    hosts = _registry_hosts()
    told = []
    for path in tracked_files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if MACHINE_PATHS.search(line) or any(host in line for host in hosts):
                told.append(f"{path.relative_to(root)}:{number}")
    assert not told


def test_the_version_stands_in_one_place_and_heads_the_changelog(root: Path, tracked_files: list[Path]) -> None:
    from vtune.version import VERSION

    assert "version" in tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dynamic"]
    latest = re.search(r"^## (\S+)", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert latest and latest[1] == VERSION
    sources = [path for path in tracked_files if path.suffix in (".py", ".toml")]
    assert [path.name for path in sources if f'"{VERSION}"' in path.read_text(encoding="utf-8")] == ["version.py"]


def test_the_pinned_torch_and_typer_are_within_what_the_project_asks_for(root: Path) -> None:
    pins = dict(
        re.findall(r"^([\w.-]+)==([\w.]+)", (root / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert pins["torch"] == "2.13.0"
    assert pins["typer"].startswith(("0.27.", "0.28."))
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(name for extra in project["optional-dependencies"].values() for name in extra)]
    named = {re.split(r"[<>=!~; ]", requirement, maxsplit=1)[0].lower() for requirement in asked}
    # Its own extras are named as parts of itself.
    assert named - set(pins) == {"vtune[seg]"}


def _prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them from headings."""
    plain = (re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()) for heading in HEADING.findall(_prose(page)))
    return {heading.replace(" ", "-") for heading in plain}


def _commands(page: Path) -> Iterator[list[str]]:
    """Every `make …` and `vtune …` line of a shell block, without prompt, comment and continuation."""
    for _, language, body in FENCE.findall(page.read_text(encoding="utf-8")):
        if language.strip() not in SHELLS:
            continue
        for line in body.replace("\\\n", " ").splitlines():
            bare = line.strip().removeprefix("$ ")
            if not bare.startswith(("make ", "vtune ", "vtune\t")):
                continue
            try:
                yield shlex.split(bare, comments=True)
            except ValueError as error:
                pytest.fail(f"{page.name}: {bare}: {error}")


def _problem(command: list[str], root: Path) -> str | None:
    if command[0] == "make":
        planned = subprocess.run(["make", "-n", *command[1:]], cwd=root, capture_output=True, text=True)
        return planned.stderr.strip() if planned.returncode else None
    ours = command[1 : command.index("--")] if "--" in command else command[1:]
    verb = [word for word in ours[:1] if not word.startswith("-")]
    shown = _vtune([*verb, "--help"], root)
    if shown.returncode:
        return shown.stderr.strip()
    for word in ours[len(verb) :]:
        option = word.split("=", 1)[0]
        if option.startswith("-") and not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", shown.stdout):
            return f"vtune {' '.join(verb)} has no {option}"
    configs = [word for word in ours if word.startswith("configs/") and "NAME" not in word]
    return next((f"no {name}" for name in configs if not (root / name).is_file()), None)


def _vtune(arguments: list[str], root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "vtune", *arguments], cwd=root, capture_output=True, text=True)


def _readme_tree(root: Path) -> str:
    blocks = [body for _, _, body in FENCE.findall((root / "README.md").read_text(encoding="utf-8"))]
    trees = [body for body in blocks if "vtune/" in body and "configs/" in body]
    assert len(trees) == 1, "README.md must hold exactly one tree"
    return trees[0]


def _registry_hosts() -> set[str]:
    """Hosts that pip is configured with here; none where nothing is configured."""
    configured = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    found = (urlsplit(url).hostname for url in re.findall(r"https?://[^\s'\"]+", configured))
    return {host for host in found if host}
