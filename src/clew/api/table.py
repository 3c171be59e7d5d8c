"""The table of all operations, for the gateway, RPC and the documents."""

from __future__ import annotations

from typing import Any, Final

from clew.api import (
    approvals,
    blobs,
    channels,
    chat,
    commands,
    config,
    cron,
    explain,
    gateway,
    memory,
    models,
    outbox,
    pairings,
    personalities,
    queue,
    records,
    seats,
    sessions,
    stats,
    status,
    tokens,
    trash,
    usage,
)
from clew.api.operation import Operation
from clew.errors import InvalidInput

OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    *sessions.ROWS,
    *trash.ROWS,
    *seats.ROWS,
    *commands.ROWS,
    *models.ROWS,
    *chat.ROWS,
    *blobs.ROWS,
    *records.ROWS,
    *queue.ROWS,
    *approvals.ROWS,
    *outbox.ROWS,
    *memory.ROWS,
    *personalities.ROWS,
    *tokens.ROWS,
    *pairings.ROWS,
    *cron.ROWS,
    *usage.ROWS,
    *stats.ROWS,
    *status.ROWS,
    *channels.ROWS,
    *gateway.ROWS,
    *config.ROWS,
    *explain.ROWS,
)

_BY_NAME: Final = {each.name: each for each in OPERATIONS}


def get_operation(name: str) -> Operation[Any, Any]:
    """The operation of this name, or `InvalidInput`."""
    operation = _BY_NAME.get(name)
    if operation is None:
        raise InvalidInput(f'There is no operation "{name[:100]}". The API reference lists them.')
    return operation
