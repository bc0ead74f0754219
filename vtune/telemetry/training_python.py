"""Which torch the training's Python has, found without importing it: that alone would take two seconds."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass

ASK_TIMEOUT_S = 10.0
# torch writes down what it was built for in a module of plain assignments.
_ASK = """
import ast, importlib.metadata, json, sys
told = {"executable": sys.executable, "python": sys.version.split()[0]}
try:
    torch = importlib.metadata.distribution("torch")
    told["torch"] = torch.version
    for line in ast.parse(open(torch.locate_file("torch/version.py")).read()).body:
        name = getattr(line, "target", None) or getattr(line, "targets", [None])[0]
        if getattr(name, "id", None) in ("cuda", "hip", "xpu", "__version__"):
            told[name.id] = ast.literal_eval(line.value)
except importlib.metadata.PackageNotFoundError:
    pass
except (OSError, SyntaxError, ValueError):
    pass
print(json.dumps(told))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPython:
    executable: str
    python: str | None = None
    torch: str | None = None
    # What that torch was built for: "CUDA 13.0", "ROCm 7.0", "XPU …"; None for the CPU only, or where it does not say.
    accelerator: str | None = None
    cuda: str | None = None
    problem: str | None = None


def training_python(executable: str) -> TrainingPython:
    try:
        done = subprocess.run(
            [executable, "-c", _ASK],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=ASK_TIMEOUT_S,
        )  # fmt: skip
        told = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired) as error:
        return TrainingPython(executable=executable, problem=f"{executable} cannot be started: {error}")
    except (ValueError, IndexError):
        return TrainingPython(executable=executable, problem=f"{executable} is no Python, or a broken one")
    built = [(word, told.get(name)) for name, word in (("cuda", "CUDA"), ("hip", "ROCm"), ("xpu", "XPU"))]
    return TrainingPython(
        executable=executable,
        python=told.get("python"),
        torch=told.get("__version__") or told.get("torch"),
        accelerator=next((f"{word} {version}" for word, version in built if version), None),
        cuda=told.get("cuda"),
    )
