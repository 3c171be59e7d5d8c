"""Giving the terminal to another program: the shell after Ctrl+Z, the person's editor after Ctrl+G.

The chat draws nothing meanwhile, and everything afterwards. Turns go on while an editor is open.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from textual.app import App, SuspendNotSupported

from clew.core.text import strip_controls
from clew.errors import ClewError, InvalidInput

EDITOR: Final = "vi"
"""The editor where neither `VISUAL` nor `EDITOR` names one."""


def suspend() -> None:
    """Stop this process and its job, as Ctrl+Z does elsewhere; `fg` in the shell goes on."""
    if os.getsid(0) == os.getpgrp():
        raise InvalidInput("There is no shell to go back to: this terminal runs only clew.")
    os.killpg(0, signal.SIGTSTP)


def find_editor(environ: Mapping[str, str]) -> list[str]:
    """The words of the editor's command line."""
    chosen = environ.get("VISUAL", "").strip() or environ.get("EDITOR", "").strip() or EDITOR
    try:
        return shlex.split(chosen)
    except ValueError as error:
        raise InvalidInput(f"VISUAL or EDITOR can't be read: {error}.") from error


async def edit(app: App[Any], text: str, environ: Mapping[str, str]) -> str:
    """Let the person edit a text in the editor that `environ` names. Returns what they saved."""
    words = find_editor(environ)
    with tempfile.TemporaryDirectory(prefix="clew-") as directory:  # only its owner can read it
        path = Path(directory, "message.md")
        await asyncio.to_thread(path.write_text, f"{text}\n", "utf-8", "replace")
        try:
            with app.suspend():
                code = await _run([*words, str(path)])
        except SuspendNotSupported as error:
            raise InvalidInput("An editor needs a terminal.") from error
        except OSError as error:
            why = error.strerror or str(error)
            raise InvalidInput(
                f"{words[0]} can't be started ({why}). VISUAL or EDITOR names the editor."
            ) from error
        if code:
            raise ClewError(f"{words[0]} ended with code {code}; your message is as it was.")
        try:
            edited = await asyncio.to_thread(path.read_text, "utf-8", "replace")
        except OSError as error:
            raise InvalidInput("The file is gone; your message is as it was.") from error
    return strip_controls(edited).rstrip("\n")


async def _run(words: list[str]) -> int:
    process = await asyncio.create_subprocess_exec(*words)
    try:
        return await process.wait()
    finally:
        if process.returncode is None:  # the chat ends
            process.terminate()
