"""The config of a full run: the user's own file with the settings in it, as `vtune apply` would write it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vtune.config.edit import edited, with_value
from vtune.config.edit_problem import CannotEdit
from vtune.config.trial_config import write_trial_config
from vtune.domain.effects import ConfigValue
from vtune.domain.experiment import Workload


def write_launch_config(workload: Workload, changes: Mapping[tuple[str, ...], ConfigValue], target: Path) -> None:
    """Comments and all other bytes stay, but for vtune's own section, which no trial's copy has either. Where the text
    cannot be changed in place, the values are the same and the comments are lost."""
    source = workload.config_path
    try:
        text = edited(source.read_bytes(), source.suffix, changes) if source is not None else None
    except (OSError, CannotEdit):
        text = None
    if text is None or workload.config is None:
        write_trial_config(workload, changes, target)
        return
    wanted: Mapping[str, Any] = workload.config
    for path, value in changes.items():
        wanted = with_value(wanted, path, list(value) if isinstance(value, tuple) else value)
    whole = target.with_name(f".{target.stem}.whole{target.suffix}")
    try:
        whole.write_bytes(text)
        write_trial_config(replace(workload, config=wanted, config_path=whole), {}, target)
    finally:
        if os.path.exists(whole):
            os.unlink(whole)
