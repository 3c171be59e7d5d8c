"""What a `Client` has beside sessions and chat: one method for each operation."""

from __future__ import annotations

from clew.client.doing import Do
from clew.core.cron import CronJob
from clew.core.delivery import Outbound, OutboundStatus
from clew.core.guests import Pairing
from clew.core.memory import MemoryName
from clew.core.params import (
    AddJob,
    CreateToken,
    DecideApproval,
    DecidePairing,
    DropQueue,
    GetMemory,
    ListApprovals,
    ListOutbox,
    ListQueue,
    NoParams,
    OneJob,
    OneToken,
    RetryOutbound,
    WriteMemory,
)
from clew.core.session import OWNER
from clew.core.tokens import Scope, Token
from clew.core.turn import Approval, ApprovalScope, Decision
from clew.core.views import (
    Accepted,
    ApprovalList,
    Dropped,
    JobList,
    MemoryHistory,
    MemoryView,
    NewToken,
    OutboxList,
    PairingList,
    QueuedView,
    QueueList,
    TokenList,
)


class Memory:
    """The two memory files."""

    def __init__(self, do: Do) -> None:
        self._do = do

    async def get(
        self, store: MemoryName = "memory", *, personality: str | None = None
    ) -> MemoryView:
        """A file as it is now."""
        params = GetMemory(store=store, personality=personality)
        return await self._do("memory.get", params, MemoryView)

    async def write(
        self,
        store: MemoryName = "memory",
        *,
        content: str,
        personality: str | None = None,
        if_match: str | None = None,
    ) -> MemoryView:
        """The whole file anew; with `if_match`, `StaleMemory` unless that is still its etag."""
        params = WriteMemory(
            store=store, content=content, personality=personality, if_match=if_match
        )
        return await self._do("memory.write", params, MemoryView)

    async def history(
        self, store: MemoryName = "memory", *, personality: str | None = None
    ) -> MemoryHistory:
        """What was written before, newest first."""
        params = GetMemory(store=store, personality=personality)
        return await self._do("memory.history", params, MemoryHistory)


class Approvals:
    """Tool calls that wait for the owner's word."""

    def __init__(self, do: Do) -> None:
        self._do = do

    async def list(self, session: str | None = None) -> tuple[Approval, ...]:
        """Those that wait, oldest first."""
        params = ListApprovals(session=session)
        return (await self._do("approvals.list", params, ApprovalList)).approvals

    async def decide(
        self, approval: str, decision: Decision, *, scope: ApprovalScope = "once"
    ) -> Approval:
        """Yes or no; the first answer stays."""
        params = DecideApproval(id=approval, decision=decision, scope=scope)
        return await self._do("approvals.decide", params, Approval)


class Queue:
    """Messages that wait for their turn."""

    def __init__(self, do: Do) -> None:
        self._do = do

    async def list(self, session: str | None = None, *, limit: int = 100) -> tuple[QueuedView, ...]:
        """Those that wait, oldest first."""
        params = ListQueue(session=session, limit=limit)
        return (await self._do("queue.list", params, QueueList)).messages

    async def drop(self, session: str) -> tuple[str, ...]:
        """Take back what waits in a session."""
        return (await self._do("queue.drop", DropQueue(session=session), Dropped)).dropped


class Outbox:
    """Replies to channels."""

    def __init__(self, do: Do) -> None:
        self._do = do

    async def list(
        self,
        session: str | None = None,
        *,
        state: OutboundStatus | None = None,
        limit: int = 100,
    ) -> tuple[Outbound, ...]:
        """Deliveries, newest first."""
        params = ListOutbox(session=session, state=state, limit=limit)
        return (await self._do("outbox.list", params, OutboxList)).deliveries

    async def retry(self, outbound: str) -> Outbound:
        """Send again what failed or is uncertain."""
        return await self._do("outbox.retry", RetryOutbound(id=outbound), Outbound)


class Tokens:
    """Credentials of the gateway."""

    def __init__(self, do: Do) -> None:
        self._do = do

    async def list(self) -> tuple[Token, ...]:
        """All of them, oldest first."""
        return (await self._do("tokens.list", NoParams(), TokenList)).tokens

    async def create(
        self, name: str, scope: Scope, *, person: str = OWNER, expires_at: int | None = None
    ) -> NewToken:
        """A new one; its secret is in the answer and nowhere else."""
        params = CreateToken(name=name, scope=scope, person=person, expires_at=expires_at)
        return await self._do("tokens.create", params, NewToken)

    async def revoke(self, token: str) -> Token:
        """The end of one."""
        return await self._do("tokens.revoke", OneToken(id=token), Token)


class Pairings:
    """Guests, and those who ask to be let in."""

    def __init__(self, do: Do) -> None:
        self._do = do

    async def list(self) -> tuple[Pairing, ...]:
        """All of them: first those who wait; newest first."""
        return (await self._do("pairings.list", NoParams(), PairingList)).pairings

    async def approve(self, who: str) -> Pairing:
        """Let somebody in, by the code that they were given, or as `channel:id`."""
        return await self._do("pairings.decide", DecidePairing(who=who), Pairing)

    async def refuse(self, who: str) -> Pairing:
        """Keep somebody out, a guest too."""
        params = DecidePairing(who=who, decision="refuse")
        return await self._do("pairings.decide", params, Pairing)


class Cron:
    """Jobs that a gateway runs by the clock."""

    def __init__(self, do: Do) -> None:
        self._do = do

    async def list(self) -> tuple[CronJob, ...]:
        """All of them, by name."""
        return (await self._do("cron.list", NoParams(), JobList)).jobs

    async def add(
        self,
        name: str,
        schedule: str,
        text: str,
        *,
        agent: str = "main",
        session: str = "isolated",
        deliver_to: str | None = None,
        timezone: str | None = None,
    ) -> CronJob:
        """A new one: what is asked, and when."""
        params = AddJob(
            name=name,
            schedule=schedule,
            text=text,
            agent=agent,
            session=session,
            deliver_to=deliver_to,
            timezone=timezone,
        )
        return await self._do("cron.add", params, CronJob)

    async def remove(self, name: str) -> CronJob:
        """Take one away; its sessions stay."""
        return await self._do("cron.remove", OneJob(name=name), CronJob)

    async def run(self, name: str) -> Accepted:
        """Begin a run now."""
        return await self._do("cron.run", OneJob(name=name), Accepted)
