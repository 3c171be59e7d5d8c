"""The gateway's own application behind a real server, on a port of its own."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from clew.api.local import Calls
from clew.gateway.app import build_app
from clew.gateway.auth import Gate
from tests.runtime.conftest import soon


@asynccontextmanager
async def serving(calls: Calls, port: int = 0) -> AsyncIterator[str]:
    """The address of a gateway over these calls."""
    gate = Gate(calls.parts.store, calls.parts.runtime.clock)
    app = build_app(calls, gate)
    listening = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    # Without its main loop, which takes the signals of the process and ends on a tick.
    await server.startup(sockets=[listening])
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        gate.closed.set()
        await soon(server.shutdown(sockets=[listening]))
