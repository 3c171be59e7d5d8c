"""Transcript files of a chat at a gateway: `-r talk.jsonl` is a file of the machine one types at.

No call of a gateway writes a message into a session. Where the gateway serves this data directory,
its store is here too, and the file is imported as `clew import` does it; elsewhere that is refused
with what to do. A new session goes to its file at the end wherever it is kept.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.cli.app import App
    from clew.client.client import Client
    from clew.core.keys import Place
    from clew.core.session import Session
    from clew.transfer.resume_file import TranscriptOpening


class GatewayTranscripts:
    """Files here, sessions there. `is_here`: both are this data directory's."""

    def __init__(self, app: App, client: Client, *, is_here: bool) -> None:
        self._app = app
        self._client = client
        self._is_here = is_here

    async def find(self, value: str, place: Place) -> tuple[Path | None, bool]:
        """The file that a value names, and whether it is meant before any session."""
        from clew.runtime.resuming import find_file

        return await find_file(value, place, self._is_known)

    async def _is_known(self, session_id: str) -> bool:
        from clew.errors import SessionNotFound

        try:
            await self._client.sessions.get(session_id, messages=0)
        except SessionNotFound:
            return False
        return True

    async def open(self, path: Path) -> TranscriptOpening:
        """Import it, or say that a new one begins."""
        from clew.errors import InvalidInput
        from clew.transfer.resume_file import find_new, open_transcript
        from clew.wiring import open_configured_store

        if self._is_here:
            store = await open_configured_store(self._app.config)
            try:
                return await open_transcript(store, path)
            finally:
                await store.close()
        new = find_new(path)
        if new is None:
            raise InvalidInput(
                f"{path} is a file of this machine, and the gateway's sessions are elsewhere. "
                f"Import it there (clew import {path.name}), or go on with it here: "
                f"clew --no-gateway -r {path.name}"
            )
        return new

    async def write_back(self, session: Session, path: str) -> None:
        """Write a session that began with a missing or empty file to that file."""
        from clew.transfer.resume_file import write_back

        exported = await self._client.sessions.export(session.id, format="jsonl")

        async def pieces() -> AsyncIterator[str]:
            yield exported.content

        await write_back(session.id, path, pieces())
