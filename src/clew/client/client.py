"""`Client`: the public operations as an object, over HTTP or in this process.

    async with Client("http://127.0.0.1:7717", token) as clew:
        page = await clew.sessions.list(q="login redirect")
        async for frame in clew.chat.send("Hello", session=page.sessions[0].id):
            print(frame.event)

Every method is one operation of the table; `call` does any of them by name. A noun is loaded when
it is first used: a program that lists sessions does not pay for the others.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import msgspec

from clew.api.operation import NoParams, Operation, P, R, read_params
from clew.errors import InvalidInput

if TYPE_CHECKING:
    from clew.api.chat import SendChat
    from clew.api.frames import StreamFrame
    from clew.api.gateway import ConfigReloaded, DrainStarted
    from clew.api.status import EventList, StatusReport
    from clew.api.transport import Live, Transport
    from clew.api.usage import UsageReport
    from clew.client.chat import Chat
    from clew.client.explain import Explain
    from clew.client.nouns import (
        Approvals,
        Blobs,
        Channels,
        Commands,
        Configuration,
        Cron,
        Memory,
        Models,
        Outbox,
        Pairings,
        Personalities,
        Queue,
        Records,
        Tokens,
        Trash,
    )
    from clew.client.seats import Seats
    from clew.client.sessions import Sessions
    from clew.core.session import StoreStats
    from clew.core.usage import UsageBy


class Client:
    """A client of clew. Use it with `async with`, or `close` it."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        transport: Transport | None = None,
    ) -> None:
        """Connect to the gateway at `url`; `transport` is another way to reach the operations."""
        self._transport = transport or _http(url, token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def do(self, operation: Operation[P, R], params: P, /) -> R:
        """Call an operation by its row. Wrong parameters are refused before anything is sent."""
        return await self._transport.call(operation, check(operation, params))

    async def call(self, name: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call any operation by its name, with its parameters as JSON has them."""
        from clew.api.table import get_operation  # noqa: PLC0415  # loads every noun

        operation = get_operation(name)
        return await self._transport.call(operation, read_params(operation, params or {}))

    def live(self) -> AbstractAsyncContextManager[Live]:
        """Live events: `async with client.live() as live`, subscribe, and iterate over it."""
        return self._transport.live()

    # --- the nouns ------------------------------------------------------------------------------

    @cached_property
    def sessions(self) -> Sessions:
        """Sessions: list, read, change and delete them."""
        from clew.client.sessions import Sessions  # noqa: PLC0415  # only if used

        return Sessions(self.do)

    @cached_property
    def trash(self) -> Trash:
        """Sessions that were deleted and can still be restored."""
        from clew.client.nouns import Trash  # noqa: PLC0415  # only if used

        return Trash(self.do)

    @cached_property
    def chat(self) -> Chat:
        """Messages to sessions."""
        from clew.client.chat import Chat  # noqa: PLC0415  # only if used

        return Chat(self.do, self._stream)

    @cached_property
    def seats(self) -> Seats:
        """A terminal's place among the sessions."""
        from clew.client.seats import Seats  # noqa: PLC0415  # only if used

        return Seats(self.do)

    @cached_property
    def blobs(self) -> Blobs:
        """Files of messages."""
        from clew.client.nouns import Blobs  # noqa: PLC0415  # only if used

        return Blobs(self.do)

    @cached_property
    def records(self) -> Records:
        """Sessions that this token has made, for programs that keep theirs in clew."""
        from clew.client.nouns import Records  # noqa: PLC0415  # only if used

        return Records(self.do)

    @cached_property
    def channels(self) -> Channels:
        """The channels of a gateway."""
        from clew.client.nouns import Channels  # noqa: PLC0415  # only if used

        return Channels(self.do)

    @cached_property
    def commands(self) -> Commands:
        """Slash commands."""
        from clew.client.nouns import Commands  # noqa: PLC0415  # only if used

        return Commands(self.do)

    @cached_property
    def models(self) -> Models:
        """The models that can be named."""
        from clew.client.nouns import Models  # noqa: PLC0415  # only if used

        return Models(self.do)

    @cached_property
    def config(self) -> Configuration:
        """The configuration of the gateway."""
        from clew.client.nouns import Configuration  # noqa: PLC0415  # only if used

        return Configuration(self.do)

    @cached_property
    def personalities(self) -> Personalities:
        """Personalities of the agent."""
        from clew.client.nouns import Personalities  # noqa: PLC0415  # only if used

        return Personalities(self.do)

    @cached_property
    def memory(self) -> Memory:
        """The two memory files."""
        from clew.client.nouns import Memory  # noqa: PLC0415  # only if used

        return Memory(self.do)

    @cached_property
    def approvals(self) -> Approvals:
        """Tool calls that wait for the owner's decision."""
        from clew.client.nouns import Approvals  # noqa: PLC0415  # only if used

        return Approvals(self.do)

    @cached_property
    def queue(self) -> Queue:
        """Messages that wait for their turn."""
        from clew.client.nouns import Queue  # noqa: PLC0415  # only if used

        return Queue(self.do)

    @cached_property
    def outbox(self) -> Outbox:
        """Replies to channels."""
        from clew.client.nouns import Outbox  # noqa: PLC0415  # only if used

        return Outbox(self.do)

    @cached_property
    def tokens(self) -> Tokens:
        """Credentials of the gateway."""
        from clew.client.nouns import Tokens  # noqa: PLC0415  # only if used

        return Tokens(self.do)

    @cached_property
    def pairings(self) -> Pairings:
        """Guests, and people who ask for access."""
        from clew.client.nouns import Pairings  # noqa: PLC0415  # only if used

        return Pairings(self.do)

    @cached_property
    def cron(self) -> Cron:
        """Jobs that a gateway runs on a schedule."""
        from clew.client.nouns import Cron  # noqa: PLC0415  # only if used

        return Cron(self.do)

    @cached_property
    def explain(self) -> Explain:
        """Why clew decides as it does."""
        from clew.client.explain import Explain  # noqa: PLC0415  # only if used

        return Explain(self.do)

    # --- the whole ------------------------------------------------------------------------------

    async def usage(
        self,
        *,
        by: UsageBy = "day",
        since: int = 0,
        limit: int = 100,
        timezone: str | None = None,
    ) -> UsageReport:
        """What was spent since a time, summed up; `timezone` says where days begin and end."""
        from clew.api.usage import USAGE, GetUsage  # noqa: PLC0415  # only if used

        params = GetUsage(by=by, since=since, limit=limit, timezone=timezone)
        return await self.do(USAGE, params)

    async def stats(self) -> StoreStats:
        """Counts and sizes of the whole store."""
        from clew.api.stats import STATS  # noqa: PLC0415  # only if used

        return await self.do(STATS, NoParams())

    async def status(self) -> StatusReport:
        """The state of the store, the channels, the queue and the jobs."""
        from clew.api.status import STATUS  # noqa: PLC0415  # only if used

        return await self.do(STATUS, NoParams())

    async def events(self, *, after: int = 0, limit: int = 100) -> EventList:
        """What happened at the gateway lately, newest first; only what is behind `after`."""
        from clew.api.status import EVENTS, ListEvents  # noqa: PLC0415  # only if used

        return await self.do(EVENTS, ListEvents(after=after, limit=limit))

    async def drain(self) -> DrainStarted:
        """End the gateway after its running turns; it takes no new messages from now on."""
        from clew.api.gateway import DRAIN  # noqa: PLC0415  # only if used

        return await self.do(DRAIN, NoParams())

    async def reload(self) -> ConfigReloaded:
        """Let the gateway read its configuration anew; `InvalidInput` if that is wrong."""
        from clew.api.gateway import RELOAD  # noqa: PLC0415  # only if used

        return await self.do(RELOAD, NoParams())

    def _stream(self, params: SendChat) -> AsyncGenerator[StreamFrame]:
        from clew.api.chat import SEND  # noqa: PLC0415  # only if used

        return self._transport.stream(check(SEND, params))


def check(operation: Operation[P, R], params: P) -> P:
    """The parameters, if they are valid; else `InvalidInput`, as a gateway would answer."""
    return read_params(operation, msgspec.to_builtins(params))


def _http(url: str | None, token: str | None) -> Transport:
    from clew.client.http import HttpTransport  # noqa: PLC0415  # httpx is slow to load

    if url is None:
        raise InvalidInput(
            "A client needs the address of a gateway. Use `clew.local()` to work without one."
        )
    return HttpTransport(url, token)
