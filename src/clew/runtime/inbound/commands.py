"""Commands on a channel: run in the conversation's session, answered with text.

The commands are those of every surface (`runtime.commands`). A channel has no picker and no screen,
so this module does what a reply asks of a surface: mostly it changes the session that the key leads
to. Whether the person may use a command was checked before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo

import msgspec

from clew.core.commands import Issuer, find_command
from clew.core.keys import Place
from clew.core.rules import HeldRule
from clew.core.session import OWNER, Session, may_see, word_reader
from clew.errors import SessionNotFound
from clew.ports import Context, Memory, Models, Personalities, Recall, Store
from clew.runtime.commands import run_command
from clew.runtime.commands.desk import Desk, Reply
from clew.runtime.inbound.decision import read_line
from clew.runtime.inbound.links import link
from clew.runtime.inbound.reception import GivenCommand
from clew.runtime.place.begin import Surface
from clew.runtime.runtime import Runtime


class ChannelCommands(msgspec.Struct, frozen=True, kw_only=True):
    """Runs the commands of channels."""

    runtime: Runtime
    models: Models
    personalities: Personalities
    memory: Memory
    recall: Recall
    context: Context
    place: Place
    zone: tzinfo
    list_tool_rules: Callable[[], tuple[HeldRule, ...]] = tuple

    @property
    def store(self) -> Store:
        """The store, through the runtime."""
        return self.runtime.store

    async def run(self, given: GivenCommand) -> str:
        """Run a command; returns the answer."""
        parsed = read_line(given.line)
        name, rest = parsed if parsed is not None else (given.line.lstrip("/").split()[0], "")
        command = find_command(name)
        if command is not None and "channel" not in command.surfaces:
            return f"/{name} is for the terminal. /help shows what there is."
        desk = self._sit(given)
        reply = await run_command(desk, name, rest)
        return await self._carry_out(given, desk, reply)

    def _sit(self, given: GivenCommand) -> Desk:
        at = Surface(
            runtime=self.runtime,
            models=self.models,
            place=self.place,
            key=given.own_key,
            platform=given.session.platform,
            person=given.person,
        )
        return Desk(
            at=at,
            personalities=self.personalities,
            memory=self.memory,
            recall=self.recall,
            context=self.context,
            zone=self.zone,
            # A guest can use commands only in a direct chat, so this is one.
            issuer=Issuer(
                role="owner" if given.person == OWNER else "guest",
                surface="channel",
                scopes=given.scopes,
            ),
            current=given.session,
            attended=given.person == OWNER,
            reply_to=given.reply_to,
            rules=self.list_tool_rules(),
        )

    async def _carry_out(self, given: GivenCommand, desk: Desk, reply: Reply) -> str:
        """Do what else a reply asks for; returns the text to answer."""
        if reply.pick is not None:
            return await self._choose(given, reply.pick)
        if reply.open is not None:
            return await self._go_to(given, reply.open)
        now = desk.current
        if now is not None and now.id != given.session.id:
            await link(self.store, given.key, now, self.runtime.clock())
        return reply.text

    async def _choose(self, given: GivenCommand, found: Sequence[Session]) -> str:
        """In place of a picker: back to the previous session, or a list to choose from."""
        if not found:
            before = await self._find_previous(given)
            if before is None:
                return "There is no earlier conversation here. /resume TITLE finds others."
            return await self._go_to(given, before)
        ids = await self.store.shorten_ids([each.id for each in found])
        lines = [f"{ids[each.id]}  {each.name}" for each in found[:10]]
        return "\n".join(["Several fit. /resume ID goes on with one:", *lines])

    async def _find_previous(self, given: GivenCommand) -> Session | None:
        if given.session.previous_id is None:
            return None
        try:
            before = await self.store.get_session(given.session.previous_id)
        except SessionNotFound:
            return None
        visible = before.deleted_at is None and may_see(given.person, before.person)
        return before if visible else None

    async def _go_to(self, given: GivenCommand, session: Session) -> str:
        """Let the key lead to that session; a running turn finishes in the old one."""
        is_linked = await self.store.find_route(given.own_key)
        key = given.own_key if is_linked is not None else given.key
        await link(self.store, key, session, self.runtime.clock())
        told = f'This goes on with "{session.name}".'
        reader = word_reader(session, given.person)
        return told if reader is None else f"{told}\n{reader}"
