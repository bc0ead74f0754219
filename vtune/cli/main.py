"""The program: commands put together, errors turned into exit codes."""

from __future__ import annotations

import functools
import io
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from vtune.cli.apply import apply
from vtune.cli.closed_pipe import STDOUT
from vtune.cli.compare import compare
from vtune.cli.doctor import doctor
from vtune.cli.knobs import knobs
from vtune.cli.launch import launch
from vtune.cli.phase import phase
from vtune.cli.probe import probe
from vtune.cli.report import report
from vtune.cli.search import search
from vtune.cli.watch import watch
from vtune.errors import StorageError, UsageError, VtuneError
from vtune.files import DISK_REFUSES, MAKE_ROOM
from vtune.version import VERSION

# Public under a name of its own only since typer 0.28.
WrongUsage: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

app = typer.Typer(
    name="vtune",
    help="Makes training runs fast: short, bounded trials of the real training.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Help in plain text comes in a third of the time: rich's renderer loads a Markdown parser first.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"vtune {VERSION}")
        raise typer.Exit


@app.callback()
def vtune(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


class _Interrupted(Exception):
    """Of its own: typer would make the exit code of a KeyboardInterrupt, and say nothing."""


def _command(verb: Callable[..., None]) -> None:
    @functools.wraps(verb)
    def command(*given: Any, **named: Any) -> None:
        try:
            verb(*given, **named)
        except KeyboardInterrupt:
            raise _Interrupted from None

    app.command()(command)


_command(probe)
_command(phase)
_command(search)
_command(launch)
_command(report)
_command(apply)
_command(compare)
_command(knobs)
_command(doctor)
_command(watch)


def interrupted(*, as_json: bool) -> int:
    """Before anything was begun, and so nothing is known but that."""
    told = "interrupted: nothing was started"
    if as_json:
        print(json.dumps({"error": told, "hint": "start it again", "exit_code": 130}))
    print(told, file=sys.stderr)
    return 130


def run(arguments: Sequence[str]) -> int:
    """Every path out of vtune ends here."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    as_json = any(word.partition("=")[0] == "--json" for word in own)
    try:
        from vtune.cli import exits

        try:
            if arguments and arguments[-1] == "--" and "--" not in arguments[:-1]:
                raise UsageError("there is no command after --", hint="for example: vtune probe -- python train.py")
            _check_surroundings()
            code = app(args=list(arguments), prog_name="vtune", standalone_mode=False)
            if sys.stdout is not None:
                sys.stdout.flush()
            return int(code or exits.DONE)
        except StorageError as error:
            return exits.report_unsaved(error, as_json=as_json)
        except VtuneError as error:
            return exits.report_error(error.message, error.hint, error.exit_code, as_json=as_json)
        except WrongUsage as error:
            return _report_usage(error, arguments, as_json=as_json)
        except _Interrupted:
            raise KeyboardInterrupt from None
        except BrokenPipeError:
            exits.give_up_stdout()
            return exits.DONE
        except OSError as error:
            if error.filename == STDOUT:
                exits.give_up_stdout()
                message = f"cannot write to {STDOUT}: {error.strerror}"
                return exits.report_error(message, exits.MAKE_ROOM_FOR_OUTPUT, exits.MACHINE, as_json=False)
            if error.errno not in DISK_REFUSES:
                return exits.report_defect(error, as_json=as_json)
            message = f"cannot write to {error.filename or 'the disk'}: {error.strerror}"
            return exits.report_error(message, MAKE_ROOM, exits.MACHINE, as_json=as_json)
        except Exception as error:
            return exits.report_defect(error, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        return interrupted(as_json=as_json)


def _check_surroundings() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a sign gets another one in its place.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        os.getcwd()
    except OSError:
        raise UsageError("the current folder does not exist any more", hint="change to one that does") from None


def _report_usage(error: Exception, arguments: Sequence[str], *, as_json: bool) -> int:
    from vtune.cli import exits
    from vtune.knobs.spelling import nearest

    message = str(getattr(error, "format_message", lambda: str(error))()).rstrip(".")
    if type(error).__name__ == "NoArgsIsHelpError":
        print(f"{message}\n", file=sys.stderr)
        hint = "for example: vtune probe -- python train.py"
        return exits.report_error("no command was named", hint, exits.USAGE, as_json=as_json)
    # A wrong option's neighbours by its letters, of which only one is meant.
    option, known_options = getattr(error, "option_name", None), getattr(error, "possibilities", None)
    meant = nearest(option, known_options) if option and known_options else None
    message = message.partition(" (Possible options")[0] if meant else message
    commands = [argument for argument in arguments if not argument.startswith("-")][:1]
    known = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    hint = f"see vtune {commands[0]} --help" if commands and commands[0] in known else "see vtune --help"
    hint = f"did you mean {meant}? {hint}" if meant else hint
    if "--" not in arguments and any(re.fullmatch(r"(.*/)?python[0-9.]*|.*\.py", argument) for argument in arguments):
        hint = "a training command comes after a double dash: vtune probe -- python train.py"
    return exits.report_error(message, hint, exits.USAGE, as_json=as_json)
