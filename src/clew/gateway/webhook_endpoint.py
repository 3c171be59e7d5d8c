"""`POST /v1/hooks/{name}`: webhooks, each signed with its own secret.

`channels.webhook` reads a request, `receive` stores its message. A caller with a wrong signature
does not learn whether a webhook of that name exists.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from clew.api.operation import Operation, Params
from clew.channels.webhook import MAX_BODY, Hook, read_hook
from clew.core.text import to_wire
from clew.errors import Forbidden, InvalidInput, TooManyRequests, Unauthorized
from clew.gateway.auth import MAX_TRIES, WrongGuesses
from clew.gateway.endpoints import Endpoint, read_body, read_query
from clew.gateway.middleware import address_of
from clew.ports import Clock, Receive


class CallHook(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which hook. The body is JSON with a `text`, or any text."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class HookReceived(msgspec.Struct, frozen=True):
    """The message is stored. `is_new` is false if it was sent before."""

    session_id: str | None
    inbound_id: str
    is_new: bool


WEBHOOK: Final[Operation[Any, Any]] = Operation(
    name="hooks.call",
    method="POST",
    path="/v1/hooks/{name}",
    scope="chat",
    takes=CallHook,
    gives=HookReceived,
    who="guest",
    help="Send a message as a webhook, signed with its secret. Answers when it is stored.",
    status=202,
)


def make_webhook_endpoint(
    hooks: Sequence[Hook], receive: Receive, *, clock: Clock, behind_proxy: bool = False
) -> Endpoint:
    """The endpoint of these hooks."""
    known = {each.name: each for each in hooks}
    unknown = Hook(name="", secret=secrets.token_hex(32))
    tries = WrongGuesses()

    async def call(request: Request, _: None) -> Response:
        body = await read_body(request, MAX_BODY)
        hook = known.get(request.path_params["name"].lower(), unknown)
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            incoming = read_hook(hook, headers, body, now=clock())
        except Unauthorized:
            address = address_of(request.scope, behind_proxy=behind_proxy)
            if tries.count(address, clock()) > MAX_TRIES:
                raise TooManyRequests("Too many wrong signatures. Wait a minute.") from None
            raise
        if read_query(request):
            raise InvalidInput("A webhook takes nothing from the query, since that is not signed.")
        receipt: Any = await receive(incoming)
        if receipt.inbound_id is None:
            raise Forbidden(receipt.note or "The message was not stored.")
        answer = HookReceived(receipt.session_id, receipt.inbound_id, receipt.is_new)
        return Response(to_wire(answer), status_code=202, media_type="application/json")

    return Endpoint(operation=WEBHOOK, respond=call, is_open=True)
