"""Handlers of a gateway's own process."""

from __future__ import annotations

from clew.api.gateway import DRAIN, RELOAD, ConfigReloaded, DrainStarted
from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.operation import NoParams
from clew.errors import InvalidInput


@handles(DRAIN)
async def drain(parts: Parts, _params: NoParams, _caller: Caller) -> DrainStarted:
    """Begin to end; the one who runs the gateway waits for its turns."""
    if parts.started_at is None:
        raise InvalidInput("No gateway runs in this process. `--url` names one.")
    parts.runtime.drain()
    return DrainStarted(tuple(parts.runtime.list_running()))


@handles(RELOAD)
async def reload(parts: Parts, _params: NoParams, _caller: Caller) -> ConfigReloaded:
    """Read the configuration anew, and use what can be used without a restart."""
    if parts.reloader is None:
        raise InvalidInput("No gateway runs in this process. `--url` names one.")
    return await parts.reloader.reload()
