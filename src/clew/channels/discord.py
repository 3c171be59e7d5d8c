"""Discord: a bot at the gateway (WebSocket), over `discord.py`. Its Markdown is `discord_markup`.

Discord delivers a message once, to whoever is connected. What was written while nobody was, or
what could not be kept, is fetched at the next start: the channel remembers in a file up to where it
has reported. Who may talk, and which session it is, is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import logging
import re
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import discord
import msgspec
from discord.http import HTTPClient, Route
from discord.ui import Button, View

from clew.channels.discord_markup import to_discord
from clew.core.channels.incoming import Edited, Incoming, Labels, Pressed, Quote, Sender
from clew.core.channels.kinds import ChannelCheck, ChannelSetup
from clew.core.channels.replies import (
    Attached,
    Choice,
    Parcel,
    Piece,
    ReplyTo,
    cut_pieces,
    reply_to_peer,
)
from clew.core.channels.routing import Arrival, Peer
from clew.core.delivery import Outbound
from clew.errors import ChannelRefused, FormatRefused, ReplyDelayed, ReplyRefused
from clew.files.durable import find_bytes, make_directory, put_bytes
from clew.ports import Receive

LIMIT: Final = 2000
"""Characters of a message: Discord counts code points."""
BIGGEST_IN: Final = 25 * 1024 * 1024
"""Bytes of a file that is fetched."""

CATCH_UP: Final = timedelta(hours=24)
"""How old a message may be that was written while nobody listened."""
MOST_MISSED: Final = 200
"""Such messages of one place: the newest."""
MOST_DMS: Final = 50
"""Private chats that are looked through for them: those that were used last."""
MOST_RECENT: Final = 500
SLACK: Final = timedelta(minutes=1)
"""Messages of different places may come in another order than their ids have."""

API: Final = "https://discord.com/api/v10"

NO_CONTENT: Final = (
    "The message content intent is off: in servers the bot reads only messages that mention or "
    "answer it, so it can't know what else was said{}. To change that, open the application at "
    "discord.com/developers, go to Bot, turn on Message Content Intent, and restart the gateway."
)
NOWHERE: Final = (
    "The bot is on no server yet. Nobody can write to it, not even in private, before it shares a "
    "server with them: open the link to invite it."
)
HOOKED: Final = (
    "The application has an interactions endpoint URL, so presses of buttons never come here. "
    "Remove it at discord.com/developers, under General Information."
)
GRANT: Final = (
    "The application requires an OAuth2 code grant, so the link can't invite it. Turn off \""
    'Requires OAuth2 Code Grant" at discord.com/developers, under Bot.'
)
LACKING: Final = "On the server {} the bot lacks: {}. A role of the bot gives these rights."

REVOKED: Final = (
    "Discord does not accept the token: it is wrong, or was reset. The Developer Portal makes a "
    "new one, under Bot; `clew channels add discord` stores it."
)
NOT_ALLOWED: Final = (
    "Discord refuses the connection: the message content intent was turned off while clew ran. It "
    "is tried again without it."
)

RIGHTS: Final = {
    "view_channel": "View Channels",
    "send_messages": "Send Messages",
    "send_messages_in_threads": "Send Messages in Threads",
    "read_message_history": "Read Message History",
    "attach_files": "Attach Files",
}
"""The rights that the bot needs, as Discord shows them."""

# The library writes every reconnection, with its trace, to whoever listens; `run` says it in words.
logging.getLogger("discord").addHandler(logging.NullHandler())


def build(setup: ChannelSetup) -> DiscordChannel:
    """The channel of a configuration: see `core.channels.kinds`."""
    return DiscordChannel(
        setup.token or "",
        account=setup.account,
        base_url=str(setup.settings.get("api_url") or API),
        answers_all=setup.groups == "always",
        memory=setup.memory,
    )


class DiscordChannel:
    """`ports.Channel` to Discord.

    `memory` is the file that remembers what was reported; `again` are the seconds before a new
    session. While it is `listening`, what was missed has been reported.
    """

    def __init__(
        self,
        token: str,
        *,
        account: str = "default",
        base_url: str = API,
        answers_all: bool = False,
        memory: Path | None = None,
        again: float = 5.0,
    ) -> None:
        self.name = "discord"
        self.account = account
        self.taken = _Taken(memory)
        self.listening = asyncio.Event()
        self._token = token.strip()
        self._base_url = base_url.rstrip("/")
        self._answers_all = answers_all
        self._again = again
        self._sender: _Client | None = None
        self._opening = asyncio.Lock()
        self._chats: dict[int, int] = {}
        """The private chat with each person."""

    # --- in -------------------------------------------------------------------------------------

    async def run(self, receive: Receive) -> None:
        """See `ports.Channel`."""
        await self.taken.begin()
        async with self._listening():
            client = _Listener(self._base_url, self.taken, again=self._again)
            try:
                await client.open(self._token)
                await self._listen(client, receive)
            finally:
                self.listening.clear()
                await client.leave()
                with contextlib.suppress(OSError):  # what has ended the run is more important
                    await self.taken.save()

    async def _listen(self, client: _Listener, receive: Receive) -> None:
        """Report what comes, until the connection is lost or something can't be kept."""
        tasks = {
            asyncio.create_task(client.connect(reconnect=False)),
            asyncio.create_task(self._report_all(client, receive)),
            asyncio.create_task(self.taken.keep_saving()),
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                await task
        finally:
            await _stop(tasks)
        raise ConnectionError("Discord closed the connection")

    async def _report_all(self, client: _Listener, receive: Receive) -> None:
        """Report events one after the other; after each new session, what was missed first."""
        fetched: set[int] = set()
        while True:
            event = await client.events.get()
            if event is None:
                self.listening.clear()
                fetched = await self._catch_up(client, receive)
                self.listening.set()
            elif isinstance(event, discord.Message):
                if event.id not in fetched:
                    await self._report_message(client, event, receive)
                fetched.discard(event.id)  # a second delivery is the inbox's to recognise
            elif isinstance(event, discord.Interaction):
                await self._report_press(client, event, receive)
            else:
                await self._report_edit(client, event.message, receive)

    async def _report_message(
        self, client: _Listener, message: discord.Message, receive: Receive
    ) -> None:
        if _is_persons(message):
            incoming = await self._read_message(client, message)
            if incoming is not None:
                await receive(incoming)
        self.taken.note(message.id)

    async def _catch_up(self, client: _Listener, receive: Receive) -> set[int]:
        """Report what was written while nobody listened, oldest first; returns which it was."""
        oldest = discord.utils.time_snowflake(discord.utils.utcnow() - CATCH_UP)
        after = max(self.taken.position - _ticks(SLACK), self.taken.floor, oldest)
        missed: list[discord.Message] = []
        for place in [*_list_places(client, after), *self._list_chats(client)]:
            # A place that was closed to the bot in the meantime has nothing to tell.
            with contextlib.suppress(discord.Forbidden, discord.NotFound):
                missed += [
                    each
                    async for each in place.history(
                        limit=MOST_MISSED, after=discord.Object(after), oldest_first=False
                    )
                ]
        new = [each for each in missed if not self.taken.has(each.id)]
        for message in sorted(new, key=lambda each: each.id):
            await self._report_message(client, message, receive)
        return {each.id for each in new}

    def _list_chats(self, client: _Listener) -> Iterator[discord.PartialMessageable]:
        for chat in self.taken.chats:
            yield client.get_partial_messageable(chat, type=discord.ChannelType.private)

    async def _read_message(self, client: _Listener, message: discord.Message) -> Incoming | None:
        me = _me_at(client, message)
        files, lost = await self._fetch(message)
        text = "\n".join([each for each in [_text_of(message, me), *lost] if each])
        if not text.strip() and not files:
            return None  # without the message content intent, Discord leaves the text out
        place = self._place(message.channel, message.guild, message.author)
        return Incoming(
            arrival=place.arrival,
            sender=_sender_of(message.author),
            text=text,
            external_id=str(message.id),
            position=message.id,
            attachments=tuple(files),
            labels=_labels_of(message.channel, message.guild),
            reply_to=place.reply_to,
            is_mentioned=_is_to(message, me),
            mention=f"@{me.display_name}",
            quote=_quote_of(message, me),
        )

    async def _report_edit(
        self, client: _Listener, message: discord.Message, receive: Receive
    ) -> None:
        place = self._place(message.channel, message.guild, message.author)
        await receive(
            Edited(
                arrival=place.arrival,
                sender=_sender_of(message.author),
                external_id=str(message.id),
                text=_text_of(message, _me_at(client, message)),
                labels=_labels_of(message.channel, message.guild),
                reply_to=place.reply_to,
            )
        )

    async def _report_press(
        self, client: _Listener, press: discord.Interaction, receive: Receive
    ) -> None:
        place = self._place(press.channel, press.guild, press.user)
        receipt = await receive(
            Pressed(
                arrival=place.arrival,
                sender=_sender_of(press.user),
                value=_value_of(press),
                reply_to=place.reply_to,
                external_id=f"press:{press.id}",
            )
        )
        note = receipt.note or ""
        with contextlib.suppress(discord.HTTPException, aiohttp.ClientError):
            await client.say_privately(press, note)
            # Nobody has to press a button that was pressed. A stranger's press changes nothing.
            if note.startswith(("Allowed", "Not allowed", "It was", "That question is over")):
                await client.take_buttons(press)

    def _place(self, channel: Any, guild: discord.Guild | None, author: Any) -> _Place:
        if guild is None:
            self._chats[author.id] = channel.id
            kind, name, thread = "dm", str(author.id), None
        elif isinstance(channel, discord.Thread):
            kind, name, thread = "channel", str(channel.parent_id), str(channel.id)
        else:
            kind, name, thread = "channel", str(channel.id), None
        return _Place(
            Arrival(
                channel=self.name,
                account=self.account,
                peer=Peer(kind, name),  # type: ignore[arg-type]  # one of its kinds
                guild=None if guild is None else str(guild.id),
                thread=thread,
                is_owner=False,
            ),
            reply_to_peer(self.name, self.account, kind, name, thread=thread),
        )

    async def _fetch(self, message: discord.Message) -> tuple[list[Attached], list[str]]:
        """The files of a message, and a line for each that could not be fetched."""
        files: list[Attached] = []
        lost = [f"[sticker: {each.name}]" for each in message.stickers]
        for one in message.attachments:
            if one.size > BIGGEST_IN:
                lost.append(f"[{one.filename}: too big to fetch]")
                continue
            try:
                data = await one.read()
            except discord.HTTPException as error:
                lost.append(f"[{one.filename} could not be fetched: {self._clean(error)}]")
            else:
                kind = (one.content_type or "application/octet-stream").partition(";")[0]
                files.append(Attached(kind, data, one.filename))
        return files, lost

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        """What Discord's answers mean for the account."""
        try:
            yield
        except discord.LoginFailure as error:
            raise ChannelRefused(REVOKED) from error
        except discord.ConnectionClosed as error:
            if error.code == 4004:
                raise ChannelRefused(REVOKED) from error
            if error.code in (4013, 4014):
                raise ChannelRefused(NOT_ALLOWED) from error
            raise ConnectionError(f"Discord closed the connection ({error.code})") from error
        except discord.HTTPException as error:
            if error.status == 401:
                raise ChannelRefused(REVOKED) from error
            raise ConnectionError(self._clean(error)) from None
        except (discord.DiscordException, aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(self._clean(error)) from None

    # --- out ------------------------------------------------------------------------------------

    def render(self, text: str) -> str:
        """See `ports.Channel`."""
        return to_discord(text)

    def split(self, text: str) -> Iterator[Piece]:
        """See `ports.Channel`."""
        return cut_pieces(text, LIMIT, render=to_discord)

    def may_repeat(self, outbound: Outbound) -> bool:  # noqa: ARG002  # the same for every message
        """See `ports.Channel`. Discord recognises a second delivery for some minutes only."""
        return False

    async def send(self, parcel: Parcel) -> dict[str, Any]:
        """See `ports.Channel`."""
        return await self._say(parcel)

    async def ask(self, parcel: Parcel, choices: Sequence[Choice]) -> dict[str, Any]:
        """See `ports.AsksWithButtons`."""
        view = View(timeout=None)
        for each in choices:
            view.add_item(Button(label=each.label[:80], custom_id=each.value))
        view.stop()  # its presses are reported by `run`, also after a restart
        return await self._say(parcel, view=view)

    async def send_file(self, parcel: Parcel) -> dict[str, Any]:
        """See `ports.SendsFiles`."""
        file = parcel.file
        if file is None:
            raise ReplyRefused("There is no file to send.")
        name = file.name or f"file.{file.media_type.partition('/')[2] or 'bin'}"
        return await self._say(parcel, file=discord.File(io.BytesIO(file.data), filename=name))

    async def _say(self, parcel: Parcel, **more: Any) -> dict[str, Any]:
        async with self._errors(may_be_plain=not parcel.is_plain):
            client = await self._get_client()
            chat = await self._find_chat(client, parcel.address)
            sent = await client.get_partial_messageable(chat).send(
                parcel.text[:LIMIT] if "file" in more else parcel.text,
                nonce=_nonce_of(parcel),
                # A link's preview is fetched by Discord: nobody has to click to tell it secrets.
                suppress_embeds=True,
                **more,
            )
        return {"channel": str(chat), "message": str(sent.id)}

    async def edit(self, receipt: dict[str, Any], text: str, *, is_plain: bool = False) -> None:
        """See `ports.EditsMessages`."""
        async with self._errors(may_be_plain=not is_plain):
            client = await self._get_client()
            chat = client.get_partial_messageable(int(receipt["channel"]))
            await chat.get_partial_message(int(receipt["message"])).edit(content=text)

    async def typing(self, address: dict[str, Any], on: bool) -> None:
        """See `ports.ShowsTyping`. Discord stops it by itself, after ten seconds."""
        if not on:
            return
        async with self._errors():
            client = await self._get_client()
            chat = await self._find_chat(client, address)
            await client.get_partial_messageable(chat).typing()

    async def check(self) -> ChannelCheck:
        """See `ports.IsTestable`."""
        async with self._listening():
            client = _Client(self._base_url)
            try:
                await client.open(self._token)
                application = await client.application_info()
                servers = await client.list_servers()
            finally:
                await client.leave()
        invitation = discord.utils.oauth_url(
            application.id,
            permissions=discord.Permissions(**dict.fromkeys(RIGHTS, True)),
            scopes=("bot",),
        )
        return ChannelCheck(
            who=f"{application.name} (@{client.user})",
            problems=tuple(self._list_problems(application, servers)),
            contact=f"https://discord.com/users/{application.id}",
            hints=(f"To invite it to a server of yours, open {invitation}",),
        )

    def _list_problems(
        self, application: discord.AppInfo, servers: Sequence[dict[str, Any]]
    ) -> Iterator[str]:
        if not _has_content(application.flags):
            yield NO_CONTENT.format(', though groups = "always"' if self._answers_all else "")
        if application.interactions_endpoint_url is not None:
            yield HOOKED
        if application.bot_require_code_grant:
            yield GRANT
        if not servers:
            yield NOWHERE
        for server in servers:
            rights = discord.Permissions(int(server.get("permissions", 0)))
            lacking = [name for right, name in RIGHTS.items() if not getattr(rights, right)]
            if lacking and not rights.administrator:
                yield LACKING.format(server.get("name", server["id"]), ", ".join(lacking))

    async def close(self) -> None:
        """See `ports.HoldsConnections`."""
        client, self._sender = self._sender, None
        if client is not None:
            await client.leave()

    async def _get_client(self) -> _Client:
        """The client that sends. Its limits are not waited for, but said."""
        async with self._opening:
            if self._sender is None:
                client = _Client(self._base_url, http_trace=_watch_limits())
                try:
                    await client.open(self._token)
                except BaseException:
                    await client.leave()
                    raise
                self._sender = client
            return self._sender

    async def _find_chat(self, client: _Client, address: dict[str, Any]) -> int:
        """The id of the channel, the thread, or the private chat with a person."""
        peer = address.get("peer")
        name = str(peer.get("id", "")) if isinstance(peer, dict) else ""
        thread = str(address.get("thread") or "")
        where = thread or name
        if not where.isdecimal():
            raise ReplyRefused("The address has no channel: Discord's ids are numbers.")
        if thread or not isinstance(peer, dict) or peer.get("kind") != "dm":
            return int(where)
        person = int(where)
        if person not in self._chats:
            chat = await client.create_dm(discord.Object(person))
            self._chats[person] = chat.id
            self.taken.note_chat(chat.id)
        return self._chats[person]

    @asynccontextmanager
    async def _errors(self, *, may_be_plain: bool = False) -> AsyncIterator[None]:
        """What Discord's answers mean for a message."""
        try:
            yield
        except _Flooded as error:
            raise ReplyDelayed(
                "Discord asks to wait.", after=min(error.after, 3_600), stops=error.stops
            ) from error
        except discord.RateLimited as error:
            raise ReplyDelayed(
                "Discord asks to wait.", after=min(error.retry_after, 3_600), stops="chat"
            ) from error
        except discord.LoginFailure as error:
            raise ReplyDelayed(REVOKED, after=60, stops="account") from error
        except discord.DiscordServerError as error:
            raise ConnectionError(self._clean(error)) from None
        except discord.HTTPException as error:
            if error.status == 401:
                await self.close()
                raise ReplyDelayed(REVOKED, after=60, stops="account") from error
            if error.code == 50035 and may_be_plain:
                raise FormatRefused(f"Discord says: {self._clean(error)}") from error
            raise ReplyRefused(f"Discord says: {self._clean(error)}") from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise ReplyDelayed(f"Discord can't be reached: {self._clean(error)}") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionError(self._clean(error)) from None

    def _clean(self, error: Exception) -> str:
        """What an error says, without the token."""
        said = " ".join(str(error).split()) or type(error).__name__
        return said.replace(self._token, "…") if self._token else said


# --- the library ----------------------------------------------------------------------------------


class _Http(HTTPClient):
    """The library's requests, to an address of one's own."""

    base_url = API

    async def request(self, route: Route, **more: Any) -> Any:
        route.url = route.url.replace(Route.BASE, self.base_url, 1)
        return await super().request(route, **more)

    async def ws_connect(self, url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
        if self.base_url != API and url.startswith("wss://gateway.discord.gg"):
            found = await self.request(Route("GET", "/gateway/bot"))
            url = f"{found['url'].rstrip('/')}/?{url.partition('?')[2]}"
        return await super().ws_connect(url, compress=compress)


class _Client(discord.Client):
    """A client that calls the API and hears nothing."""

    def __init__(
        self, base_url: str, *, intents: discord.Intents | None = None, **more: Any
    ) -> None:
        super().__init__(
            intents=intents or discord.Intents(guilds=True),
            allowed_mentions=discord.AllowedMentions.none(),
            max_ratelimit_timeout=30.0,
            **more,
        )
        http = _Http(self.http.loop, http_trace=more.get("http_trace"), max_ratelimit_timeout=30.0)
        http.base_url = base_url
        self.http = self._connection.http = http

    async def open(self, token: str) -> None:
        """Sign in to the API; `discord.LoginFailure` if the token is not accepted."""
        await self.login(token)

    async def leave(self) -> None:
        """Close it; a platform that does not answer is not waited for."""
        # The library leaves it running, and it would fail on a client that is closed.
        beginning: asyncio.Task[None] | None = self._connection._ready_task
        if beginning is not None:
            beginning.cancel()
        try:
            async with asyncio.timeout(5):
                await self.close()
        except TimeoutError:
            await self.http.close()

    async def list_servers(self) -> list[dict[str, Any]]:
        """The servers that the bot is on, with its rights there."""
        found: list[dict[str, Any]] = await self.http.request(Route("GET", "/users/@me/guilds"))
        return found


class _Listener(_Client):
    """A client that puts what comes into a queue; None stands for a new session."""

    def __init__(self, base_url: str, taken: _Taken, *, again: float) -> None:
        self._wanted = discord.Intents(guilds=True, guild_messages=True, dm_messages=True)
        self._taken = taken
        self._again = again
        self._held: list[Any] | None = []
        self._to_come = 0
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        super().__init__(
            base_url,
            intents=self._wanted,
            member_cache_flags=discord.MemberCacheFlags.none(),
        )

    async def setup_hook(self) -> None:
        # Asking for an intent that the application does not have would end the connection.
        self._wanted.message_content = _has_content(self.application_flags)

    async def before_identify_hook(self, _shard: int | None, *, initial: bool = False) -> None:
        if not initial:
            await asyncio.sleep(self._again)

    async def on_connect(self) -> None:
        """A new session: the servers are told one by one."""
        self._held, self._to_come = [], len(self.guilds)
        if not self._to_come:
            self._begin()

    async def on_socket_event_type(self, kind: str) -> None:
        if kind == "GUILD_CREATE":
            self._to_come -= 1
            if self._to_come == 0:
                self._begin()

    async def on_ready(self) -> None:
        """No server was told for two seconds: those that are down come later."""
        self._begin()

    async def on_guild_available(self, _guild: discord.Guild) -> None:
        if self._to_come > 0 and self._held is None:
            self._to_come -= 1
            self.events.put_nowait(None)

    def _begin(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            for event in (None, *held):
                self.events.put_nowait(event)

    def _take(self, event: Any) -> None:
        """Keep the order: what comes before the servers are known waits for what was missed."""
        if self._held is None:
            self.events.put_nowait(event)
        else:
            self._held.append(event)

    async def on_message(self, message: discord.Message) -> None:
        # At once: if this message can't be reported, its chat has to be looked through.
        if message.guild is None and not message.author.bot:
            self._taken.note_chat(message.channel.id)
        self._take(message)

    async def on_raw_message_edit(self, change: discord.RawMessageUpdateEvent) -> None:
        # A preview of a link changes the message too.
        before = change.cached_message
        is_same = before is not None and before.content == change.message.content
        if change.message.edited_at is not None and not is_same and _is_persons(change.message):
            self._take(change)

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        if interaction.type is not discord.InteractionType.component:
            return
        # Within three seconds, or the person is told that it failed.
        with contextlib.suppress(discord.HTTPException, aiohttp.ClientError):
            where = f"/interactions/{interaction.id}/{interaction.token}/callback"
            await self.http.request(Route("POST", where), json={"type": 6})
        self._take(interaction)

    async def say_privately(self, press: discord.Interaction, text: str) -> None:
        """Tell something only to the person who pressed a button."""
        if text:
            answer = {"content": text[:LIMIT], "flags": 64, "allowed_mentions": {"parse": []}}
            await self.http.request(self._hook("POST", press), json=answer)

    async def take_buttons(self, press: discord.Interaction) -> None:
        """Take the buttons away from the message of a press."""
        route = self._hook("PATCH", press, "/messages/@original")
        await self.http.request(route, json={"components": []})

    @staticmethod
    def _hook(method: str, press: discord.Interaction, rest: str = "") -> Route:
        return Route(method, f"/webhooks/{press.application_id}/{press.token}{rest}")


class _Flooded(Exception):  # passes through the library
    """Discord answered 429."""

    def __init__(self, after: float, stops: Any) -> None:
        super().__init__("too many requests")
        self.after, self.stops = after, stops


def _watch_limits() -> aiohttp.TraceConfig:
    """Say a flood limit at once: the library would wait, and hold up one reply only."""
    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(_look_at_limit)
    return trace


async def _stop(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their end. The library can lose a cancel while it connects."""
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=0.5)


async def _look_at_limit(_session: Any, _context: Any, end: aiohttp.TraceRequestEndParams) -> None:
    answer = end.response
    if answer.status != 429:
        return
    told: Any = {}
    with contextlib.suppress(ValueError, aiohttp.ClientError):
        told = await answer.json(content_type=None)
    told = told if isinstance(told, dict) else {}
    headers = answer.headers
    try:
        after = float(told.get("retry_after") or headers.get("Retry-After") or 60)
    except ValueError:
        after = 60.0
    # Without a scope it is the firewall before Discord, which means this address.
    is_all = told.get("global") or headers.get("X-RateLimit-Scope", "global") == "global"
    answer.release()
    raise _Flooded(after, "account" if is_all or "/channels/" not in end.url.path else "chat")


# --- what was reported ----------------------------------------------------------------------------


class _Remembered(msgspec.Struct, omit_defaults=True):
    position: int = 0
    floor: int = 0
    recent: list[int] = []
    chats: list[int] = []


class _Taken:
    """Up to where messages were reported, kept in a file.

    A message that is reported again after a crash is recognised by the inbox: so the file may be a
    moment behind.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._state = _Remembered()
        self._is_read = False
        self._writing = threading.Lock()
        self._changed = asyncio.Event()

    @property
    def position(self) -> int:
        """The newest message that was reported and kept."""
        return self._state.position

    @property
    def floor(self) -> int:
        """The start of the first run: nothing before it is fetched."""
        return self._state.floor

    @property
    def chats(self) -> Sequence[int]:
        """The private chats that were used last."""
        return tuple(self._state.chats)

    def has(self, message: int) -> bool:
        """Whether a message was reported and kept, not long ago."""
        return message in self._state.recent

    def note(self, message: int) -> None:
        """A message was reported and kept."""
        state = self._state
        state.position = max(state.position, message)
        if message not in state.recent:
            state.recent = [*state.recent, message][-MOST_RECENT:]
        self._changed.set()

    def note_chat(self, chat: int) -> None:
        """A private chat is used."""
        state = self._state
        if state.chats[-1:] != [chat]:
            state.chats = [*(each for each in state.chats if each != chat), chat][-MOST_DMS:]
            self._changed.set()

    async def begin(self) -> None:
        """Read the file, once; without one, begin now."""
        if self._is_read:
            return
        found = None
        if self._file is not None:
            found = await asyncio.to_thread(find_bytes, self._file)
        with contextlib.suppress(msgspec.DecodeError):
            self._state = msgspec.json.decode(found or b"", type=_Remembered)
        if not self._state.position:
            self._state.floor = self._state.position = discord.utils.time_snowflake(
                discord.utils.utcnow(), high=False
            )
            self._changed.set()
        self._is_read = True

    async def keep_saving(self) -> None:
        """Write the file once a second, if there is news."""
        while True:
            await self._changed.wait()
            await self.save()
            await asyncio.sleep(1)

    async def save(self) -> None:
        """Write the file."""
        self._changed.clear()
        if self._file is not None:
            await asyncio.to_thread(self._write, self._file)

    def _write(self, file: Path) -> None:
        # Who waits for it may be cancelled, and save again before it is done.
        with self._writing:
            make_directory(file.parent)
            put_bytes(file, msgspec.json.encode(self._state))


# --- what Discord says ----------------------------------------------------------------------------


class _Place(NamedTuple):
    arrival: Arrival
    reply_to: ReplyTo


def _ticks(time: timedelta) -> int:
    """A time in the units of ids."""
    return int(time.total_seconds() * 1000) << 22


def _nonce_of(parcel: Parcel) -> str:
    """The same for each attempt to send the same message, so that Discord shows it once."""
    file = b"" if parcel.file is None else parcel.file.data
    told = f"{parcel.id}\0{parcel.text}\0".encode() + file
    return hashlib.sha256(told).hexdigest()[:24]


def _has_content(flags: discord.ApplicationFlags | None) -> bool:
    return flags is not None and (
        flags.gateway_message_content or flags.gateway_message_content_limited
    )


def _list_places(client: discord.Client, after: int) -> Iterator[Any]:
    """The channels and threads of servers in which something was written since."""
    for guild in client.guilds:
        threads = (each for each in guild.threads if each.parent is not None)
        places: list[Any] = [*guild.text_channels, *guild.voice_channels, *threads]
        for each in places:
            rights = each.permissions_for(guild.me)
            if (each.last_message_id or 0) > after and rights.read_message_history:
                yield each


def _is_persons(message: discord.Message) -> bool:
    """Whether a person wrote it: bots, webhooks and Discord itself are not answered."""
    said = (discord.MessageType.default, discord.MessageType.reply)
    return message.type in said and not message.author.bot and message.webhook_id is None


def _me_at(client: discord.Client, message: discord.Message) -> Any:
    """The bot, with the name that it has on that server."""
    return client.user if message.guild is None else message.guild.me


def _value_of(press: discord.Interaction) -> str:
    data: Any = press.data or {}
    return str(data.get("custom_id", ""))


def _sender_of(user: Any) -> Sender:
    return Sender(str(user.id), user.display_name)


def _labels_of(channel: Any, guild: discord.Guild | None) -> Labels:
    if guild is None:
        return Labels()
    is_thread = isinstance(channel, discord.Thread)
    room = channel.parent if is_thread else channel
    name = getattr(room, "name", None)
    return Labels(
        thread=channel.name if is_thread else None,
        group_channel=f"#{name}" if name else None,
        space=guild.name,
    )


_MENTION: Final = re.compile(r"<(@!?|@&|#)(\d+)>")


def _text_of(message: discord.Message, me: Any) -> str:
    """What a message says, with names for the ids that it mentions."""
    names: dict[tuple[str, int], str] = {
        ("@", each.id): each.display_name for each in message.mentions
    }
    names |= {("@&", each.id): each.name for each in message.role_mentions}
    names |= {("#", each.id): each.name for each in message.channel_mentions}
    names["@", me.id] = me.display_name
    names |= {
        ("@&", each.id): me.display_name for each in message.role_mentions if _is_mine(each, me)
    }

    def name(found: re.Match[str]) -> str:
        mark = found[1].rstrip("!")
        known = names.get((mark, int(found[2])))
        return found[0] if known is None else f"{mark[0]}{known}"

    text = _MENTION.sub(name, message.content)
    forwarded = [each.content for each in message.message_snapshots if each.content]
    return "\n".join([*([text] if text else []), *(f"[forwarded] {each}" for each in forwarded)])


def _is_mine(role: discord.Role, me: Any) -> bool:
    """Whether a role is the bot's own, which Discord offers beside its name."""
    return role.tags is not None and role.tags.bot_id == me.id


def _is_to(message: discord.Message, me: Any) -> bool:
    """Whether a message is to the bot: a private one, one with its name, or an answer to it."""
    if message.guild is None or any(each.id == me.id for each in message.mentions):
        return True
    answered = _answered(message)
    return (answered is not None and answered.author.id == me.id) or any(
        _is_mine(each, me) for each in message.role_mentions
    )


def _answered(message: discord.Message) -> discord.Message | None:
    reference = message.reference
    found = None if reference is None else reference.resolved
    return found if isinstance(found, discord.Message) else None


def _quote_of(message: discord.Message, me: Any) -> Quote | None:
    """The message that this one answers."""
    answered = _answered(message)
    if answered is None or not answered.content:
        return None
    return Quote(
        _text_of(answered, me), _sender_of(answered.author), is_own=answered.author.id == me.id
    )
