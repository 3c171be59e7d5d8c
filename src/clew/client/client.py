"""`Client`: the public operations as an object, over HTTP or in this process.

    async with Client("http://127.0.0.1:7717", token) as clew:
        page = await clew.sessions.list(q="login redirect")
        async for frame in clew.chat.send("Hello", session=page.sessions[0].id):
            print(frame.event)

Every method is one operation of the table; `call` does any of them by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Self, TypeVar

from clew.client.doing import check
from clew.client.library import Sessions
from clew.client.nouns import Approvals, Cron, Memory, Outbox, Pairings, Queue, Tokens
from clew.client.talking import Chat
from clew.client.transport import Live, Transport
from clew.core.params import GetUsage, NoParams, Params
from clew.core.personality import Personality
from clew.core.usage import UsageBy
from clew.core.views import PersonalityList, StatusReport, UsageReport
from clew.operations import get_operation, read_params

T = TypeVar("T")


class Client:
    """A clew somewhere. Use it as `async with`, or `close` it."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        transport: Transport | None = None,
    ) -> None:
        """The gateway's address and a token of it; or another way there."""
        self._transport = transport or _http(url, token)
        self.sessions = Sessions(self.do)
        self.chat = Chat(self.do, self._transport.stream)
        self.memory = Memory(self.do)
        self.approvals = Approvals(self.do)
        self.queue = Queue(self.do)
        self.outbox = Outbox(self.do)
        self.tokens = Tokens(self.do)
        self.pairings = Pairings(self.do)
        self.cron = Cron(self.do)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of connections."""
        await self._transport.close()

    async def do(self, name: str, params: Params, gives: type[T], /) -> T:  # noqa: ARG002  # for the type checker
        """An operation with its parameters as a value."""
        answer: T = await self._transport.call(get_operation(name), check(name, params))
        return answer

    async def call(self, name: str, params: Mapping[str, Any] | None = None) -> Any:
        """Any operation by its name, with its parameters as JSON has them."""
        operation = get_operation(name)
        return await self._transport.call(operation, read_params(operation, params or {}))

    def live(self) -> AbstractAsyncContextManager[Live]:
        """Live events: `async with client.live() as live`, subscribe, and iterate over it."""
        return self._transport.live()

    async def personalities(self) -> tuple[Personality, ...]:
        """The hats."""
        return (await self.do("personalities.list", NoParams(), PersonalityList)).personalities

    async def usage(self, *, by: UsageBy = "day", since: int = 0, limit: int = 100) -> UsageReport:
        """What was spent since a time, summed up."""
        return await self.do("usage", GetUsage(by=by, since=since, limit=limit), UsageReport)

    async def status(self) -> StatusReport:
        """How it is doing."""
        return await self.do("status", NoParams(), StatusReport)


def _http(url: str | None, token: str | None) -> Transport:
    from clew.client.http import HttpTransport  # noqa: PLC0415  # not for who stays in process
    from clew.errors import InvalidInput  # noqa: PLC0415  # likewise

    if url is None:
        raise InvalidInput("A client needs the address of a gateway; `clew.local()` needs none.")
    return HttpTransport(url, token)
