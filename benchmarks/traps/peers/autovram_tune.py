"""autovram's own search, by its library: batch sizes doubled until one fails, then halved between.

One precision, because the trainings have one, and samples a second for a metric: iterations would punish every batch.
"""

import json
import os
import shlex
import sys
from pathlib import Path

from autovram.core.detect import detect_system
from autovram.core.runner import SubprocessRunner
from autovram.core.tuner import autotune_batch_size
from autovram.core.types import AutoVRAMConfig, RunContext

TOLD = json.loads(os.environ["TRAP"])
# 25 is its own default.
MAX_TRIALS = 3 if TOLD["quick"] else 25


def main() -> None:
    context = RunContext(
        mode="script",
        system=detect_system(),
        metric_name="samples_per_s",
        timeout_s=60.0,
        work_dir=Path.cwd() / "autovram",
        exec_cwd=Path.cwd(),
        engine_name="heuristic",
    )
    command = shlex.join([sys.executable, str(Path(__file__).with_name("autovram_script.py"))])
    config, results = autotune_batch_size(
        context=context,
        runner=SubprocessRunner(),
        cmd=command,
        base_config=AutoVRAMConfig(precision="fp32"),
        max_trials=MAX_TRIALS,
    )
    if config is None:
        raise SystemExit("no batch size ran")
    rates = {one.config.batch_size: one.metric_value for one in results if one.ok}
    own = rates.get(TOLD["baseline"]["batch_size"])
    print(
        json.dumps(
            {
                "choice": {**TOLD["baseline"], "batch_size": config.batch_size},
                "claimed": rates[config.batch_size] / own if own else None,
                "trials": len(results),
            }
        )
    )


if __name__ == "__main__":
    main()
