"""`Client.explain`: why clew decides as it does. Nothing is changed; only the owner may ask."""

from __future__ import annotations

from typing import Literal

import msgspec

from clew.api import explain
from clew.api.explain import (
    ContinueExplained,
    ExplainContinue,
    ExplainKey,
    ExplainReset,
    ExplainResume,
    ExplainRoute,
    ExplainSend,
    ExplainSession,
    ExplainTrigger,
    KeyExplained,
    ResetExplained,
    ResumeExplained,
    SendExplained,
    SessionExplained,
)
from clew.api.seats import TerminalBreadcrumb, TerminalPlace
from clew.client.noun import Noun
from clew.core.channels.routing import Route
from clew.core.channels.send_policy import ChatType, Verdict
from clew.core.channels.triggers import Triggered


class Explain(Noun):
    """Why clew decides as it does, by the configuration of the clew that is asked."""

    async def route(
        self,
        channel: str,
        *,
        account: str = "default",
        peer: str | None = None,
        guild: str | None = None,
        team: str | None = None,
        thread: str | None = None,
        is_forum: bool = False,
        is_owner: bool = True,
    ) -> Route:
        """Which agent and which session key a message would have; `peer` is `KIND:ID`."""
        params = ExplainRoute(
            channel=channel,
            account=account,
            peer=peer,
            guild=guild,
            team=team,
            thread=thread,
            is_forum=is_forum,
            is_owner=is_owner,
        )
        return await self._do(explain.ROUTE, params)

    async def reset(
        self,
        key: str,
        updated_at: str,
        *,
        now: str | None = None,
        channel: str | None = None,
        thread: str | None = None,
        timezone: str | None = None,
    ) -> ResetExplained:
        """Whether a conversation would go on or begin again. Times are ISO."""
        params = ExplainReset(
            key=key,
            updated_at=updated_at,
            now=now,
            channel=channel,
            thread=thread,
            timezone=timezone,
        )
        return await self._do(explain.RESET, params)

    async def send(
        self,
        key: str,
        *,
        channel: str | None = None,
        chat_type: ChatType | None = None,
        override: Verdict | None = None,
    ) -> SendExplained:
        """Whether replies in a conversation would be delivered."""
        params = ExplainSend(key=key, channel=channel, chat_type=chat_type, override=override)
        return await self._do(explain.SEND, params)

    async def trigger(
        self, message: str, *, mention: str | None = None, is_owner: bool = True
    ) -> Triggered:
        """Whether a message begins a new conversation."""
        params = ExplainTrigger(message=message, mention=mention, is_owner=is_owner)
        return await self._do(explain.TRIGGER, params)

    async def resume(
        self, value: str, *, cwd: str, project: str, scope: Literal["cwd", "git"] = "cwd"
    ) -> ResumeExplained:
        """Which session `--resume VALUE` would find in a directory. No file is looked for."""
        params = ExplainResume(value=value, cwd=cwd, project=project, scope=scope)
        return await self._do(explain.RESUME, params)

    async def continued(
        self,
        where: TerminalPlace,
        crumb: TerminalBreadcrumb | None = None,
        key: str | None = None,
    ) -> ContinueExplained:
        """Which session `--continue` would go on with, in a terminal with this breadcrumb."""
        params = ExplainContinue(
            **msgspec.structs.asdict(where),
            key=key,
            crumb_cwd=None if crumb is None else crumb.cwd,
            crumb_session=None if crumb is None else crumb.session,
            crumb_fresh=crumb is not None and crumb.fresh,
        )
        return await self._do(explain.CONTINUE, params)

    async def key(self, where: TerminalPlace, key: str | None = None) -> KeyExplained:
        """Which key a directory has, and which session that leads to."""
        params = ExplainKey(**msgspec.structs.asdict(where), key=key)
        return await self._do(explain.KEY, params)

    async def session(self, session: str) -> SessionExplained:
        """Why a session is what it is: its keys, its resets, and where its replies go."""
        return await self._do(explain.SESSION, ExplainSession(id=session))
