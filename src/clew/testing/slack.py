"""A local server that speaks Slack's Web API and socket mode, and the people of its workspace.

The real library of a channel talks to it: see `SlackServer.base_url`. It checks what Slack checks:
the two tokens, the permissions of a method, ids, the length of texts, blocks; it reads mrkdwn and
sees who is mentioned. Envelopes that nobody has acknowledged come again on the next connection. A
test decides what else happens: a flood limit, a connection that breaks, a revoked token.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

import msgspec
from aiohttp import WSMsgType, web

from clew.core.channels.replies import Attached, utf16_size

Reaction = Literal["take", "refuse", "flood", "vanish", "misread", "swallow", "break"]
"""What happens to the next message that is sent; `swallow`: it is shown, then the line is cut;
`break`: Slack answers that something went wrong and may have happened.
"""

HOST: Final = "127.0.0.1"
TOKEN: Final = "xoxb-local-test-token"  # noqa: S105  # of this server only
APP_TOKEN: Final = "xapp-1-A01APP-2-local-test-token"  # noqa: S105  # of this server only
BOT: Final = "U0BOT"
LIMIT: Final = 40_000
EDIT_LIMIT: Final = 4_000
"""UTF-16 units of a text that is sent, and of one that replaces another."""

SCOPES: Final = (
    "chat:write", "im:history", "im:read", "im:write", "channels:history", "channels:read",
    "groups:history", "groups:read", "mpim:history", "mpim:read", "users:read", "files:read",
    "files:write", "reactions:write", "commands",
)  # fmt: skip
_NEEDS: Final = {
    "chat.postmessage": "chat:write",
    "chat.update": "chat:write",
    "chat.postephemeral": "chat:write",
    "users.info": "users:read",
    "bots.info": "users:read",
    "conversations.info": "channels:read",
    "conversations.open": "im:write",
    "conversations.replies": "channels:history",
    "files.info": "files:read",
    "files.getuploadurlexternal": "files:write",
    "files.completeuploadexternal": "files:write",
    "reactions.add": "reactions:write",
    "reactions.remove": "reactions:write",
}
_CONTROL: Final = re.compile(r"<([^<>]*)>")
_TS: Final = re.compile(r"\d{10}\.\d{6}")


class Person(msgspec.Struct, frozen=True):
    """Somebody of the workspace."""

    id: str
    name: str


class Chat(msgspec.Struct, frozen=True):
    """A channel or a group of people; a private chat is `direct`."""

    id: str
    type: Literal["im", "channel", "group", "mpim"] = "im"
    name: str | None = None


def direct(person: Person) -> Chat:
    """The chat of a person with the bot."""
    return Chat(f"D{person.id[1:]}")


ANN: Final = Person("U07ANN", "Ann")
BOB: Final = Person("U08BOB", "Bob")
CHANNEL: Final = Chat("C0KITCHEN", "channel", "kitchen")
PRIVATE: Final = Chat("C0CELLAR", "group", "cellar")
FRIENDS: Final = Chat("G0FRIENDS", "mpim", "mpdm-ann--bob--clew-1")


class Sent(msgspec.Struct):
    """A message of the bot, as people see it now; `raw` is its text as it was sent."""

    chat: str
    ts: str
    text: str
    raw: str = ""
    thread: str | None = None
    file: bytes | None = None
    file_name: str | None = None
    buttons: tuple[tuple[str, str], ...] = ()
    mentions: tuple[str, ...] = ()
    edits: int = 0


class Refusal(Exception):  # an answer of the API, not an error of the server
    """An answer of the API that is not ok."""

    def __init__(self, error: str, *, status: int = 200, **more: Any) -> None:
        super().__init__(error)
        self.error, self.status, self.more = error, status, more


class SlackServer:
    """The server. `sent` are the bot's messages; `say` and the others are what people do."""

    def __init__(self) -> None:
        self.token, self.app_token = TOKEN, APP_TOKEN
        self.scopes = list(SCOPES)
        self.team = {"id": "T01HOME", "name": "Home"}
        self.app_id = "A01APP"
        self.people = {each.id: each for each in (ANN, BOB)}
        self.chats = {each.id: each for each in (CHANNEL, PRIVATE, FRIENDS)}
        self.sent: list[Sent] = []
        self.whispered: list[tuple[str, str]] = []
        """What was shown to one person only: who, and the text."""
        self.reacted: list[tuple[str, str, str]] = []
        """Reactions of the bot: `add` or `remove`, the chat, and the message."""
        self.reactions: deque[Reaction] = deque()
        self.retry_after = 1
        self.calls: list[str] = []
        self.acknowledged: set[int] = set()
        """The numbers of the events that were acknowledged."""
        self.connections = 0
        """How many web sockets were opened so far."""
        self.port = 0
        self._refusal = "invalid_auth"
        self._events: dict[int, tuple[str, dict[str, Any]]] = {}
        self._waiting: dict[str, tuple[int, dict[str, Any]]] = {}
        self._numbers = itertools.count(1)
        self._last = 0
        self._authors: dict[tuple[str, str], dict[str, Any]] = {}
        self._files: dict[str, tuple[dict[str, Any], bytes]] = {}
        self._tickets: set[str] = set()
        self._sockets: list[web.WebSocketResponse] = []
        self._linked = asyncio.Condition()
        self._tasks: set[asyncio.Future[int]] = set()
        self._runner: web.AppRunner | None = None

    @property
    def origin(self) -> str:
        """The address of this server."""
        return f"http://{HOST}:{self.port}"

    @property
    def base_url(self) -> str:
        """What replaces `https://slack.com/api/`."""
        return f"{self.origin}/api/"

    async def open(self, port: int = 0) -> None:
        """Listen at a local port."""
        app = web.Application(client_max_size=1 << 28)
        app.router.add_route("*", "/api/{method}", self._answer)
        app.router.add_get("/link", self._talk)
        app.router.add_post("/upload/{file}", self._take_upload)
        app.router.add_get("/files/{file}", self._give_file)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening and hang up."""
        if self._runner is not None:
            await self.hang_up()
            await self._runner.cleanup()
            self._runner = None
        await asyncio.gather(*self._tasks)

    async def hang_up(self) -> None:
        """Cut every connection that is open."""
        server = None if self._runner is None else self._runner.server
        for each in [] if server is None else server.connections:
            if each.transport is not None:
                each.transport.abort()

    async def refresh(self, reason: str = "refresh_requested") -> None:
        """Ask for new connections, and close the old ones when there is one."""
        old, before = [*self._sockets], self.connections
        for each in old:
            await each.send_json({"type": "disconnect", "reason": reason, "debug_info": {}})
        if reason == "link_disabled":
            self.app_token, self._refusal = "off", "forbidden_team"
        elif old:
            async with self._linked:
                await self._linked.wait_for(lambda: self.connections > before)
        for each in old:
            await each.close()

    def revoke(self) -> None:
        """From now on the bot's token is not valid, and neither is the app's."""
        self.token = self.app_token = "revoked"  # noqa: S105  # not a real one
        self._refusal = "token_revoked"

    # --- what people do -------------------------------------------------------------------------

    async def say(
        self,
        text: str,
        *,
        sender: Person = ANN,
        chat: Chat | None = None,
        thread: str | None = None,
        files: Sequence[Attached] = (),
        links: Sequence[Mapping[str, Any]] = (),
        date: int | None = None,
        **more: Any,
    ) -> int:
        """A person writes a message, `@Name` mentions; returns the number of its event.

        `links` are files as Slack describes those that are kept elsewhere.
        """
        chat = chat or direct(sender)
        ts = self._tick(date)
        event: dict[str, Any] = {
            "type": "message", "user": sender.id, "text": self._typed(text), "ts": ts,
            "event_ts": ts, "channel": chat.id, "channel_type": chat.type,
            "team": self.team["id"], "client_msg_id": f"m-{ts}",
        }  # fmt: skip
        if files or links:
            attached = [*(self._attach(each) for each in files), *links]
            event |= {"subtype": "file_share", "files": attached}
        if thread is not None:
            parent = self._authors.setdefault((chat.id, thread), {})
            parent["thread_ts"] = thread
            event |= {"thread_ts": thread, "parent_user_id": parent.get("user")}
        event |= more
        self._authors[chat.id, ts] = event
        return await self._happen(event)

    def ts_of(self, number: int) -> str:
        """The id of the message of an event."""
        event = self._events[number][1]["event"]
        return str(event.get("ts") or event["message"]["ts"])

    async def edit(self, number: int, text: str) -> int:
        """A person changes a message that they wrote."""
        before = self._events[number][1]["event"]
        edited = {"edited": {"user": before["user"], "ts": self._tick()}}
        return await self._change(before, before | edited | {"text": self._typed(text)})

    async def unfurl(self, number: int) -> int:
        """Slack adds the preview of a link to a message."""
        before = self._events[number][1]["event"]
        return await self._change(before, before | {"attachments": [{"title": "A page"}]})

    async def _change(self, before: dict[str, Any], now: dict[str, Any]) -> int:
        inner = ("channel", "channel_type", "event_ts")
        return await self._happen(
            {
                "type": "message", "subtype": "message_changed", "hidden": True,
                "channel": before["channel"], "channel_type": before["channel_type"],
                "ts": self._tick(), "event_ts": self._tick(),
                "message": {name: value for name, value in now.items() if name not in inner},
                "previous_message": {
                    name: value for name, value in before.items() if name not in inner
                },
            }
        )  # fmt: skip

    async def join(self, chat: Chat, *, sender: Person = ANN) -> int:
        """A person invites the bot to a channel."""
        return await self._happen(
            {
                "type": "member_joined_channel", "user": BOT, "channel": chat.id,
                "channel_type": "C", "team": self.team["id"], "inviter": sender.id,
                "event_ts": self._tick(),
            }
        )  # fmt: skip

    async def press(
        self, sent: Sent, label: str, *, sender: Person = ANN, value: str | None = None
    ) -> int:
        """A person presses a button of a message; `value`: of a button that it does not have."""
        if value is None:
            value = next(value for shown, value in sent.buttons if shown == label)
        message = {"type": "message", "user": BOT, "ts": sent.ts, "text": sent.raw}
        container = {"type": "message", "message_ts": sent.ts, "channel_id": sent.chat}
        thread = sent.thread or self._authors.get((sent.chat, sent.ts), {}).get("thread_ts")
        if thread is not None:
            message["thread_ts"] = container["thread_ts"] = thread
        name = "directmessage" if sent.chat.startswith("D") else "privategroup"
        payload: dict[str, Any] = {
            "type": "block_actions", "user": {"id": sender.id, "team_id": self.team["id"]},
            "api_app_id": self.app_id, "container": container, "trigger_id": f"t{self._last}",
            "team": self.team, "channel": {"id": sent.chat, "name": name}, "message": message,
            "actions": [
                {"type": "button", "action_id": "choice0", "block_id": "b", "value": value,
                 "action_ts": self._tick()}
            ],
        }  # fmt: skip
        return await self._add("interactive", payload)

    async def command(self, text: str, *, sender: Person = ANN, chat: Chat | None = None) -> int:
        """A person writes the command of the app, with this text after it."""
        chat = chat or direct(sender)
        payload = {
            "command": "/clew", "text": self._typed(text), "user_id": sender.id,
            "channel_id": chat.id, "channel_name": chat.name or "directmessage",
            "team_id": self.team["id"], "trigger_id": f"command{self._tick()}",
            "api_app_id": self.app_id,
        }  # fmt: skip
        return await self._add("slash_commands", payload)

    async def remove_app(self) -> int:
        """The owner of the workspace removes the app."""
        return await self._happen({"type": "app_uninstalled", "event_ts": self._tick()})

    async def repeat(self, number: int) -> None:
        """Deliver an event once more, whether it was acknowledged or not."""
        kind, payload = self._events[number]
        await self._deliver(number, kind, payload, attempt=1)

    def forget(self) -> None:
        """Give up the envelopes that wait, as Slack does after some tries."""
        self._waiting.clear()

    def shuffle(self) -> None:
        """Put the envelopes that wait into the wrong order."""
        self._waiting = dict(reversed(self._waiting.items()))

    async def _happen(self, event: dict[str, Any]) -> int:
        number = len(self._events) + 1
        payload = {
            "type": "event_callback", "team_id": self.team["id"], "api_app_id": self.app_id,
            "event": event, "event_id": f"Ev{number}", "event_time": int(time.time()),
            "authorizations": [
                {"team_id": self.team["id"], "user_id": BOT, "is_bot": True}
            ],
        }  # fmt: skip
        return await self._add("events_api", payload)

    async def _add(self, kind: str, payload: dict[str, Any]) -> int:
        number = len(self._events) + 1
        self._events[number] = (kind, payload)
        await self._deliver(number, kind, payload)
        return number

    async def _deliver(
        self, number: int, kind: str, payload: dict[str, Any], *, attempt: int = 0
    ) -> None:
        envelope = {
            "envelope_id": f"e-{next(self._numbers)}", "type": kind, "payload": payload,
            "accepts_response_payload": kind != "events_api",
        }  # fmt: skip
        if kind == "events_api":
            envelope |= {
                "retry_attempt": attempt,
                "retry_reason": "timeout" if attempt else "",
            }
        self._waiting[str(envelope["envelope_id"])] = (number, envelope)
        for each in reversed(self._sockets):
            if not each.closed:
                try:
                    await each.send_json(envelope)
                except ConnectionError:
                    continue
                return

    def _tick(self, date: int | None = None) -> str:
        """The time of the next thing that happens; no two happen at the same time."""
        if date is None:
            number = self._last = max(self._last + 100, int(time.time()) * 1_000_000)
        else:
            number = date * 1_000_000 + len(self._events)
        return f"{number // 1_000_000}.{number % 1_000_000:06d}"

    def _typed(self, text: str) -> str:
        said = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        for who, name in ((BOT, "clew"), *((each.id, each.name) for each in self.people.values())):
            said = re.sub(rf"@{name}\b", f"<@{who}>", said)
        return said

    def _attach(self, file: Attached) -> dict[str, Any]:
        name = f"F{len(self._files) + 1:06d}"
        place = f"{self.origin}/files/{name}"
        told = {
            "id": name, "name": file.name, "mimetype": file.media_type, "size": len(file.data),
            "mode": "hosted", "is_external": False, "url_private": place,
            "url_private_download": place,
        }  # fmt: skip
        self._files[name] = (told, file.data)
        return told

    # --- socket mode ----------------------------------------------------------------------------

    async def _talk(self, request: web.Request) -> web.WebSocketResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            raise web.HTTPForbidden
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self._sockets.append(socket)
        async with self._linked:
            self.connections += 1
            self._linked.notify_all()
        try:
            await socket.send_json(
                {"type": "hello", "num_connections": len(self._sockets), "debug_info": {},
                 "connection_info": {"app_id": self.app_id}}
            )  # fmt: skip
            for _, envelope in tuple(self._waiting.values()):
                await socket.send_json(envelope)
            async for message in socket:
                if message.type == WSMsgType.TEXT:
                    self._acknowledge(json.loads(message.data))
        except ConnectionError:
            pass
        finally:
            self._sockets.remove(socket)
        return socket

    def _acknowledge(self, said: dict[str, Any]) -> None:
        number, _ = self._waiting.pop(str(said.get("envelope_id")), (0, {}))
        self.acknowledged.add(number)
        same = [name for name, (each, _) in self._waiting.items() if each == number]
        for name in same:
            del self._waiting[name]

    # --- the Web API ----------------------------------------------------------------------------

    async def _answer(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        self.calls.append(method)
        headers = {"x-oauth-scopes": ",".join(self.scopes)}
        try:
            told = self._call(request, method, await _read_fields(request))
        except Refusal as no:
            if no.error == "ratelimited":
                headers["Retry-After"] = str(self.retry_after)
            answer = {"ok": False, "error": no.error, **no.more}
            return web.json_response(answer, status=no.status, headers=headers)
        except ConnectionAbortedError:
            if request.transport is not None:
                request.transport.abort()
            raise
        return web.json_response({"ok": True, **told}, headers=headers)

    def _call(self, request: web.Request, method: str, fields: dict[str, Any]) -> dict[str, Any]:
        name = method.lower()
        wanted = self.app_token if name == "apps.connections.open" else self.token
        if request.headers.get("Authorization") != f"Bearer {wanted}":
            raise Refusal(self._refusal)
        handler = getattr(self, f"_do_{name.replace('.', '_')}", None)
        if handler is None:
            raise Refusal("unknown_method")
        need = _NEEDS.get(name)
        if need is not None and need not in self.scopes:
            raise Refusal("missing_scope", needed=need, provided=",".join(self.scopes))
        told: dict[str, Any] = handler(fields)
        return told

    def _do_apps_connections_open(self, _fields: dict[str, Any]) -> dict[str, Any]:
        ticket = f"ticket-{next(self._numbers)}"
        self._tickets.add(ticket)
        return {"url": f"ws://{HOST}:{self.port}/link?ticket={ticket}"}

    def _do_auth_test(self, _fields: dict[str, Any]) -> dict[str, Any]:
        return {
            "url": f"{self.origin}/", "team": self.team["name"], "team_id": self.team["id"],
            "user": "clew", "user_id": BOT, "bot_id": "B0BOT", "is_enterprise_install": False,
        }  # fmt: skip

    def _do_bots_info(self, _fields: dict[str, Any]) -> dict[str, Any]:
        return {"bot": {"id": "B0BOT", "app_id": self.app_id, "user_id": BOT, "name": "clew"}}

    def _do_users_info(self, fields: dict[str, Any]) -> dict[str, Any]:
        person = self.people.get(str(fields.get("user")))
        if person is None:
            raise Refusal("user_not_found")
        profile = {"display_name": person.name, "real_name": f"{person.name} Example"}
        return {"user": {"id": person.id, "name": person.name.lower(), "profile": profile}}

    def _do_conversations_info(self, fields: dict[str, Any]) -> dict[str, Any]:
        chat = self._get_chat(fields)
        told = {"id": chat.id, "name": chat.name, "is_mpim": chat.type == "mpim"}
        return {"channel": told | {"is_im": chat.type == "im"}}

    def _do_conversations_open(self, fields: dict[str, Any]) -> dict[str, Any]:
        person = self.people.get(str(fields.get("users")))
        if person is None:
            raise Refusal("user_not_found")
        return {"channel": {"id": direct(person).id}}

    def _do_conversations_replies(self, fields: dict[str, Any]) -> dict[str, Any]:
        first = self._authors.get((self._get_chat(fields).id, str(fields.get("ts"))))
        if first is None:
            raise Refusal("thread_not_found")
        return {"messages": [first], "has_more": False}

    def _do_chat_postmessage(self, fields: dict[str, Any]) -> dict[str, Any]:
        return self._show(fields, str(fields.get("text") or ""))

    def _do_chat_update(self, fields: dict[str, Any]) -> dict[str, Any]:
        self._react()
        one = self._get_sent(fields)
        text = str(fields.get("text") or "")
        if utf16_size(text) > EDIT_LIMIT:
            raise Refusal("msg_too_long")
        before = one.raw
        one.text, one.mentions = parse_mrkdwn(text)
        one.raw = text
        if "blocks" in fields:  # without it, blocks stay
            one.buttons = _read_blocks(fields["blocks"])
        one.edits += 1
        self._echo(one, before)
        return {"channel": one.chat, "ts": one.ts, "text": one.raw}

    def _do_chat_postephemeral(self, fields: dict[str, Any]) -> dict[str, Any]:
        self.whispered.append((str(fields["user"]), parse_mrkdwn(str(fields.get("text")))[0]))
        return {"message_ts": self._tick()}

    def _do_reactions_add(self, fields: dict[str, Any]) -> dict[str, Any]:
        return self._mark("add", fields)

    def _do_reactions_remove(self, fields: dict[str, Any]) -> dict[str, Any]:
        return self._mark("remove", fields)

    def _mark(self, what: str, fields: dict[str, Any]) -> dict[str, Any]:
        place = (str(fields.get("channel")), str(fields.get("timestamp")))
        if place not in self._authors:
            raise Refusal("message_not_found")
        marks = [each[0] for each in self.reacted if each[1:] == place]
        if (marks[-1:] == ["add"]) == (what == "add"):
            raise Refusal("already_reacted" if what == "add" else "no_reaction")
        self.reacted.append((what, *place))
        return {}

    def _do_files_info(self, fields: dict[str, Any]) -> dict[str, Any]:
        found = self._files.get(str(fields.get("file")))
        if found is None:
            raise Refusal("file_not_found")
        return {"file": found[0]}

    def _do_files_getuploadurlexternal(self, fields: dict[str, Any]) -> dict[str, Any]:
        told = self._attach(Attached("application/octet-stream", b"", str(fields["filename"])))
        told["size"] = int(fields["length"])
        if told["size"] < 1:
            raise Refusal("invalid_arguments")
        return {"upload_url": f"{self.origin}/upload/{told['id']}", "file_id": told["id"]}

    def _do_files_completeuploadexternal(self, fields: dict[str, Any]) -> dict[str, Any]:
        given = fields["files"]
        (one,) = json.loads(given) if isinstance(given, str) else given
        told, data = self._files[one["id"]]
        if len(data) != told["size"]:
            raise Refusal("file_not_found")
        place = fields | {"channel": fields.get("channel_id")}
        if not str(place["channel"]).startswith(("C", "D", "G")):
            raise Refusal("invalid_channel")
        self._show(
            place, str(fields.get("initial_comment") or ""), file=data, file_name=told["name"]
        )
        return {"files": [{"id": one["id"], "title": one.get("title")}]}

    def _react(self) -> Reaction:
        """What happens to this message; raises if that is known before it is read."""
        reaction = self.reactions.popleft() if self.reactions else "take"
        if reaction == "refuse":
            raise Refusal("is_archived")
        if reaction == "flood":
            raise Refusal("ratelimited", status=429)
        if reaction == "misread":
            raise Refusal("invalid_blocks", errors=["it can't be read"])
        if reaction == "break":
            raise Refusal("fatal_error")
        if reaction == "vanish":
            raise ConnectionAbortedError
        return reaction

    def _show(self, fields: dict[str, Any], text: str, **more: Any) -> dict[str, Any]:
        reaction = self._react()
        chat = self._get_chat(fields)
        buttons = _read_blocks(fields.get("blocks"))
        if not text.strip() and "file" not in more:
            raise Refusal("no_text")
        if utf16_size(text) > LIMIT:
            raise Refusal("msg_too_long")
        thread = fields.get("thread_ts")
        if thread is not None and not _TS.fullmatch(str(thread)):
            raise Refusal("invalid_thread_ts")
        shown, mentions = parse_mrkdwn(text)
        one = Sent(
            chat.id, self._tick(), shown, text, thread, buttons=buttons, mentions=mentions, **more
        )
        self.sent.append(one)
        self._authors[one.chat, one.ts] = {
            "user": BOT, "bot_id": "B0BOT", "text": one.raw, "ts": one.ts,
        }  # fmt: skip
        self._echo(one, None)
        if reaction == "swallow":
            raise ConnectionAbortedError
        return {"channel": one.chat, "ts": one.ts, "message": {"text": one.raw, "ts": one.ts}}

    def _echo(self, one: Sent, before: str | None) -> None:
        """Tell the app of its own message, as Slack does."""
        kind = self.chats[one.chat].type if one.chat in self.chats else "im"
        place = {"channel": one.chat, "channel_type": kind}
        now = {"type": "message", "user": BOT, "bot_id": "B0BOT", "text": one.raw, "ts": one.ts}
        event: dict[str, Any] = now | place | {"event_ts": self._tick()}
        if before is not None:
            event = {
                "type": "message", "subtype": "message_changed", "message": now, **place,
                "previous_message": now | {"text": before}, "event_ts": self._tick(),
            }  # fmt: skip
        task = asyncio.ensure_future(self._happen(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _get_chat(self, fields: Mapping[str, Any]) -> Chat:
        name = str(fields.get("channel"))
        for person in self.people.values():
            if name in (person.id, direct(person).id):
                return direct(person)
        if name not in self.chats:
            raise Refusal("channel_not_found")
        return self.chats[name]

    def _get_sent(self, fields: Mapping[str, Any]) -> Sent:
        for one in self.sent:
            if (one.chat, one.ts) == (fields.get("channel"), fields.get("ts")):
                return one
        raise Refusal("message_not_found")

    # --- files ----------------------------------------------------------------------------------

    async def _take_upload(self, request: web.Request) -> web.Response:
        name = request.match_info["file"]
        if "Authorization" in request.headers:
            return web.Response(status=400, text="a token has no business here")
        data = await request.read()
        told, _ = self._files[name]
        if len(data) != told["size"]:
            return web.Response(status=400, text="another size was announced")
        self._files[name] = (told, data)
        return web.Response(text=f"OK - {len(data)}")

    async def _give_file(self, request: web.Request) -> web.Response:
        told, data = self._files.get(request.match_info["file"], ({}, b""))
        allowed = request.headers.get("Authorization") == f"Bearer {self.token}"
        if not allowed or "files:read" not in self.scopes:
            return web.Response(text="<html>Sign in to Home</html>", content_type="text/html")
        return web.Response(body=data, content_type=told["mimetype"])


async def _read_fields(request: web.Request) -> dict[str, Any]:
    """The parameters of a call: as JSON or as a form, and in the address."""
    fields: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        fields |= await request.json()
        return fields
    return fields | dict(await request.post())


def _read_blocks(given: Any) -> tuple[tuple[str, str], ...]:
    """The buttons of blocks; refuses what Slack refuses."""
    blocks = (json.loads(given) if isinstance(given, str) else given) or []
    buttons: list[tuple[str, str]] = []
    for block in blocks:
        if block["type"] == "section":
            if not 0 < utf16_size(block["text"]["text"]) <= 3_000:
                raise Refusal("invalid_blocks")
        elif block["type"] == "actions":
            buttons += list(_read_buttons(block["elements"]))
        else:
            raise Refusal("invalid_blocks")
    return tuple(buttons)


def _read_buttons(elements: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    if not 0 < len(elements) <= 25 or len({each["action_id"] for each in elements}) < len(elements):
        raise Refusal("invalid_blocks")
    for each in elements:
        label, value = each["text"]["text"], each.get("value", "")
        if each["text"]["type"] != "plain_text" or len(label) > 75 or len(value) > 2_000:
            raise Refusal("invalid_blocks")
        yield label, value


def parse_mrkdwn(text: str) -> tuple[str, tuple[str, ...]]:
    """The text that people see, with its marks, and whom it mentions (`@U1`, `#C1`, `!here`)."""
    mentions: list[str] = []
    out: list[str] = []
    place = 0
    for match in _CONTROL.finditer(text):
        out.append(text[place : match.start()])
        target, _, label = match[1].partition("|")
        if target[:1] in ("@", "#", "!"):
            mentions.append(target)
        out.append(label or target)
        place = match.end()
    shown = "".join([*out, text[place:]])
    for code, sign in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        shown = shown.replace(code, sign)
    return shown, tuple(mentions)


@asynccontextmanager
async def open_slack() -> AsyncIterator[SlackServer]:
    """A server for the time of the block."""
    server = SlackServer()
    await server.open()
    try:
        yield server
    finally:
        await server.close()
