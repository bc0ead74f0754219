"""The script that everybody writes: Optuna's TPE over the settings, on the mean of the last 50 steps of short runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import optuna

TOLD = json.loads(os.environ["TRAP"])
STEPS, LAST, TRIALS = 60, 50, 2 if TOLD["quick"] else 20


def objective(trial: optuna.Trial) -> float:
    settings = {knob: trial.suggest_categorical(knob, values) for knob, values in TOLD["space"].items()}
    times = Path(f"times-{trial.number}.json")
    words = [word for knob, value in settings.items() for word in (f"--{knob.replace('_', '-')}", str(value).lower())]
    ran = subprocess.run(
        [sys.executable, TOLD["script"], *TOLD["flags"], *words, "--steps", str(STEPS), "--times", str(times)],
        stdout=subprocess.DEVNULL,
    )
    if ran.returncode:
        return 0.0
    last = json.loads(times.read_text())[-LAST - 1 :]
    batch_size = {**TOLD["baseline"], **settings}["batch_size"]
    return batch_size * (len(last) - 1) / (last[-1] - last[0])


def main() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.enqueue_trial({knob: TOLD["baseline"][knob] for knob in TOLD["space"]})
    study.optimize(objective, n_trials=TRIALS, timeout=TOLD["cap_s"] * 0.9)
    own = study.trials[0].value
    print(
        json.dumps(
            {
                "choice": {**TOLD["baseline"], **study.best_params},
                "claimed": study.best_value / own if own else None,
                "trials": len(study.trials),
            }
        )
    )


if __name__ == "__main__":
    main()
