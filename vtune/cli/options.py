"""Options that several commands share, with one wording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="[-- CMD...]", help="The training command, as it is, after a double dash."),
]
Config = Annotated[
    str | None,
    typer.Option("--config", "-c", metavar="FILE", help="Experiment file; a bare name is looked for in configs/ too."),
]
StudyName = Annotated[str | None, typer.Option("--study", metavar="NAME", help="Name of the study.")]
Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder of all studies.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait while another vtune uses the study.")]
Anyway = Annotated[
    bool,
    typer.Option(
        "--anyway", help="Measure on a busy machine too: marked, and nothing is decided by it.", show_default=False
    ),
]
BusyWait = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Longest wait for other programs to leave the cores (default 60s)."),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KNOB=VALUE", help="Turn a knob for this run; repeatable."),
]
Steps = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Measured steps (default 50, up to 100 until the interval is narrow).",
    ),
]
Precise = Annotated[
    bool,
    typer.Option(
        "--precise",
        help="Measure up to 300 steps; a probe until its rate can be called steady.",
        show_default=False,
    ),
]
Validation = Annotated[
    bool,
    typer.Option("--validation", help="Wait for a validation, too: to its end, 20 of its batches, or --trial-time."),
]
TrialTime = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Cap of one trial, start-up apart (default 3m)."),
]
StartupTime = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Cap of the time to the first batch (default 10m)."),
]
VramLimit = Annotated[str | None, typer.Option(metavar="SIZE", help="For example 76GiB or 95%.")]
RamLimit = Annotated[str | None, typer.Option(metavar="SIZE", help="For example 100GiB or 85%.")]
TrialDisk = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Disk space that one trial may fill (default: 10% of the free space)."),
]
AllowWrites = Annotated[
    bool,
    typer.Option("--allow-writes", help="Let trials write to your files for real.", show_default=False),
]
Ceiling = Annotated[
    bool,
    typer.Option(
        "--ceiling", help="A second launch, fed from memory: its rate, the loader's alone, the largest batch that fits."
    ),
]
Allow = Annotated[
    str | None,
    typer.Option(metavar="CLASS", help="close or different: knobs that may change results."),
]
PriceOption = Annotated[str | None, typer.Option("--price", metavar="RATE", help="For example 3.67/h.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan; start and write nothing.")]
PlanOption = Annotated[
    str,
    typer.Option("--plan", metavar="NAME|FILE", help="ladder, safe, progressive, guided, or a file of your own."),
]
UpTo = Annotated[str | None, typer.Option("--up-to", metavar="N", help="End after phase N.")]
Extend = Annotated[
    bool, typer.Option("--extend", help="Climb past a ladder's end while it still wins.", show_default=False)
]
Options = Annotated[
    bool, typer.Option("--options", help="Measure the plan's options too, not only predict them.", show_default=False)
]
NoConfirm = Annotated[
    bool,
    typer.Option("--no-confirm", help="No race of the winner against your own settings.", show_default=False),
]
Trials = Annotated[
    str,
    typer.Option("--trials", metavar="N", help="At most, your own settings among them; confirmations come extra."),
]
SamplerOption = Annotated[
    str,
    typer.Option("--sampler", metavar="NAME", help="auto (vtune's model), or Optuna's tpe, gp, random, grid."),
]
Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="TIME", help="For example 30m: of all launches, confirmations included."),
]
