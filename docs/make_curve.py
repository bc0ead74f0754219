"""Makes docs/learns.svg: loss and validation of a run of the bundled training, from its own metrics.

python docs/make_curve.py runs/scrolls_small/logs/metrics.jsonl
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
WIDTH, HEIGHT, LEFT, BELOW, TOP = 720, 300, 46, 34, 16
# Told apart by their dashes too.
LINES = (
    ("dice", "Dice", "#1b6ca8", ""),
    ("surface_dice", "surface Dice", "#2a7f3f", "7 4"),
    ("cldice", "clDice", "#a85b1b", "2 3"),
)
GREY = "#777777"


def main(path: Path) -> None:
    told = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    losses = [(one["step"], one["loss"]) for one in told if "loss" in one]
    judged = [(one["step"], one["validation"]) for one in told if "validation" in one]
    last, most = losses[-1][0], max(loss for _, loss in losses)

    def points(values: Sequence[tuple[int, float]], top: float) -> str:
        across, up = (WIDTH - LEFT - 10) / last, (HEIGHT - BELOW - TOP) / top
        return " ".join(f"{LEFT + step * across:.1f},{HEIGHT - BELOW - value * up:.1f}" for step, value in values)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for tenth in range(0, 11, 2):
        y = HEIGHT - BELOW - tenth / 10 * (HEIGHT - BELOW - TOP)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - 10}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tenth / 10:g}</text>')
    parts.append(f'<polyline fill="none" stroke="{GREY}" stroke-width="0.7" points="{points(losses, most)}"/>')
    for name, _, colour, dash in LINES:
        values = [(step, scores[name]) for step, scores in judged]
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
            f' points="{points(values, 1.0)}"/>'
        )
    named = [(label, colour) for _, label, colour, _ in LINES] + [(f"loss (of {most:.2f})", GREY)]
    for number, (label, colour) in enumerate(named):
        parts.append(f'<text x="{LEFT + 20 + 110 * number}" y="{HEIGHT - 10}" fill="{colour}">{label}</text>')
    parts.append(f'<text x="{WIDTH - 12}" y="{HEIGHT - 10}" text-anchor="end">{last} steps</text></svg>')
    (HERE / "learns.svg").write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
