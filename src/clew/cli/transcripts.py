"""Transcript files of a chat: `-r talk.jsonl` is a file of the machine one types at.

A chat in this process imports it into its own store. No call of a gateway writes a message into a
session: where the gateway serves this data directory, its store is here too, and the file is
imported as `clew import` does it; otherwise that is refused with what to do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.cli.app import App
    from clew.client.client import Client
    from clew.transfer.resume_file import TranscriptOpening
    from clew.wiring import LocalTerminal


class LocalTranscripts:
    """Files and sessions of this process."""

    def __init__(self, terminal: LocalTerminal) -> None:
        self._terminal = terminal

    async def open(self, path: Path) -> TranscriptOpening:
        """Import it, or say that a new one begins."""
        return await self._terminal.open_transcript(path)


class GatewayTranscripts:
    """Files here, sessions at a gateway. `is_here`: both are this data directory's."""

    def __init__(self, app: App, *, is_here: bool) -> None:
        self._app = app
        self._is_here = is_here

    async def open(self, path: Path) -> TranscriptOpening:
        """Import it, or say that a new one begins."""
        from clew.errors import InvalidInput
        from clew.transfer.resume_file import find_new
        from clew.wiring import open_terminal

        if self._is_here:
            async with open_terminal(self._app.config, holds=False) as terminal:
                return await terminal.open_transcript(path)
        new = find_new(path)
        if new is None:
            raise InvalidInput(
                f"{path} is a file of this machine, and the gateway's sessions are elsewhere. "
                f"Import it there (clew import {path.name}), or go on with it here: "
                f"clew --no-gateway -r {path.name}"
            )
        return new


async def write_transcript(client: Client, session_id: str, path: str) -> None:
    """Write a session that began with a missing or empty file to that file."""
    from clew.transfer.resume_file import write_back

    exported = await client.sessions.export(session_id, format="jsonl")

    async def pieces() -> AsyncIterator[str]:
        yield exported.content

    await write_back(session_id, path, pieces())
