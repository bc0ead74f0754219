"""The list of changes from the entries that the hooks kept."""

import json
from pathlib import Path

from vtune.execution.kept_files import Entry, list_changes


def test_only_a_folder_of_that_very_name_is_a_cache(tmp_path: Path) -> None:
    names = ("__pycache__/a.pyc", "__pycache__old/x", "my__pycache__", "b.pt")
    entries = []
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        entries.append(Entry(str(tmp_path / "kept"), "nothing", {"path": str(tmp_path / name)}))
    list_changes(str(tmp_path), entries)
    new = json.loads((tmp_path / "written.json").read_text())["new"]
    assert [str(Path(path).relative_to(tmp_path)) for path in new] == ["__pycache__old/x", "b.pt", "my__pycache__"]
