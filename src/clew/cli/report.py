"""How a command ends: every error becomes one message on stderr and an exit code.

0 done, 1 failed or nothing found, 2 wrong usage or ambiguous, 3 locked by another process, 4 store
unusable, 130 interrupted. A traceback is shown only for a bug, and only with -v.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from typing import Any, TextIO

import click

from clew.cli.app import App, encode
from clew.core.text import strip_controls
from clew.errors import AmbiguousId, ClewError

INTERRUPTED = 130


class ReaderGone(Exception):
    """The program that reads our output has closed the pipe."""


def finish() -> None:
    """Flush the output while a failure can still be reported."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            # The terminal was closed. The command itself was done, so this is not an error.
            _silence(stream)


def _silence(stream: TextIO) -> None:
    """Redirect to nowhere, so that the interpreter's last flush does not fail too."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def report(app: App, error: BaseException) -> int:
    """Print the message of an error. Returns the exit code."""
    match error:
        case BrokenPipeError() | ReaderGone():
            _silence(sys.stdout)
            return 0
        case click.Abort() | KeyboardInterrupt():
            return INTERRUPTED
        case ClewError():
            _tell(app, error.code, str(error), **_candidates(app, error))
            return error.exit_code
        case click.exceptions.NoArgsIsHelpError() if not app.json:
            app.note(error.format_message())  # this is the help text
            return error.exit_code
        case click.ClickException():
            if isinstance(error, click.UsageError) and error.ctx is not None and not app.json:
                app.note(error.ctx.get_usage())
            _tell(app, "usage" if error.exit_code == 2 else "error", error.format_message())
            return error.exit_code
        case _:
            if app.verbose:
                traceback.print_exception(error)
            advice = "" if app.verbose else "; run with -v for the traceback"
            what = f"{type(error).__name__}: {error}"
            _tell(app, "internal", f"{what} (this is a bug{advice})")
            return 1


def _tell(app: App, code: str, message: str, **details: Any) -> None:
    clean = strip_controls(message)
    if app.json:
        app.note(encode({"error": code, "message": clean} | details))
    else:
        app.note("\n".join([f"clew: {clean}", *details.get("lines", ())]))


def _candidates(app: App, error: ClewError) -> dict[str, Any]:
    """The sessions that an ambiguous id fits, for `_tell`."""
    if not isinstance(error, AmbiguousId):
        return {}
    if app.json:
        return {"candidates": error.candidates}
    from clew.cli.tables import candidate_lines

    return {"lines": candidate_lines(app, error.sessions)}
