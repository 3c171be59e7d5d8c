"""Events of a gateway: what its owner may want to know, without what was said.

They are the material of the status page and of a log. A text here is made by clew: it has no words
of a message, a model, a provider or a library, so that no secret comes in with them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

GatewayEventKind = Literal[
    "started", "stopping", "turn_done", "turn_failed", "turn_stopped", "turn_interrupted",
    "message_refused", "delivery_failed", "delivery_uncertain", "signed_in", "signed_out",
    "sign_in_refused", "channel_up", "channel_down", "task_up", "task_down",
]  # fmt: skip

Level = Literal["info", "warning", "error"]

LEVELS: dict[GatewayEventKind, Level] = {
    "turn_failed": "error",
    "turn_interrupted": "warning",
    "message_refused": "warning",
    "delivery_failed": "error",
    "delivery_uncertain": "warning",
    "sign_in_refused": "warning",
    "channel_down": "error",
    "task_down": "error",
}
"""How grave a kind is; `info` if it is not here."""


class GatewayEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Something that happened. `number` goes up by one with each event of a process.

    `count`: how often in a row the same happened; `at` is the last time. `ms`: how long it took.
    The tokens are those of a turn.
    """

    number: int
    at: int
    kind: GatewayEventKind
    level: Level
    text: str
    session: str | None = None
    turn: str | None = None
    channel: str | None = None
    ms: int | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    count: int = 1
