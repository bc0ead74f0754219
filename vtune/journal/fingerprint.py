"""Whether what was learnt of a training still holds: its command, the scripts that it names, and its config."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from vtune.domain.experiment import Experiment


def fingerprint_of(experiment: Experiment) -> str:
    """Another command, script or config may build other loaders and read other flags. What the scripts import is not
    asked: what has changed there is noticed by the trial itself."""
    digest = hashlib.sha256()
    for argument in experiment.workload.command:
        digest.update(argument.encode(errors="surrogateescape") + b"\0")
        path = Path(experiment.workload.cwd, argument)
        if path.suffix == ".py" and os.path.isfile(path):
            digest.update(path.read_bytes())
    digest.update(json.dumps(experiment.workload.config, default=str, sort_keys=True).encode())
    return digest.hexdigest()
