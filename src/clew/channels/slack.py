"""Slack: an app that holds a web socket open (socket mode), over `slack-sdk`.

An envelope is acknowledged when its event is kept. Replies are in Slack's mrkdwn (`slack_markup`).
Who may talk, and which session it is, is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from clew.channels.slack_app import SCOPES
from clew.channels.slack_markup import escape, list_references, to_mrkdwn, to_plain
from clew.core.channels.incoming import (
    Edited,
    Incoming,
    Labels,
    Learned,
    Pressed,
    Quote,
    Sender,
)
from clew.core.channels.kinds import ChannelCheck, ChannelSetup
from clew.core.channels.replies import (
    Attached,
    Choice,
    Parcel,
    Piece,
    ReplyTo,
    cut_pieces,
    reply_to_peer,
    utf16_size,
)
from clew.core.channels.routing import Arrival, Peer
from clew.core.commands import find_command
from clew.core.delivery import Outbound
from clew.errors import ChannelRefused, FormatRefused, ReplyDelayed, ReplyRefused
from clew.ports import Receive

LIMIT: Final = 3_000
"""UTF-16 units of a message as sent: what a block with buttons takes. An edit takes 4,000."""
BIGGEST_IN: Final = 20 * 1024 * 1024
"""Bytes of a file that is fetched."""
BIGGEST_OUT: Final = 1024 * 1024 * 1024

SETTLE: Final = 0.1
"""Seconds in which events that come together are put into the order in which they happened."""
PING: Final = 5.0
"""Seconds between two signs of life on the socket."""
LOST: Final = 0.25
"""Seconds after which a connection that broke is noticed."""
GOODBYE: Final = 2.0
"""Seconds that Slack has to answer when a connection is closed."""
LOOKUP: Final = 5.0
"""Seconds that a name may take; without it there is the id."""
KNOWN: Final = 2_000
"""Names, chats and threads that are remembered at a time."""
WORKING: Final = "eyes"
"""The reaction on a message whose turn runs: bots of socket mode can't show that they type."""

WRITTEN: Final = (None, "file_share", "thread_broadcast", "me_message")
"""The subtypes of messages that a person has written."""

_NO_TOKEN: Final = (
    "invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive",
    "not_allowed_token_type", "team_access_not_granted", "access_denied",
)  # fmt: skip
_UNREADABLE: Final = ("invalid_blocks", "invalid_blocks_format", "invalid_attachments")
_UNKNOWN_END: Final = (
    "fatal_error", "internal_error", "service_unavailable", "request_timeout", "team_added_to_org",
)  # fmt: skip
"""Errors after which something may have happened, as Slack says."""
_NOTHING_TO_DO: Final = ("already_reacted", "no_reaction")
_HINTS: Final = {
    "not_in_channel": "invite the bot there with /invite",
    "channel_not_found": "it is not there, or the bot is not in it",
    "is_archived": "that channel is archived",
    "messages_tab_disabled": "the app's Messages tab is off: App Home, Show Tabs",
    "msg_too_long": "the text is too long",
}

_REFUSED: Final = (
    "Slack does not accept the {} ({}): it is wrong, or was revoked. The app's page at "
    "api.slack.com/apps shows the right one; `clew channels remove slack` and `clew channels add "
    "slack` store it."
)
_BOT, _APP = "bot token", "app-level token"
_SWITCHED_OFF: Final = (
    "Socket mode was switched off for this app. Turn it on at api.slack.com/apps, Socket Mode."
)
_REMOVED: Final = (
    "The app was removed from the workspace, or its token was revoked. Install it again at "
    "api.slack.com/apps, then `clew channels remove slack` and `clew channels add slack`."
)

# The library writes addresses with tickets into its log, and tracebacks of lost connections.
_SILENT: Final = logging.getLogger(f"{__name__}.library")
_SILENT.setLevel(logging.CRITICAL + 1)


def build(setup: ChannelSetup) -> SlackChannel:
    """The channel of a configuration: see `core.channels.kinds`. `ValueError` for wrong tokens."""
    token, app_token = setup.token or "", str(setup.settings.get("app_token") or "")
    for value, begin, key in ((token, "xoxb-", "token"), (app_token, "xapp-", "app_token")):
        if not value.startswith(begin):
            raise ValueError(
                f"its {key} must begin with {begin}. `token` is the Bot User OAuth Token (xoxb-…), "
                "`app_token` the app-level one (xapp-…)"
            )
    return SlackChannel(
        token,
        app_token,
        account=setup.account,
        base_url=str(setup.settings.get("api_url") or AsyncWebClient.BASE_URL),
    )


class _Me(NamedTuple):
    """The bot itself, in its workspace."""

    id: str
    name: str
    team: str
    team_name: str


class SlackChannel:
    """`ports.Channel` to Slack."""

    def __init__(
        self,
        token: str,
        app_token: str,
        *,
        account: str = "default",
        base_url: str = AsyncWebClient.BASE_URL,
        ping: float = PING,
        settle: float = SETTLE,
    ) -> None:
        self.name = "slack"
        self.account = account
        self._tokens = (token, app_token)
        self._base_url = base_url
        self._ping = ping
        self._settle = settle
        self._session: aiohttp.ClientSession | None = None
        self._names: dict[str, str | None] = {}
        self._kinds: dict[str, str] = {}
        self._chats: dict[str, str] = {}
        self._threads: dict[tuple[str, str], bool] = {}
        self._asked: dict[tuple[str, str | None], str] = {}
        self._marked: dict[tuple[str, str | None], str] = {}

    # --- the socket -----------------------------------------------------------------------------

    async def run(self, receive: Receive) -> None:
        """See `ports.Channel`."""
        async with self._listening():
            me = await self._get_me()
            events: _Events = asyncio.Queue()
            socket = await self._open_socket(events)
            reading = asyncio.create_task(self._read(events, me, receive, lambda: socket))
            ending: list[asyncio.Task[None]] = []
            try:
                while not await socket.wait(reading):
                    if socket.reason == "link_disabled":
                        raise ChannelRefused(_SWITCHED_OFF)
                    old, socket = socket, await self._open_socket(events)
                    ending = [each for each in ending if not each.done()]
                    ending.append(asyncio.create_task(old.end()))
                await reading
            finally:
                reading.cancel()
                await asyncio.wait({reading})
                await asyncio.gather(socket.end(), *ending)

    async def _open_socket(self, events: _Events) -> _Socket:
        web = self._make_web(self._tokens[1])
        socket = _Socket(self._tokens[1], web, events, self._ping)
        try:
            with _naming(_APP):
                socket.wss_uri = await socket.issue_new_wss_url()
            async with asyncio.timeout(3 * self._ping):
                await socket.connect()  # type: ignore[no-untyped-call]  # tries until it can
        except BaseException:
            await socket.end()
            raise
        return socket

    async def _read(self, events: _Events, me: _Me, receive: Receive, current: Any) -> None:
        """Report events in the order in which they happened, and acknowledge each when kept."""
        while True:
            batch = [await events.get()]
            await asyncio.sleep(self._settle)
            while not events.empty():
                batch.append(events.get_nowait())
            for socket, envelope in sorted(batch, key=lambda each: _time_of(each[1])):
                await self._report(me, envelope, receive)
                # The socket it came by may be closed; Slack sends it again if this one won't do.
                with contextlib.suppress(Exception):
                    used = current() if socket.is_over else socket
                    answer = SocketModeResponse(envelope_id=envelope["envelope_id"])
                    await used.send_socket_mode_response(answer)

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        """What Slack's answers mean while nothing is sent."""
        try:
            yield
        except SlackApiError as error:
            said = _code_of(error)
            if said in _NO_TOKEN:
                raise ChannelRefused(_REFUSED.format(_BOT, said)) from None
            if said == "missing_scope":
                raise ChannelRefused(f"Slack says: {_describe(error)}.") from None
            raise ConnectionError(f"Slack says: {_describe(error)}") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionError(self._clean(error)) from None

    # --- in -------------------------------------------------------------------------------------

    async def _report(self, me: _Me, envelope: dict[str, Any], receive: Receive) -> None:
        """Report one event; what clew has no use for is left out."""
        payload = envelope.get("payload") or {}
        match envelope.get("type"):
            case "events_api":
                await self._report_event(me, payload, receive)
            case "interactive" if payload.get("type") == "block_actions":
                await self._report_press(me, payload, receive)
            case "slash_commands":
                await receive(await self._read_command(me, payload))
            case _:
                pass

    async def _report_event(self, me: _Me, payload: dict[str, Any], receive: Receive) -> None:
        event = payload.get("event") or {}
        match event.get("type"):
            case "message" | "app_mention" if _is_persons(event, me):
                incoming = await self._read_message(me, event)
                if incoming is not None:
                    await receive(incoming)
            case "message" if event.get("subtype") == "message_changed":
                await self._report_edit(me, event, receive)
            case "member_joined_channel" if event.get("user") == me.id:
                place = await self._find_place(me, event)
                sender = await self._find_sender(event.get("inviter"))
                labels = await self._find_labels(me, place)
                await receive(
                    Learned(
                        arrival=place.arrival, sender=sender, reply_to=place.reply_to, labels=labels
                    )
                )
            case "app_uninstalled":
                raise ChannelRefused(_REMOVED)
            case "tokens_revoked" if me.id in (event.get("tokens") or {}).get("bot", ()):
                raise ChannelRefused(_REMOVED)
            case _:
                pass

    async def _read_message(self, me: _Me, event: dict[str, Any]) -> Incoming | None:
        place = await self._find_place(me, event)
        files, lost = await self._fetch(event)
        text = "\n".join([each for each in (await self._read_text(event, me), *lost) if each])
        if not text.strip() and not files:
            return None
        is_mentioned = _is_to(event, me, place)
        if is_mentioned:
            _keep(self._asked, (place.chat, place.arrival.thread), str(event["ts"]))
        return Incoming(
            arrival=place.arrival,
            sender=await self._find_sender(event.get("user")),
            text=text,
            external_id=f"{event['channel']}:{event['ts']}",
            position=_number_of(str(event["ts"])),
            attachments=tuple(files),
            labels=await self._find_labels(me, place),
            reply_to=place.reply_to,
            is_mentioned=is_mentioned,
            mention=f"@{me.name}",
            quote=await self._find_quote(me, event, place) if is_mentioned else _shared(event),
        )

    async def _report_edit(self, me: _Me, event: dict[str, Any], receive: Receive) -> None:
        """Report what a person has changed; a preview of a link is a change to Slack only."""
        now, before = event.get("message") or {}, event.get("previous_message") or {}
        if not _is_persons(now, me) or now.get("text") == before.get("text"):
            return
        named = now | {"channel": event.get("channel"), "channel_type": event.get("channel_type")}
        place = await self._find_place(me, named)
        await receive(
            Edited(
                arrival=place.arrival,
                sender=await self._find_sender(now.get("user")),
                external_id=f"{event['channel']}:{now['ts']}",
                text=await self._read_text(now, me),
                labels=await self._find_labels(me, place),
                reply_to=place.reply_to,
            )
        )

    async def _report_press(self, me: _Me, payload: dict[str, Any], receive: Receive) -> None:
        message, container = payload.get("message") or {}, payload.get("container") or {}
        action: dict[str, Any] = next(iter(payload.get("actions") or ()), {})
        chat = (payload.get("channel") or {}).get("id") or container.get("channel_id")
        person = (payload.get("user") or {}).get("id")
        shown = message.get("ts") or container.get("message_ts")
        if not (chat and person and shown and action.get("value")):
            return
        thread = message.get("thread_ts") or container.get("thread_ts")
        place = await self._find_place(
            me, {"channel": chat, "user": person, "thread_ts": thread, "ts": shown}
        )
        receipt = await receive(
            Pressed(
                arrival=place.arrival,
                sender=await self._find_sender(person),
                value=str(action["value"]),
                reply_to=place.reply_to,
                external_id=f"press:{chat}:{shown}:{person}:{action.get('action_ts', '')}",
            )
        )
        note = receipt.note or ""
        with contextlib.suppress(Exception):  # the press counts already
            # Nobody has to press a button that was pressed. A stranger's press changes nothing.
            if note.startswith(("Allowed", "Not allowed", "It was", "That question is over")):
                text = "\n".join([str(message.get("text", "")), f"_{escape(note)}_"])
                await self._web.chat_update(channel=chat, ts=shown, text=text, blocks=[])
            elif note:
                await self._web.chat_postEphemeral(
                    channel=chat, user=person, text=escape(note), thread_ts=place.arrival.thread
                )

    async def _read_command(self, me: _Me, payload: dict[str, Any]) -> Incoming:
        """The app's command: `/clew new` is `/new`, as Slack keeps other slashes for itself."""
        said = to_plain(str(payload.get("text") or ""), lambda _: None).strip() or "help"
        word = said.lstrip("/").split(maxsplit=1)[0:1]
        if word and find_command(word[0].lower()) is not None:
            said = f"/{said.lstrip('/')}"
        place = await self._find_place(
            me, {"channel": payload.get("channel_id"), "user": payload.get("user_id")}
        )
        self._asked.pop((place.chat, None), None)
        return Incoming(
            arrival=place.arrival,
            sender=await self._find_sender(payload.get("user_id")),
            text=said,
            external_id=f"command:{payload.get('trigger_id')}",
            labels=await self._find_labels(me, place),
            reply_to=place.reply_to,
            is_mentioned=True,
            mention=f"@{me.name}",
        )

    async def _find_place(self, me: _Me, event: Mapping[str, Any]) -> _Place:
        chat, person = str(event.get("channel") or ""), str(event.get("user") or "")
        kind = await self._find_kind(chat, event.get("channel_type"))
        peer = chat
        if kind == "dm":
            peer = person or chat
            _keep(self._chats, peer, chat)
        thread = event.get("thread_ts")
        if thread == event.get("ts"):
            thread = None  # it began a thread, and is itself where it was written
        return _Place(
            Arrival(
                channel=self.name,
                account=self.account,
                peer=Peer(kind, peer),  # type: ignore[arg-type]  # one of its kinds
                team=me.team,
                thread=thread,
                is_owner=False,
            ),
            reply_to_peer(self.name, self.account, kind, peer, thread=thread),
            chat,
        )

    async def _find_kind(self, chat: str, said: str | None) -> str:
        """A person's chat, a group of people, or a channel, public or private."""
        if chat.startswith("D"):
            return "dm"
        if chat not in self._kinds and said is not None:
            _keep(self._kinds, chat, "group" if said == "mpim" else "channel")
        if chat not in self._kinds:
            await self._find_name(f"#{chat}")
        return self._kinds.get(chat, "channel")

    async def _find_labels(self, me: _Me, place: _Place) -> Labels:
        peer = place.arrival.peer
        if peer is None or peer.kind == "dm":
            return Labels()
        name = await self._find_name(f"#{place.chat}")
        return Labels(conversation=f"#{name}" if name else None, space=me.team_name or None)

    async def _find_sender(self, person: str | None) -> Sender:
        return Sender(person, await self._find_name(f"@{person}")) if person else Sender("")

    async def _find_name(self, reference: str) -> str | None:
        """The name of `@U1` or `#C1`; None if Slack does not say it."""
        if reference in self._names:
            return self._names[reference]
        name = None
        try:
            async with asyncio.timeout(LOOKUP):
                if reference.startswith("@"):
                    told = (await self._web.users_info(user=reference[1:]))["user"]
                    profile = told.get("profile") or {}
                    name = profile.get("display_name") or told.get("real_name") or told.get("name")
                else:
                    told = (await self._web.conversations_info(channel=reference[1:]))["channel"]
                    _keep(self._kinds, reference[1:], "group" if told.get("is_mpim") else "channel")
                    name = told.get("name")
        except SlackApiError as error:
            if _code_of(error) == "ratelimited":
                return None  # the next message asks again
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
        _keep(self._names, reference, name)
        return name

    async def _read_text(self, event: Mapping[str, Any], me: _Me) -> str:
        said = str(event.get("text") or "")
        names = {f"@{me.id}": me.name}
        for reference in list_references(said):
            names[reference] = names.get(reference) or await self._find_name(reference) or ""
        return to_plain(said, names.get)

    async def _find_quote(self, me: _Me, event: dict[str, Any], place: _Place) -> Quote | None:
        """A message that was shared, or once for each thread the one that began it."""
        shared = _shared(event)
        thread = place.arrival.thread
        if shared is not None or thread is None or (place.chat, thread) in self._threads:
            return shared
        with contextlib.suppress(SlackApiError, aiohttp.ClientError, TimeoutError, OSError):
            async with asyncio.timeout(LOOKUP):
                found = await self._web.conversations_replies(
                    channel=place.chat, ts=thread, limit=1
                )
            _keep(self._threads, (place.chat, thread), True)
            first: dict[str, Any] = next(iter(found["messages"] or ()), {})
            text = await self._read_text(first, me)
            if first.get("ts") == thread and text:
                author = await self._find_sender(first.get("user"))
                return Quote(text, author, is_own=author.id == me.id)
        return None

    async def _fetch(self, event: Mapping[str, Any]) -> tuple[list[Attached], list[str]]:
        """The files of a message, and a line for each that could not be fetched."""
        files: list[Attached] = []
        lost: list[str] = []
        for one in event.get("files") or ():
            found = one
            if one.get("file_access") == "check_file_info":  # of another workspace
                with contextlib.suppress(SlackApiError):
                    found = (await self._web.files_info(file=one["id"]))["file"]
            name = str(found.get("name") or found.get("title") or found.get("id") or "file")
            address = str(found.get("url_private_download") or found.get("url_private") or "")
            if found.get("is_external") or not self._is_slacks(address):
                lost.append(f"[{name}: is not kept at Slack{f': {address}' if address else ''}]")
            elif int(found.get("size") or 0) > BIGGEST_IN:
                lost.append(f"[{name}: bigger than 20 MB, so it was not fetched]")
            else:
                kind = str(found.get("mimetype") or "application/octet-stream")
                data = None
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):  # Slack gives up soon
                    data = await self._download(address, kind)
                if data is None:
                    lost.append(f"[{name} could not be fetched: does the app have files:read?]")
                else:
                    files.append(Attached(kind, data, name))
        return files, lost

    def _is_slacks(self, address: str) -> bool:
        """Whether the token may be shown to that server: a file can be anywhere."""
        given, api = urlsplit(address), urlsplit(self._base_url)
        if given.netloc == api.netloc and given.scheme == api.scheme:
            return True
        host = given.hostname or ""
        return given.scheme == "https" and (host == "slack.com" or host.endswith(".slack.com"))

    async def _download(self, address: str, kind: str) -> bytes | None:
        """The file; None if Slack shows its sign-in page instead, or too much."""
        headers = {"Authorization": f"Bearer {self._tokens[0]}"}
        session = self._open_session()
        async with session.get(address, headers=headers, allow_redirects=False) as answer:
            is_page = answer.content_type == "text/html" and kind != "text/html"
            if answer.status != 200 or is_page:
                return None
            data = bytearray()
            async for chunk in answer.content.iter_chunked(1 << 16):
                data += chunk
                if len(data) > BIGGEST_IN:
                    return None
            return bytes(data)

    # --- out ------------------------------------------------------------------------------------

    def render(self, text: str) -> str:
        """See `ports.Channel`."""
        return to_mrkdwn(text)

    def split(self, text: str) -> Iterator[Piece]:
        """See `ports.Channel`."""
        return cut_pieces(text, LIMIT, size=utf16_size, render=to_mrkdwn)

    def may_repeat(self, outbound: Outbound) -> bool:  # noqa: ARG002  # the same for every message
        """See `ports.Channel`. Slack does not recognise a second delivery."""
        return False

    async def send(self, parcel: Parcel) -> dict[str, Any]:
        """See `ports.Channel`."""
        return await self._say(parcel, None)

    async def ask(self, parcel: Parcel, choices: Sequence[Choice]) -> dict[str, Any]:
        """See `ports.AsksWithButtons`. A question without markup is answered in words."""
        if parcel.is_plain:
            return await self._say(parcel, None)
        section = {"type": "mrkdwn", "text": parcel.text, "verbatim": True}
        buttons = [
            {
                "type": "button",
                "action_id": f"choice{number}",
                "text": {"type": "plain_text", "text": each.label[:75]},
                "value": each.value,
            }
            for number, each in enumerate(choices)
        ]
        return await self._say(
            parcel, [{"type": "section", "text": section}, {"type": "actions", "elements": buttons}]
        )

    async def _say(self, parcel: Parcel, blocks: Any) -> dict[str, Any]:
        async with self._errors():
            chat = await self._open_chat(parcel.address)
            sent = await self._web.chat_postMessage(
                channel=chat,
                text=escape(parcel.text) if parcel.is_plain else parcel.text,
                blocks=blocks,
                mrkdwn=not parcel.is_plain,
                parse="none",
                link_names=False,
                thread_ts=parcel.address.get("thread"),
                unfurl_links=False,
                unfurl_media=False,
            )
            return {"chat": sent["channel"], "message": sent["ts"]}

    async def send_file(self, parcel: Parcel) -> dict[str, Any]:
        """See `ports.SendsFiles`. Only the last of its three steps shows the file."""
        file = parcel.file
        if file is None:
            raise ReplyRefused("There is no file to send.")
        if not 0 < len(file.data) <= BIGGEST_OUT:
            raise ReplyRefused("Slack takes files of at most 1 GB, and no empty ones.")
        name = file.name or f"file.{file.media_type.partition('/')[2] or 'bin'}"
        async with self._errors(is_shown=False):
            chat = await self._open_chat(parcel.address)
            place = await self._web.files_getUploadURLExternal(filename=name, length=len(file.data))
            async with self._open_session().post(place["upload_url"], data=file.data) as answer:
                if answer.status != 200:
                    raise ReplyDelayed(f"Slack did not take the file ({answer.status}).")
        async with self._errors():
            await self._web.files_completeUploadExternal(
                files=[{"id": place["file_id"], "title": name}],
                channel_id=chat,
                thread_ts=parcel.address.get("thread"),
                initial_comment=parcel.text or None,
            )
        return {"chat": chat, "file": place["file_id"]}

    async def edit(self, receipt: dict[str, Any], text: str, *, is_plain: bool = False) -> None:
        """See `ports.EditsMessages`."""
        async with self._errors():
            await self._web.chat_update(
                channel=receipt["chat"],
                ts=receipt["message"],
                text=escape(text) if is_plain else text,
                parse="none",
                link_names=False,
            )

    async def typing(self, address: dict[str, Any], on: bool) -> None:
        """See `ports.ShowsTyping`. Slack has no such sign for this, so the message gets a reaction.

        It is on the last message to the bot there, and taken away when its turn is over.
        """
        async with self._errors():
            chat = await self._open_chat(address)
            place = (chat, address.get("thread"))
            said = self._asked.pop(place, None) if on else None
            before = self._marked.pop(place, None) if said is not None or not on else None
            if before is not None:
                await self._web.reactions_remove(channel=chat, timestamp=before, name=WORKING)
            if said is not None:
                self._marked[place] = said
                await self._web.reactions_add(channel=chat, timestamp=said, name=WORKING)

    async def check(self) -> ChannelCheck:
        """See `ports.IsTestable`."""
        async with self._listening():
            told = await self._web.auth_test()
            with _naming(_APP):
                await self._make_web(self._tokens[1]).apps_connections_open(
                    app_token=self._tokens[1]
                )
            problems = _list_missing(told.headers.get("x-oauth-scopes"))
            with contextlib.suppress(SlackApiError):  # without users:read it can't be known
                bot = (await self._web.bots_info(bot=told["bot_id"]))["bot"]
                app = bot.get("app_id")
                if app and f"-{app}-" not in self._tokens[1]:
                    problems.append(
                        "The two tokens are of different apps: messages to this bot don't come "
                        f"by that app_token. Take the app-level token of the app {app}."
                    )
        return ChannelCheck(
            who=f"@{told['user']} in the workspace {told['team']}", problems=tuple(problems)
        )

    async def close(self) -> None:
        """See `ports.HoldsConnections`."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # --- the Web API ----------------------------------------------------------------------------

    async def _get_me(self) -> _Me:
        told = await self._web.auth_test()
        return _Me(
            str(told["user_id"]),
            str(told["user"]),
            str(told["team_id"]),
            str(told.get("team") or ""),
        )

    async def _open_chat(self, address: Mapping[str, Any]) -> str:
        """The chat of an address: a person has one that Slack knows."""
        peer = address.get("peer")
        # Keys are in small letters, and Slack's ids are not.
        name = str(peer.get("id", "") if isinstance(peer, Mapping) else "").upper()
        if not name:
            raise ReplyRefused("The address has no chat.")
        if not name.startswith(("U", "W")):
            return name
        if name not in self._chats:
            found = await self._web.conversations_open(users=name)
            _keep(self._chats, name, str(found["channel"]["id"]))
        return self._chats[name]

    @property
    def _web(self) -> AsyncWebClient:
        return self._make_web(self._tokens[0])

    def _make_web(self, token: str) -> AsyncWebClient:
        return AsyncWebClient(
            token=token,
            base_url=self._base_url,
            session=self._open_session(),
            logger=_SILENT,
            retry_handlers=[],  # by default a message is sent again after a connection that broke
        )

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=45))
        return self._session

    @asynccontextmanager
    async def _errors(self, *, is_shown: bool = True) -> AsyncIterator[None]:
        """What Slack's answers mean for a message. Not `is_shown`: nothing can have arrived yet."""
        try:
            yield
        except SlackApiError as error:
            raised = _meaning_of(error, is_shown=is_shown)
            if raised is not None:
                raise raised from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise ReplyDelayed(f"Slack can't be reached: {self._clean(error)}") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if not is_shown:
                raise ReplyDelayed(f"Slack did not take it: {self._clean(error)}") from None
            raise ConnectionError(self._clean(error)) from None

    def _clean(self, error: BaseException) -> str:
        """What an error says, without the tokens."""
        said = " ".join(str(error).split()) or type(error).__name__
        for token in self._tokens:
            said = said.replace(token, "…") if token else said
        return said


class _Socket(SocketModeClient):
    """One connection. It does not reconnect by itself: then nobody would learn why it can't."""

    def __init__(self, token: str, web: AsyncWebClient, events: _Events, ping: float) -> None:
        super().__init__(
            token, _SILENT, web_client=web, auto_reconnect_enabled=False,
            ping_interval=ping,
        )  # fmt: skip
        self.reason: str | None = None
        self._events = events
        self._leaving = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Whether nothing can be sent by it any more."""
        return self.current_session is None or self.current_session.closed

    async def run_message_listeners(self, message: dict[str, Any], raw_message: str) -> None:  # noqa: ARG002  # of the library
        """Take one message; the library would work on several at a time."""
        if message.get("type") == "disconnect":
            self.reason = str(message.get("reason"))
            self._leaving.set()
        elif message.get("envelope_id"):
            self._events.put_nowait((self, message))

    async def wait(self, reading: asyncio.Task[None]) -> bool:
        """Wait until Slack asks for another connection, or this one is lost, or reading failed.

        Returns whether it failed.
        """
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            while not (reading.done() or leaving.done() or self.is_over):
                await asyncio.wait(
                    {reading, leaving}, timeout=LOST, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            leaving.cancel()
        return reading.done()

    async def end(self) -> None:
        """Close it, and wait for the tasks of the library."""
        tasks = [self.message_processor, self.current_session_monitor, self.message_receiver]
        with contextlib.suppress(Exception):
            async with asyncio.timeout(GOODBYE):
                await self.close()  # type: ignore[no-untyped-call]
        for each in tasks:
            if each is not None:
                each.cancel()
        await self.aiohttp_client_session.close()
        await asyncio.gather(*(each for each in tasks if each is not None), return_exceptions=True)


_Events = asyncio.Queue[tuple[_Socket, dict[str, Any]]]


class _Place(NamedTuple):
    arrival: Arrival
    reply_to: ReplyTo
    chat: str


@contextlib.contextmanager
def _naming(token: str) -> Iterator[None]:
    """Say which of the two tokens is not accepted."""
    try:
        yield
    except SlackApiError as error:
        said = _code_of(error)
        if said in (*_NO_TOKEN, "missing_scope"):
            raise ChannelRefused(_REFUSED.format(token, said)) from None
        raise


def _code_of(error: SlackApiError) -> str:
    """Slack's word for an error; empty if the answer was not Slack's."""
    answer = error.response
    # An answer that is not JSON is one of the library below, which names it in another way.
    if getattr(answer, "status_code", getattr(answer, "status", None)) == 429:
        return "ratelimited"
    data = getattr(answer, "data", None)
    return str(data.get("error") or "") if isinstance(data, Mapping) else ""


def _describe(error: SlackApiError) -> str:
    said = _code_of(error) or "nothing that can be read"
    if said == "missing_scope":
        return f"the app lacks the permission {error.response.get('needed')}"
    hint = _HINTS.get(said)
    return f"{said} ({hint})" if hint else said


def _meaning_of(error: SlackApiError, *, is_shown: bool) -> Exception | None:
    """What an answer means for a message; None if there is nothing to do."""
    said, what = _code_of(error), f"Slack says: {_describe(error)}"
    if said == "ratelimited":
        # Slack does not say whether the chat or the workspace was too fast.
        return ReplyDelayed("Slack asks to wait.", after=_seconds_of(error), stops="account")
    if said in _NO_TOKEN:
        return ReplyDelayed(_REFUSED.format(_BOT, said), after=60, stops="account")
    if said in _NOTHING_TO_DO:
        return None
    if said in _UNREADABLE:
        return FormatRefused(what)
    if not said or said in _UNKNOWN_END:
        return ConnectionError(what) if is_shown else ReplyDelayed(what)
    return ReplyRefused(what)


def _seconds_of(error: SlackApiError) -> float:
    wait = str(error.response.headers.get("Retry-After", ""))
    return min(float(wait), 3_600.0) if wait.isdecimal() else 30.0


def _list_missing(header: str | None) -> list[str]:
    """The permissions that the bot's token lacks, in words; none if Slack does not say."""
    if header is None:
        return []
    has = {each.strip() for each in header.split(",")}
    missing = [f"{name} ({what})" for name, what in SCOPES.items() if name not in has]
    if not missing:
        return []
    words = f"The app lacks {', '.join(missing)}. Add them at api.slack.com/apps, OAuth & "
    return [f"{words}Permissions, then install the app again."]


def _keep(known: dict[Any, Any], key: Any, value: Any) -> None:
    """Remember something, and forget the oldest if it is too much."""
    known.pop(key, None)
    known[key] = value
    if len(known) > KNOWN:
        del known[next(iter(known))]


def _number_of(ts: str) -> int:
    """A message's time in microseconds."""
    seconds, _, rest = ts.partition(".")
    return int(f"{seconds}{rest[:6]:0<6}") if f"{seconds}{rest}".isdecimal() else 0


def _time_of(envelope: Mapping[str, Any]) -> int:
    """When an event happened; one that does not say it comes last."""
    payload = envelope.get("payload") or {}
    event = payload.get("event") or {}
    action: Mapping[str, Any] = next(iter(payload.get("actions") or ()), {})
    told = event.get("event_ts") or event.get("ts") or action.get("action_ts")
    return _number_of(str(told)) if told else 1 << 62


def _is_persons(event: Mapping[str, Any], me: _Me) -> bool:
    """Whether a person wrote it: apps, Slack itself and the bot are not answered."""
    return (
        bool(event.get("user"))
        and event.get("user") not in (me.id, "USLACKBOT")
        and not event.get("bot_id")
        and event.get("subtype") in WRITTEN
    )


def _is_to(event: Mapping[str, Any], me: _Me, place: _Place) -> bool:
    """Whether a message is to the bot: a private one, one with its name, or in its thread."""
    peer = place.arrival.peer
    return (
        (peer is not None and peer.kind == "dm")
        or f"<@{me.id}>" in str(event.get("text"))
        or f"<@{me.id}|" in str(event.get("text"))
        or event.get("parent_user_id") == me.id
    )


def _shared(event: Mapping[str, Any]) -> Quote | None:
    """The message of somebody that was shared along with this one."""
    for each in event.get("attachments") or ():
        if (each.get("is_share") or each.get("is_msg_unfurl")) and each.get("text"):
            author = Sender(str(each.get("author_id") or ""), each.get("author_name"))
            return Quote(to_plain(str(each["text"]), lambda _: None), author)
    return None
