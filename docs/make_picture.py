"""Makes docs/probe.svg: a real probe of the quickstart, drawn by the program's own panel. Run by hand when it changes.

python docs/make_picture.py
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

from rich.console import Console

from vtune import api
from vtune.config.load import load_experiment
from vtune.reporting.probe_panel import probe_panel

HERE = Path(__file__).parent
COLUMNS = 96


def main() -> None:
    with tempfile.TemporaryDirectory() as results:
        experiment = load_experiment(HERE.parent / "configs" / "quickstart.yaml")
        result = api.probe(experiment, results=Path(results))
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(f"[bold]$[/bold] vtune probe --config configs/{experiment.study}.yaml")
    console.print(probe_panel(result.study, result.record, experiment.price))
    # A fixed id keeps the file the same where the picture is the same.
    console.save_svg(str(HERE / "probe.svg"), title="vtune", unique_id="vtune-probe")


if __name__ == "__main__":
    main()
