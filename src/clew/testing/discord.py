"""A local server that speaks Discord's API and gateway, and the people who write to its bot.

The real library of a channel talks to it: see `DiscordServer.base_url`. It checks what Discord
checks: the token, the intents, the length of a text, that a message is not empty, that a nonce is
shown once. A test decides what else happens: a flood limit, a connection that breaks, a session
that is forgotten, a token that is reset, a message that comes twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import time
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec
from aiohttp import WSMsgType, web

from clew.core.channels.replies import Attached

Reaction = Literal["take", "refuse", "flood", "vanish", "misread", "swallow", "fail"]
"""What happens to the next message that is sent or changed. `swallow`: it is shown, then the line
is cut; `fail`: it is shown, and the answer is a 502.
"""

HOST: Final = "127.0.0.1"
TOKEN: Final = "MTAwMDAw.local.test-token"  # noqa: S105  # of this server only
BOT: Final = 100_000
BOT_ROLE: Final = 100_001
"""The role that Discord makes for a bot, with its name."""
GUILD: Final = 500
GENERAL: Final = 501
THREAD: Final = 502
"""A server, a channel of it, and a thread of the channel."""
LIMIT: Final = 2000
EPOCH: Final = 1_420_070_400_000
CONTENT_FLAG: Final = 1 << 18
CONTENT_INTENT: Final = 1 << 15
GUILD_MESSAGES: Final = 1 << 9
DM_MESSAGES: Final = 1 << 12
RIGHTS: Final = (1 << 10) | (1 << 11) | (1 << 15) | (1 << 16) | (1 << 38)
"""To view channels, to send messages, also in threads, to attach files, to read the history."""


class Person(msgspec.Struct, frozen=True):
    """Somebody on Discord."""

    id: int
    name: str
    is_bot: bool = False

    @property
    def wire(self) -> dict[str, Any]:
        """The person as the API describes them."""
        return {
            "id": str(self.id), "username": self.name.lower(), "global_name": self.name,
            "discriminator": "0", "avatar": None, "bot": self.is_bot, "public_flags": 0,
        }  # fmt: skip


ANN: Final = Person(7, "Ann")
BOB: Final = Person(8, "Bob")
CLEW: Final = Person(BOT, "Clew", is_bot=True)


class Sent(msgspec.Struct):
    """A message of the bot, as people see it now."""

    channel: int
    id: int
    text: str
    file: bytes | None = None
    file_name: str | None = None
    buttons: tuple[tuple[str, str], ...] = ()
    edits: int = 0
    nonce: str | None = None


class Refusal(Exception):  # an answer of the API, not an error of the server
    """An answer of the API that is an error."""

    def __init__(self, status: int, code: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.told = {"code": code, "message": message} | more


class _Session:
    """A session at the gateway: it outlives its connection."""

    def __init__(self, intents: int) -> None:
        self.id = secrets.token_hex(8)
        self.intents = intents
        self.events: list[dict[str, Any]] = []
        self.line: _Line | None = None


class _Line:
    """A connection, with the compression that its client asked for."""

    def __init__(self, socket: web.WebSocketResponse, compression: str | None) -> None:
        self.socket = socket
        self._pack: Callable[[bytes], bytes] | None = None
        if compression == "zlib-stream":
            stream = zlib.compressobj()
            self._pack = lambda data: stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)
        elif compression == "zstd-stream":
            import zstandard  # noqa: PLC0415  # only a client that has it asks for it

            packer = zstandard.ZstdCompressor().compressobj()
            block = zstandard.COMPRESSOBJ_FLUSH_BLOCK
            self._pack = lambda data: packer.compress(data) + packer.flush(block)

    async def tell(self, payload: dict[str, Any]) -> None:
        """Send a payload; a connection that is gone is no error."""
        data = json.dumps(payload)
        with contextlib.suppress(ConnectionError):
            if self._pack is None:
                await self.socket.send_str(data)
            else:
                await self.socket.send_bytes(self._pack(data.encode()))


class DiscordServer:
    """The server. `sent` are the bot's messages; `say` and the others are what people do."""

    def __init__(self) -> None:
        self.token = TOKEN
        self.flags = CONTENT_FLAG
        self.rights = RIGHTS
        self.application: dict[str, Any] = {}
        self.is_invited = True
        self.sent: list[Sent] = []
        self.reactions: deque[Reaction] = deque()
        self.retry_after = 0.05
        self.limit_scope: Literal["user", "global", "shared"] = "shared"
        self.typing: list[int] = []
        self.answered: list[str] = []
        """What was said, privately, to those who pressed a button."""
        self.deferred: list[str] = []
        """Presses that were acknowledged in time."""
        self.calls: list[str] = []
        self.connected = asyncio.Event()
        self.identified = 0
        self.resumed = 0
        self.port = 0
        self._history: dict[int, dict[str, Any]] = {}
        self._files: dict[str, bytes] = {}
        self._dms: dict[int, Person] = {}
        self._presses: dict[str, Sent] = {}
        self._sessions: dict[str, _Session] = {}
        self._last = 0
        self._runner: web.AppRunner | None = None
        self._open: set[Any] = set()

    @property
    def base_url(self) -> str:
        """What replaces `https://discord.com/api/v10`."""
        return f"http://{HOST}:{self.port}/api/v10"

    @property
    def _gateway(self) -> str:
        return f"ws://{HOST}:{self.port}/gateway"

    async def open(self, port: int = 0) -> None:
        """Listen at a local port."""
        app = web.Application(client_max_size=1 << 26)
        app.router.add_get("/gateway", self._serve_gateway)
        app.router.add_get("/gateway/", self._serve_gateway)
        app.router.add_get("/cdn/{name}", self._serve_file)
        app.router.add_route("*", "/api/v10/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening and hang up."""
        runner, self._runner = self._runner, None
        if runner is not None:
            for site in tuple(runner.sites):
                await site.stop()
            await self.hang_up()
            await runner.cleanup()

    async def hang_up(self) -> None:
        """Cut every connection to the gateway; sessions can be resumed."""
        self.connected.clear()
        for transport in tuple(self._open):
            transport.abort()

    async def forget(self) -> None:
        """Forget every session: what happens until there is a new one is not delivered."""
        self.connected.clear()
        lines = [each.line for each in self._sessions.values() if each.line is not None]
        self._sessions.clear()
        for line in lines:
            await line.tell({"op": 9, "d": False})

    async def order_reconnect(self) -> None:
        """Ask every client to connect again, as Discord does before maintenance."""
        self.connected.clear()
        for session in self._sessions.values():
            if session.line is not None:
                await session.line.tell({"op": 7, "d": None})

    def revoke(self) -> None:
        """From now on the bot's token is not valid."""
        self.token = "reset"  # noqa: S105  # not a real one

    # --- what people do -------------------------------------------------------------------------

    async def say(
        self,
        text: str,
        *,
        sender: Person = ANN,
        channel: int | None = None,
        files: Sequence[Attached] = (),
        answers: Sent | None = None,
        deliver: bool = True,
        **more: Any,
    ) -> int:
        """A person writes a message, privately or in a channel; returns its id."""
        where = self._dm(sender) if channel is None else channel
        message = self._describe(self._next(), where, text, sender)
        message["attachments"] = [self._attach(each) for each in files]
        if answers is not None:
            message |= {
                "type": 19,
                "message_reference": {"channel_id": str(where), "message_id": str(answers.id)},
                "referenced_message": self._describe(answers.id, where, answers.text, CLEW),
            }
        message |= more
        self._history[int(message["id"])] = message
        if deliver:
            await self.deliver(int(message["id"]))
        return int(message["id"])

    async def edit(self, message: int, text: str) -> None:
        """A person changes a message that they wrote."""
        changed = self._history[message] | {"content": text, "edited_timestamp": _now()}
        self._history[message] = changed | _find_mentions(text)
        await self._tell_all("MESSAGE_UPDATE", self._history[message])

    async def preview(self, message: int) -> None:
        """Discord adds the preview of a link to a message: that is no edit of a person."""
        await self._tell_all("MESSAGE_UPDATE", self._history[message] | {"embeds": []})

    async def press(
        self, sent: Sent, label: str, *, sender: Person = ANN, value: str | None = None
    ) -> None:
        """A person presses a button of a message."""
        if value is None:
            value = next(value for shown, value in sent.buttons if shown == label)
        token = f"press-{secrets.token_hex(8)}"
        self._presses[token] = sent
        told: dict[str, Any] = {
            "id": str(self._next()), "application_id": str(BOT), "type": 3, "token": token,
            "version": 1, "data": {"component_type": 2, "custom_id": value},
            "channel_id": str(sent.channel), "channel": self._describe_channel(sent.channel),
            "message": self._describe(sent.id, sent.channel, sent.text, CLEW),
            "entitlements": [], "authorizing_integration_owners": {}, "app_permissions": "0",
            "attachment_size_limit": 10_485_760,
        }  # fmt: skip
        if sent.channel in self._dms:
            told["user"] = sender.wire
        else:
            member = _describe_member(sender) | {"user": sender.wire, "permissions": "0"}
            told |= {"guild_id": str(GUILD), "member": member}
        await self._tell_all("INTERACTION_CREATE", told)

    async def deliver(self, message: int) -> None:
        """Deliver a message: for the first time, or once more."""
        await self._tell_all("MESSAGE_CREATE", self._history[message])

    def _dm(self, person: Person) -> int:
        """The private chat with a person: it has an id of its own."""
        chat = 9_000 + person.id
        self._dms[chat] = person
        return chat

    def _next(self) -> int:
        """A new id: the time, and a number."""
        now = (int(time.time() * 1000) - EPOCH) << 22
        self._last = max(now, self._last + 1)
        return self._last

    def _attach(self, file: Attached) -> dict[str, Any]:
        name = f"{len(self._files)}-{file.name or 'file'}"
        self._files[name] = file.data
        url = f"http://{HOST}:{self.port}/cdn/{name}"
        return {
            "id": str(self._next()), "filename": file.name or "file", "size": len(file.data),
            "url": url, "proxy_url": url, "content_type": file.media_type,
        }  # fmt: skip

    def _describe(self, number: int, channel: int, text: str, sender: Person) -> dict[str, Any]:
        told: dict[str, Any] = {
            "id": str(number), "channel_id": str(channel), "author": sender.wire, "content": text,
            "timestamp": _now(), "edited_timestamp": None, "tts": False, "mention_everyone": False,
            "attachments": [], "embeds": [], "pinned": False, "type": 0, "flags": 0,
            "components": [],
        }  # fmt: skip
        if channel not in self._dms:
            told |= {"guild_id": str(GUILD), "member": _describe_member(sender)}
        return told | _find_mentions(text)

    def _describe_channel(self, channel: int) -> dict[str, Any]:
        last = max((each for each, told in self._history.items()
                    if told["channel_id"] == str(channel)), default=None)  # fmt: skip
        told: dict[str, Any] = {
            "id": str(channel), "last_message_id": None if last is None else str(last)
        }  # fmt: skip
        if channel in self._dms:
            return told | {"type": 1, "recipients": [self._dms[channel].wire]}
        told |= {"guild_id": str(GUILD), "position": 0, "permission_overwrites": []}
        if channel == THREAD:
            archive = {"archived": False, "auto_archive_duration": 1440, "locked": False,
                       "archive_timestamp": _now()}  # fmt: skip
            return told | {
                "type": 11, "name": "the oven", "parent_id": str(GENERAL), "owner_id": str(ANN.id),
                "message_count": 1, "member_count": 1, "thread_metadata": archive,
            }  # fmt: skip
        return told | {"type": 0, "name": "general", "topic": None, "parent_id": None}

    def _describe_guild(self) -> dict[str, Any]:
        everyone = {
            "id": str(GUILD), "name": "@everyone", "permissions": str(self.rights), "position": 0,
            "color": 0, "colors": {"primary_color": 0}, "hoist": False, "managed": False,
            "mentionable": False, "flags": 0,
        }  # fmt: skip
        own = everyone | {
            "id": str(BOT_ROLE), "name": "Clew", "managed": True, "tags": {"bot_id": str(BOT)}
        }  # fmt: skip
        return {
            "id": str(GUILD), "name": "Kitchen", "owner_id": str(ANN.id), "unavailable": False,
            "member_count": 3, "large": False, "joined_at": _now(), "roles": [everyone, own],
            "channels": [self._describe_channel(GENERAL)],
            "threads": [self._describe_channel(THREAD)],
            "members": [_describe_member(CLEW) | {"user": CLEW.wire}],
            "emojis": [], "stickers": [], "features": [], "presences": [], "voice_states": [],
            "stage_instances": [], "guild_scheduled_events": [], "soundboard_sounds": [],
            "verification_level": 0, "default_message_notifications": 0, "mfa_level": 0,
            "explicit_content_filter": 0, "afk_timeout": 0, "nsfw_level": 0, "premium_tier": 0,
            "system_channel_flags": 0, "preferred_locale": "en-US",
            "premium_progress_bar_enabled": False,
        }  # fmt: skip

    # --- the gateway ----------------------------------------------------------------------------

    async def _serve_gateway(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=1 << 26, compress=False)
        await socket.prepare(request)
        line = _Line(socket, request.query.get("compress"))
        self._open.add(request.transport)
        session: _Session | None = None
        try:
            await line.tell({"op": 10, "d": {"heartbeat_interval": 41_250}})
            async for message in socket:
                if message.type is not WSMsgType.TEXT:
                    break
                told = json.loads(message.data)
                if told["op"] == 1:
                    await line.tell({"op": 11})
                elif told["op"] == 2:
                    session = await self._identify(line, told["d"])
                elif told["op"] == 6:
                    session = await self._resume(line, told["d"])
        finally:
            self._open.discard(request.transport)
            if session is not None and session.line is line:
                session.line = None
                self.connected.clear()
        return socket

    async def _identify(self, line: _Line, told: dict[str, Any]) -> _Session | None:
        if told["token"] != self.token:
            await line.socket.close(code=4004, message=b"Authentication failed.")
            return None
        if told["intents"] & CONTENT_INTENT and not self.flags & CONTENT_FLAG:
            await line.socket.close(code=4014, message=b"Disallowed intent(s).")
            return None
        session = _Session(told["intents"])
        self._sessions[session.id] = session
        session.line = line
        self.identified += 1
        guilds = [GUILD] if self.is_invited else []
        ready = {
            "v": 10, "user": CLEW.wire, "session_id": session.id, "private_channels": [],
            "resume_gateway_url": self._gateway,
            "guilds": [{"id": str(each), "unavailable": True} for each in guilds],
            "application": {"id": str(BOT), "flags": self.flags},
        }  # fmt: skip
        await self._tell(session, "READY", ready)
        if guilds:
            await self._tell(session, "GUILD_CREATE", self._describe_guild())
        self.connected.set()
        return session

    async def _resume(self, line: _Line, told: dict[str, Any]) -> _Session | None:
        if told["token"] != self.token:
            await line.socket.close(code=4004, message=b"Authentication failed.")
            return None
        session = self._sessions.get(told["session_id"])
        if session is None:
            await line.tell({"op": 9, "d": False})
            return None
        session.line = line
        self.resumed += 1
        for event in [each for each in session.events if each["s"] > told["seq"]]:
            await line.tell(event)
        await self._tell(session, "RESUMED", {"_trace": []})
        self.connected.set()
        return session

    async def _tell_all(self, kind: str, told: dict[str, Any]) -> None:
        for session in tuple(self._sessions.values()):
            if kind == "INTERACTION_CREATE":
                await self._tell(session, kind, told)
                continue
            needed = GUILD_MESSAGES if "guild_id" in told else DM_MESSAGES
            if session.intents & needed:
                await self._tell(session, kind, _as_allowed(told, session.intents))

    async def _tell(self, session: _Session, kind: str, told: dict[str, Any]) -> None:
        event = {"op": 0, "t": kind, "s": len(session.events) + 1, "d": told}
        session.events.append(event)
        if session.line is not None:
            await session.line.tell(event)

    # --- the API --------------------------------------------------------------------------------

    async def _serve_file(self, request: web.Request) -> web.Response:
        data = self._files.get(request.match_info["name"])
        return web.Response(status=404) if data is None else web.Response(body=data)

    async def _serve(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        # Of a call with a token of its own, the path is secret.
        self.calls.append(f"{request.method} {path.partition('/press-')[0]}")
        # A connection that breaks takes those along that wait for it.
        self._open.add(request.transport)
        try:
            found = await self._call(request, path)
        except Refusal as no:
            headers = {}
            if no.status == 429:
                headers = {
                    "Retry-After": str(no.told["retry_after"]), "Via": "1.1 local",
                    "X-RateLimit-Scope": self.limit_scope,
                }  # fmt: skip
            return _answer(no.told, no.status, headers)
        except ConnectionAbortedError:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        finally:
            self._open.discard(request.transport)
        return web.Response(status=204) if found is None else _answer(found)

    async def _call(self, request: web.Request, path: str) -> Any:  # noqa: PLR0911  # of each route
        parts = path.split("/")
        if parts[0] == "interactions":
            self.deferred.append(parts[2])
            return None
        if parts[0] == "webhooks":
            return await self._follow(request, parts)
        if request.headers.get("Authorization") != f"Bot {self.token}":
            raise Refusal(401, 0, "401: Unauthorized")
        match (request.method, *parts):
            case ("GET", "users", "@me"):
                return CLEW.wire
            case ("GET", "oauth2", "applications", "@me"):
                return self._describe_application()
            case ("GET", "gateway", "bot"):
                return {"url": self._gateway, "shards": 1}
            case ("GET", "users", "@me", "guilds"):
                told = {"id": str(GUILD), "name": "Kitchen", "permissions": str(self.rights)}
                return [told] if self.is_invited else []
            case ("POST", "users", "@me", "channels"):
                return self._open_dm(int((await request.json())["recipient_id"]))
            case ("POST", "channels", channel, "typing"):
                self.typing.append(int(channel))
                return None
            case ("GET", "channels", channel, "messages"):
                return self._list(int(channel), request.query)
            case ("POST", "channels", channel, "messages"):
                return self._show(int(channel), *await _read(request))
            case ("PATCH", "channels", channel, "messages", number):
                return self._change(int(channel), int(number), await request.json())
        raise Refusal(404, 0, "404: Not Found")

    def _describe_application(self) -> dict[str, Any]:
        return {
            "id": str(BOT), "name": "Clew", "icon": None, "description": "", "bot_public": True,
            "bot_require_code_grant": False, "verify_key": "", "flags": self.flags,
            "owner": ANN.wire, "team": None, "summary": "",
        } | self.application  # fmt: skip

    def _open_dm(self, person: int) -> dict[str, Any]:
        known = {each.id: each for each in (ANN, BOB)}
        if person not in known:
            raise Refusal(400, 50033, "Invalid Recipient(s)")
        return self._describe_channel(self._dm(known[person]))

    def _list(self, channel: int, query: Any) -> list[dict[str, Any]]:
        after, limit = int(query.get("after", 0)), int(query.get("limit", 50))
        before = int(query.get("before", 1 << 63))
        found = [
            told for number, told in self._history.items()
            if told["channel_id"] == str(channel) and after < number < before
        ]  # fmt: skip
        # With `after` alone Discord gives those that follow it; always the newest first.
        found.sort(key=lambda each: int(each["id"]))
        chosen = found[:limit] if "after" in query else found[-limit:]
        # The API leaves out the server and the membership.
        return [
            {name: value for name, value in told.items() if name not in ("guild_id", "member")}
            for told in reversed(chosen)
        ]

    def _react(self) -> Reaction:
        reaction = self.reactions.popleft() if self.reactions else "take"
        if reaction == "refuse":
            raise Refusal(403, 50007, "Cannot send messages to this user")
        if reaction == "flood":
            raise Refusal(
                429, 0, "You are being rate limited.", retry_after=self.retry_after,
                **{"global": self.limit_scope == "global"},
            )  # fmt: skip
        if reaction == "misread":
            _refuse_form("Could not be read.", "BASE_TYPE_BAD")
        if reaction == "vanish":
            raise ConnectionAbortedError
        return reaction

    def _show(
        self, channel: int, told: dict[str, Any], file: tuple[str, bytes] | None
    ) -> dict[str, Any]:
        reaction = self._react()
        if channel not in self._dms and channel not in (GENERAL, THREAD):
            raise Refusal(404, 10003, "Unknown Channel")
        nonce = told.get("nonce")
        if told.get("enforce_nonce") and nonce is not None:
            for one in self.sent:
                if one.nonce == nonce:
                    return self._describe(one.id, channel, one.text, CLEW)
        assert told.get("allowed_mentions") == {"parse": []}, "somebody may be called"
        text = _check_text(told, has_file=file is not None)
        name, data = file or (None, None)
        one = Sent(
            channel, self._next(), text, data, name, _read_buttons(told.get("components")),
            nonce=None if nonce is None else str(nonce),
        )  # fmt: skip
        self.sent.append(one)
        if reaction == "swallow":
            raise ConnectionAbortedError
        if reaction == "fail":
            raise Refusal(502, 0, "Bad Gateway")
        return self._describe(one.id, channel, text, CLEW)

    def _change(self, channel: int, number: int, told: dict[str, Any]) -> dict[str, Any]:
        self._react()
        one = next((x for x in self.sent if (x.channel, x.id) == (channel, number)), None)
        if one is None:
            raise Refusal(404, 10008, "Unknown Message")
        one.text = _check_text(told, has_file=one.file is not None)
        one.edits += 1
        return self._describe(one.id, channel, one.text, CLEW)

    async def _follow(self, request: web.Request, parts: list[str]) -> dict[str, Any]:
        """What follows a press: its token is the right to do so."""
        sent = self._presses.get(parts[2])
        if sent is None or int(parts[1]) != BOT:
            raise Refusal(404, 10015, "Unknown Webhook")
        told = await request.json()
        if request.method == "POST":
            assert told["flags"] == 64, "everybody could read it"
            self.answered.append(_check_text(told))
        else:
            sent.buttons = _read_buttons(told.get("components"))
        return self._describe(sent.id, sent.channel, sent.text, CLEW)


def _describe_member(person: Person) -> dict[str, Any]:
    roles = [str(BOT_ROLE)] if person.id == BOT else []
    return {
        "roles": roles, "joined_at": _now(), "deaf": False, "mute": False, "flags": 0,
        "nick": None, "pending": False, "premium_since": None, "avatar": None,
    }  # fmt: skip


def _find_mentions(text: str) -> dict[str, Any]:
    known = {each.id: each for each in (ANN, BOB, CLEW)}
    people = [known[int(each)] for each in re.findall(r"<@!?(\d+)>", text) if int(each) in known]
    return {
        "mentions": [each.wire for each in people],
        "mention_roles": re.findall(r"<@&(\d+)>", text),
    }


def _as_allowed(told: dict[str, Any], intents: int) -> dict[str, Any]:
    """A message of a server is empty for a bot without the intent, unless it mentions the bot."""
    is_open = "guild_id" not in told or any(each["id"] == str(BOT) for each in told["mentions"])
    if is_open or intents & CONTENT_INTENT:
        return told
    return told | {"content": "", "attachments": [], "embeds": [], "components": []}


def _refuse_form(message: str, code: str) -> None:
    raise Refusal(
        400, 50035, "Invalid Form Body",
        errors={"content": {"_errors": [{"code": code, "message": message}]}},
    )  # fmt: skip


def _check_text(told: dict[str, Any], *, has_file: bool = False) -> str:
    """The text that people see; refuses what Discord refuses."""
    text = str(told.get("content") or "").strip()
    if len(text) > LIMIT:
        _refuse_form("Must be 2000 or fewer in length.", "BASE_TYPE_MAX_LENGTH")
    if not text and not has_file:
        raise Refusal(400, 50006, "Cannot send an empty message")
    return text


def _read_buttons(rows: Any) -> tuple[tuple[str, str], ...]:
    if len(rows or []) > 5 or any(len(row["components"]) > 5 for row in rows or []):
        _refuse_form("Must be 5 or fewer in length.", "BASE_TYPE_BAD_LENGTH")
    buttons = [(one["label"], one["custom_id"]) for row in rows or [] for one in row["components"]]
    values = [value for _, value in buttons]
    if len({*values}) < len(values) or any(not 0 < len(each) <= 100 for each in values):
        _refuse_form("Component custom id is wrong.", "COMPONENT_CUSTOM_ID")
    return tuple(buttons)


async def _read(request: web.Request) -> tuple[dict[str, Any], tuple[str, bytes] | None]:
    """The body of a new message, and its file."""
    if request.content_type == "application/json":
        return await request.json(), None
    fields = await request.post()
    file = fields.get("files[0]")
    told = json.loads(str(fields["payload_json"]))
    if not isinstance(file, web.FileField):
        return told, None
    return told, (file.filename, file.file.read())


def _answer(told: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    # Without a charset, as Discord writes it: the library compares the whole word.
    body = json.dumps(told).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


def _now() -> str:
    return datetime.now(UTC).isoformat()


@asynccontextmanager
async def open_discord() -> AsyncIterator[DiscordServer]:
    """A server for the time of the block."""
    server = DiscordServer()
    await server.open()
    try:
        yield server
    finally:
        await server.close()
