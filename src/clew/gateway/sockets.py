"""Sockets that write frames together: one call of the system for what goes out at one moment.

An ASGI server makes each frame anew for each client, and writes it by itself. With hundreds of
clients that is most of what a frame costs; so our server takes frames as they are, and several of
them in one message. Any other server gets them one by one. What is sent is `live`'s business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from starlette.websockets import WebSocket
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

from clew.gateway.outlet import Item

WIRE: Final = "clew.wire"
"""The extension of ASGI that our server has, and where a message to it has the bytes."""


async def send_together(socket: WebSocket, items: Sequence[Item]) -> None:
    """Send frames, in one go where the server can."""
    if WIRE in socket.scope.get("extensions", {}):
        wire = b"".join([each.wire for each in items])
        await socket.send({"type": "websocket.send", WIRE: wire})
        return
    for each in items:
        await socket.send_text(each.text)


class Socket(WebSocketsSansIOProtocol):
    """uvicorn's, which also takes what is ready to be written."""

    async def run_asgi(self) -> None:
        """Say what it can, then serve."""
        self.scope["extensions"][WIRE] = {}
        await super().run_asgi()

    async def send(self, message: Any) -> None:
        """See ASGI."""
        if WIRE not in message:
            await super().send(message)
            if message["type"] == "websocket.http.response.body":
                # Whoever is refused has their answer: uvicorn would log that they have none.
                self.handshake_complete = self.handshake_complete or self.close_sent
            return
        await self.writable.wait()
        if self.conn.state is not State.OPEN or self.transport.is_closing():
            raise ClientDisconnected
        self.transport.write(message[WIRE])
