"""The script that autovram runs again and again: it reads its batch size from autovram, and prints the metric."""

import json
import os
import subprocess
import sys

from autovram.runtime import get_runtime_config, print_metric

TOLD = json.loads(os.environ["TRAP"])
STEPS = 50


def main() -> None:
    batch_size = get_runtime_config().batch_size
    if batch_size not in TOLD["space"]["batch_size"]:
        raise SystemExit(f"{batch_size} may not be chosen here")
    command = [sys.executable, TOLD["script"], *TOLD["flags"], "--batch-size", str(batch_size), "--steps", str(STEPS)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        raise SystemExit(ran.returncode)
    print_metric(samples_per_s=json.loads(ran.stdout)["samples_per_s"])


if __name__ == "__main__":
    main()
