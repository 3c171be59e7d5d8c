"""An answer that comes before the question has been heard out, in a way that clients notice.

Whoever is refused in the middle of a long body still sends. If the connection ended there, many
clients would report that, and never read why. So the answer goes out at once, and the rest of the
body is let in for a moment, and thrown away.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATIENCE: Final = 5.0
"""Seconds for the rest of a body that nobody wants."""


class Lingering:
    """Middleware: hear people out. Plain ASGI, so streams flow."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on; before the last word, drop what is left of the question."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_whole = "transfer-encoding" not in headers and headers.get("content-length", "0") == "0"

        async def hear() -> Message:
            nonlocal is_whole
            message = await receive()
            is_whole = is_whole or not message.get("more_body", False)
            return message

        async def say(message: Message) -> None:
            is_last = message["type"] == "http.response.body" and not message.get("more_body")
            if not is_last or is_whole:
                await send(message)
                return
            await send({**message, "more_body": True})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    while not is_whole:
                        await hear()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        await self._app(scope, hear, say)
