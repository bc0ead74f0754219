"""`vtune` and `python -m vtune`."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from vtune.cli.closed_pipe import guard_streams

        guard_streams()
        from vtune.cli.main import run
    except KeyboardInterrupt:  # while its modules are read
        told = "interrupted: nothing was started"
        if "--json" in sys.argv[1 : sys.argv.index("--") if "--" in sys.argv else None]:
            print(f'{{"error": "{told}", "hint": "start it again", "exit_code": 130}}')
        print(told, file=sys.stderr)
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
