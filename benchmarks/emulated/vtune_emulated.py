"""vtune on a machine without a GPU, under an emulated one's driver.

    python benchmarks/emulated/vtune_emulated.py probe --config configs/exp001_rehearsal.yaml

Everything behind the script's name is vtune's. vtune and NVIDIA's real client find a driver's library whose only device
is called "Emulated A100"; it is busy, and its memory taken, as the training on the emulated accelerator says. Refuses
where a real driver is. Nothing is left but the compiled library, in the user's cache.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from fake_nvml import FakeDriver, NoCompiler, cached, real_driver

ROOT = Path(__file__).resolve().parents[2]
REHEARSAL = ROOT / "configs" / "exp001_rehearsal.yaml"
# What an emulated device has none of: told as "not supported", never as a zero.
NOT_SUPPORTED = 3
HAS_NO = (
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetPcieThroughput",
)
# vtune's own: this machine cannot.
CANNOT = 3


def main(arguments: list[str]) -> int:
    if real := real_driver():
        sys.stderr.write(
            f"error: a real GPU driver is here ({real}), and an emulated one never stands before it\n\n"
            "hint: run vtune itself; the rehearsal is for machines without a GPU\n"
        )
        return CANNOT
    try:
        library = cached()
    except (NoCompiler, OSError) as error:
        sys.stderr.write(f"error: {error}\n\nhint: install a C compiler, e.g. the package gcc\n")
        return CANNOT
    with tempfile.TemporaryDirectory(prefix="vtune-emulated-") as folder:
        code = run(arguments, environment(library, Path(folder)))
    if not {"--quiet", "--json", "--help"} & set(arguments):
        # What vtune advises to type begins with its own name, and would find no GPU.
        sys.stderr.write(f"the GPU is only emulated here: instead of `vtune` type `python {sys.argv[0]}`\n")
    return code


def environment(library: Path, folder: Path) -> dict[str, str]:
    """In which NVIDIA's library is the emulated one, with the rehearsal's device."""
    device = yaml.safe_load(REHEARSAL.read_text(encoding="utf-8"))["emulated"]
    driver = FakeDriver(library, folder / "nvml-state")
    driver.set(
        count=1,
        driver="emulated",
        err__nvmlSystemGetCudaDriverVersion=NOT_SUPPORTED,
        gpu0__name=device["device"],
        gpu0__total=device["memory_mb"] * 1_000_000,
        **{f"gpu0__err__{function}": NOT_SUPPORTED for function in HAS_NO},
    )
    before = [os.environ["LD_LIBRARY_PATH"]] if os.environ.get("LD_LIBRARY_PATH") else []
    found = driver.env
    return {**os.environ, **found, "LD_LIBRARY_PATH": os.pathsep.join([found["LD_LIBRARY_PATH"], *before])}


def run(arguments: list[str], env: dict[str, str]) -> int:
    # Until they can be passed on, signals wait: nothing may end this program without its cleaning up.
    stopping = {signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    # Ctrl-C goes to both; what it means is vtune's to say.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def as_it_was() -> None:
        signal.signal(signal.SIGINT, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, stopping)

    child = subprocess.Popen([sys.executable, "-m", "vtune", *arguments], env=env, preexec_fn=as_it_was)
    for number in stopping:
        # Under nohup the end of the terminal is nobody's concern.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda received, _: child.send_signal(received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stopping)
    code = child.wait()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
