"""What each public operation does: the one place where a name of the table becomes an act.

Everything is decided with the caller in hand: the scope of their credential here, what they may see
in `parts`. How a call travels is nobody's business here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final

from clew.client import (
    chat,
    commands,
    cron,
    guests,
    looking,
    memory,
    numbers,
    seats,
    sessions,
    tokens,
    waiting,
)
from clew.client.parts import Caller, Parts
from clew.core.frames import StreamFrame
from clew.core.params import Params, SendChat
from clew.operations import get_operation, read_params

Handler = Callable[[Parts, Any, Caller], Awaitable[Any]]

HANDLERS: Final[dict[str, Handler]] = {
    "sessions.list": sessions.list_sessions,
    "sessions.get": sessions.get_session,
    "sessions.messages": sessions.get_messages,
    "sessions.update": sessions.update_session,
    "sessions.delete": sessions.delete_session,
    "sessions.restore": sessions.restore_session,
    "sessions.fork": sessions.fork_session,
    "sessions.compact": sessions.compact_session,
    "sessions.stop": waiting.stop_session,
    "sessions.export": sessions.export_session,
    "sessions.resolve": sessions.resolve_session,
    "sessions.preview": sessions.preview_session,
    "sessions.names": looking.list_names,
    "sessions.search": looking.search_messages,
    "sessions.states": looking.list_states,
    "sessions.todos": looking.get_todos,
    "sessions.find": looking.find_sessions,
    "seats.locate": seats.locate_seat,
    "seats.begin": seats.begin_session,
    "seats.switch": seats.switch_seat,
    "seats.leave": seats.leave_seat,
    "commands.run": commands.run_order,
    "models.list": looking.list_models,
    "chat.send": chat.send,
    "chat.abort": waiting.stop_session,
    "queue.list": waiting.list_queue,
    "queue.drop": waiting.drop_queue,
    "approvals.list": waiting.list_approvals,
    "approvals.decide": waiting.decide_approval,
    "outbox.list": waiting.list_outbox,
    "outbox.retry": waiting.retry_outbound,
    "memory.get": memory.get_memory,
    "memory.write": memory.write_memory,
    "memory.history": memory.get_history,
    "personalities.list": memory.list_personalities,
    "tokens.list": tokens.list_tokens,
    "tokens.create": tokens.create_token,
    "tokens.revoke": tokens.revoke_token,
    "pairings.list": guests.list_pairings,
    "pairings.decide": guests.decide_pairing,
    "cron.list": cron.list_jobs,
    "cron.add": cron.add_job,
    "cron.remove": cron.remove_job,
    "cron.run": cron.run_job,
    "usage": numbers.get_usage,
    "status": numbers.get_status,
}


class Calls:
    """The public operations over living parts."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    async def call(self, name: str, params: Params | Mapping[str, Any], caller: Caller) -> Any:
        """Do what the name says; parameters that are not read yet are read strictly."""
        operation = get_operation(name)
        caller.check(operation)
        if not isinstance(params, operation.takes):
            given = params if isinstance(params, Mapping) else {}
            params = read_params(operation, given)
        return await HANDLERS[name](self.parts, params, caller)

    def stream(self, params: SendChat, caller: Caller) -> AsyncGenerator[StreamFrame]:
        """`chat.send` with all that comes of it: accepted, events, done. Close it when you leave.

        What goes wrong before the message is kept is raised before the first frame.
        """
        caller.check(get_operation("chat.send"))
        return chat.stream(self.parts, params, caller)
