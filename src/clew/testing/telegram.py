"""A local server that speaks Telegram's Bot API, and the people who write to its bot.

The real library of a channel talks to it: see `TelegramServer.base_url`. It checks what Telegram
checks: the token, the length of a text in UTF-16 units after its markup is read, the markup itself,
that an edit changes something. A test decides what else happens: a flood limit, a connection that
breaks, a token that is revoked, an update that comes twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.parser
import email.policy
import html
import json
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, unquote

import msgspec

from clew.core.channels.replies import Attached, utf16_size

Reaction = Literal["take", "refuse", "flood", "vanish", "misread", "swallow"]
"""What happens to the next message that is sent; `swallow`: it is shown, then the line is cut."""

HOST: Final = "127.0.0.1"
TOKEN: Final = "12345:local-test-token"  # noqa: S105  # of this server only
BOT: Final = {
    "id": 12345,
    "is_bot": True,
    "first_name": "Clew",
    "username": "clew_test_bot",
    "can_join_groups": True,
    "can_read_all_group_messages": False,
    "supports_inline_queries": False,
}
LIMIT: Final = 4096
_TAGS: Final = ("b", "i", "u", "s", "code", "pre", "a", "blockquote", "tg-spoiler")
_TAG: Final = re.compile(r"<(/?)([a-z-]+)((?:\s[^<>]*)?)>")
_ENTITY: Final = re.compile(r"&(?!(?:lt|gt|amp|quot|#\d+|#x[0-9a-fA-F]+);)")


class Person(msgspec.Struct, frozen=True):
    """Somebody on Telegram."""

    id: int
    name: str
    username: str | None = None

    @property
    def wire(self) -> dict[str, Any]:
        """The person as the API describes them."""
        told = {"id": self.id, "is_bot": False, "first_name": self.name}
        return told if self.username is None else told | {"username": self.username}


class Chat(msgspec.Struct, frozen=True):
    """A private chat, a group or a forum."""

    id: int
    type: Literal["private", "group", "supergroup"] = "private"
    title: str | None = None
    is_forum: bool = False

    @property
    def wire(self) -> dict[str, Any]:
        """The chat as the API describes it."""
        told: dict[str, Any] = {"id": self.id, "type": self.type}
        if self.title is not None:
            told["title"] = self.title
        return told | ({"is_forum": True} if self.is_forum else {})


ANN: Final = Person(7, "Ann", "ann")
BOB: Final = Person(8, "Bob")
GROUP: Final = Chat(-100500, "supergroup", "Kitchen")
FORUM: Final = Chat(-100600, "supergroup", "Workshop", is_forum=True)


class Sent(msgspec.Struct):
    """A message of the bot, as people see it now."""

    chat: int
    id: int
    text: str
    thread: int | None = None
    file: bytes | None = None
    file_name: str | None = None
    buttons: tuple[tuple[str, str], ...] = ()
    edits: int = 0


class Refusal(Exception):  # an answer of the API, not an error of the server
    """An answer of the API that is not ok."""

    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.code, self.description, self.parameters = code, description, parameters


class TelegramServer:
    """The server. `sent` are the bot's messages; `say` and the others are what people do."""

    def __init__(self) -> None:
        self.token = TOKEN
        self.bot: dict[str, Any] = dict(BOT)
        self.sent: list[Sent] = []
        self.reactions: deque[Reaction] = deque()
        self.retry_after = 1
        self.typing: list[tuple[int, int | None]] = []
        self.answered: list[tuple[str, str]] = []
        """Presses of buttons that were acknowledged, with what was said to them."""
        self.calls: list[str] = []
        self.confirmed = 0
        """Updates up to this one are acknowledged."""
        self.port = 0
        self._updates: list[dict[str, Any]] = []
        self._history: dict[int, dict[str, Any]] = {}
        self._number = 1_000
        self._message = 10
        self._files: dict[str, bytes] = {}
        self._news = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        """What replaces `https://api.telegram.org`."""
        return f"http://{HOST}:{self.port}"

    async def open(self, port: int = 0) -> None:
        """Listen at a local port."""
        self._server = await asyncio.start_server(self._accept, HOST, port, limit=1 << 26)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and hang up."""
        if self._server is not None:
            self._server.close()
            await self.hang_up()
            await self._server.wait_closed()
            self._server = None
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def hang_up(self) -> None:
        """Cut every connection that is open."""
        for writer in tuple(self._open):
            writer.transport.abort()

    def revoke(self) -> None:
        """From now on the bot's token is not valid."""
        self.token = "revoked"  # noqa: S105  # not a real one

    # --- what people do -------------------------------------------------------------------------

    async def say(
        self,
        text: str,
        *,
        sender: Person = ANN,
        chat: Chat | None = None,
        topic: int | None = None,
        files: Sequence[Attached] = (),
        voice: bytes | None = None,
        answers: Sent | None = None,
        date: int | None = None,
        **more: Any,
    ) -> int:
        """A person writes a message; returns the number of its update."""
        self._message += 1
        chat = chat or Chat(sender.id)
        message: dict[str, Any] = {
            "message_id": self._message,
            "date": int(time.time()) if date is None else date,
            "chat": chat.wire,
            "from": sender.wire,
        }
        words = "caption" if files or voice else "text"
        if text:
            message[words] = text
            message["caption_entities" if files or voice else "entities"] = _find_entities(text)
        for file in files:
            message |= self._attach(file)
        if voice is not None:
            message["voice"] = self._keep(voice, "ogg") | {"duration": 1, "mime_type": "audio/ogg"}
        if topic is not None:
            message |= {"message_thread_id": topic, "is_topic_message": True}
        if answers is not None:
            message["reply_to_message"] = {
                "message_id": answers.id, "date": 1, "chat": chat.wire, "from": self.bot,
                "text": answers.text,
            }  # fmt: skip
        return await self._add({"message": message | more})

    async def edit(self, update: int, text: str) -> int:
        """A person changes a message that they wrote."""
        message = dict(self._history[update]["message"])
        message |= {"text": text, "entities": _find_entities(text), "edit_date": int(time.time())}
        return await self._add({"edited_message": message})

    async def press(self, sent: Sent, label: str, *, sender: Person = ANN) -> int:
        """A person presses a button of a message."""
        value = next(value for shown, value in sent.buttons if shown == label)
        chat = Chat(sent.chat, "private" if sent.chat > 0 else "supergroup")
        return await self._add(
            {
                "callback_query": {
                    "id": f"press{self._number}",
                    "from": sender.wire,
                    "chat_instance": "1",
                    "data": value,
                    "message": {
                        "message_id": sent.id, "date": 1, "chat": chat.wire, "from": self.bot,
                        "text": sent.text,
                    },
                }
            }
        )  # fmt: skip

    async def join(self, chat: Chat, *, sender: Person = ANN) -> int:
        """A person adds the bot to a group."""
        member = {"user": self.bot, "status": "member"}
        return await self._add(
            {
                "my_chat_member": {
                    "chat": chat.wire, "from": sender.wire, "date": int(time.time()),
                    "old_chat_member": {"user": self.bot, "status": "left"},
                    "new_chat_member": member,
                }
            }
        )  # fmt: skip

    async def repeat(self, update: int) -> None:
        """Deliver an update once more, whether it was acknowledged or not."""
        await self._add(
            {name: value for name, value in self._history[update].items() if name != "update_id"}
        )

    async def shuffle(self) -> None:
        """Put the updates that wait into the wrong order."""
        async with self._news:
            self._updates.reverse()
            self._news.notify_all()

    async def _add(self, update: dict[str, Any]) -> int:
        async with self._news:
            self._number += 1
            whole = {"update_id": self._number} | update
            self._updates.append(whole)
            self._history[self._number] = whole
            self._news.notify_all()
        return self._number

    def _attach(self, file: Attached) -> dict[str, Any]:
        if file.media_type.startswith("image/"):
            small = self._keep(b"small", "jpg") | {"width": 1, "height": 1}
            large = self._keep(file.data, "jpg") | {"width": 9, "height": 9}
            return {"photo": [small, large]}
        kept = self._keep(file.data, "bin")
        return {"document": kept | {"file_name": file.name, "mime_type": file.media_type}}

    def _keep(self, data: bytes, ending: str) -> dict[str, Any]:
        name = f"file{len(self._files)}.{ending}"
        self._files[name] = data
        return {"file_id": name, "file_unique_id": f"u-{name}", "file_size": len(data)}

    # --- HTTP -----------------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while (head := await reader.readuntil(b"\r\n\r\n")) and await self._reply(
                head.decode("latin-1"), reader, writer
            ):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _reply(
        self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; False if the connection is to be closed without an answer."""
        first, *lines = head.rstrip().split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        path = unquote(first.split(" ")[1])
        if path.startswith(f"/file/bot{self.token}/"):
            data = self._files.get(path.rpartition("/")[2], b"")
            await _write(writer, 200, data, "application/octet-stream")
            return True
        _, bot, method = path.split("/", 2)
        self.calls.append(method)
        try:
            fields = _read_fields(headers.get("content-type", ""), body)
            result = await self._call(bot, method, fields)
        except Refusal as no:
            answer: dict[str, Any] = {
                "ok": False, "error_code": no.code, "description": no.description,
            }  # fmt: skip
            if no.parameters:
                answer["parameters"] = no.parameters
            await _write(writer, no.code, json.dumps(answer).encode())
            return True
        except ConnectionAbortedError:
            writer.transport.abort()
            return False
        await _write(writer, 200, json.dumps({"ok": True, "result": result}).encode())
        return True

    async def _call(self, bot: str, method: str, fields: dict[str, Any]) -> Any:
        if bot != f"bot{self.token}":
            raise Refusal(401, "Unauthorized")
        handler = getattr(self, f"_do_{method.lower()}", None)
        if handler is None:
            raise Refusal(404, f"Not Found: method {method} is not here")
        return await handler(fields)

    # --- methods --------------------------------------------------------------------------------

    async def _do_getme(self, _fields: dict[str, Any]) -> Any:
        return self.bot

    async def _do_getwebhookinfo(self, _fields: dict[str, Any]) -> Any:
        return {"url": "", "has_custom_certificate": False, "pending_update_count": 0}

    async def _do_getupdates(self, fields: dict[str, Any]) -> Any:
        offset, wait = int(fields.get("offset", 0)), float(fields.get("timeout", 0))
        if offset:
            self.confirmed = max(self.confirmed, offset - 1)
            self._updates = [each for each in self._updates if each["update_id"] >= offset]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait or 0.01), self._news:
                await self._news.wait_for(lambda: bool(self._updates))
        return self._updates[:100]

    async def _do_sendmessage(self, fields: dict[str, Any]) -> Any:
        return self._show(fields, str(fields.get("text", "")))

    async def _do_sendphoto(self, fields: dict[str, Any]) -> Any:
        return self._show_file(fields, "photo")

    async def _do_senddocument(self, fields: dict[str, Any]) -> Any:
        return self._show_file(fields, "document")

    def _show_file(self, fields: dict[str, Any], name: str) -> Any:
        given = fields.get(name)
        if isinstance(given, str) and given.startswith("attach://"):
            given = fields.get(given.removeprefix("attach://"))
        if not isinstance(given, tuple):
            raise Refusal(400, "Bad Request: there is no file in the request")
        file_name, data = given
        return self._show(fields, str(fields.get("caption", "")), file=data, file_name=file_name)

    def _show(self, fields: dict[str, Any], text: str, **more: Any) -> Any:
        reaction = self.reactions.popleft() if self.reactions else "take"
        if reaction == "refuse":
            raise Refusal(403, "Forbidden: bot was blocked by the user")
        if reaction == "flood":
            wait = self.retry_after
            raise Refusal(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
        if reaction == "misread":
            raise Refusal(400, "Bad Request: can't parse entities: Unexpected end of entity")
        if reaction == "vanish":
            raise ConnectionAbortedError
        shown = _read_text(text, fields.get("parse_mode"), may_be_empty="file" in more)
        self._message += 1
        thread = fields.get("message_thread_id")
        one = Sent(
            int(fields["chat_id"]),
            self._message,
            shown,
            None if thread is None else int(thread),
            buttons=_read_buttons(fields.get("reply_markup")),
            **more,
        )
        if one.thread == 1:
            raise Refusal(400, "Bad Request: message thread not found")
        self.sent.append(one)
        if reaction == "swallow":
            raise ConnectionAbortedError
        return self._describe(one)

    async def _do_editmessagetext(self, fields: dict[str, Any]) -> Any:
        one = self._get(fields)
        reaction = self.reactions.popleft() if self.reactions else "take"
        if reaction == "flood":
            wait = self.retry_after
            raise Refusal(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
        shown = _read_text(str(fields.get("text", "")), fields.get("parse_mode"))
        buttons = _read_buttons(fields.get("reply_markup"))
        if (shown, buttons) == (one.text, one.buttons):
            raise Refusal(
                400,
                "Bad Request: message is not modified: specified new message content and reply "
                "markup are exactly the same as a current content and reply markup of the message",
            )
        one.text, one.buttons = shown, buttons
        one.edits += 1
        return self._describe(one)

    async def _do_editmessagereplymarkup(self, fields: dict[str, Any]) -> Any:
        one = self._get(fields)
        one.buttons = _read_buttons(fields.get("reply_markup"))
        return self._describe(one)

    async def _do_sendchataction(self, fields: dict[str, Any]) -> Any:
        thread = fields.get("message_thread_id")
        self.typing.append((int(fields["chat_id"]), None if thread is None else int(thread)))
        return True

    async def _do_answercallbackquery(self, fields: dict[str, Any]) -> Any:
        self.answered.append((fields["callback_query_id"], fields.get("text", "")))
        return True

    async def _do_getfile(self, fields: dict[str, Any]) -> Any:
        name = fields["file_id"]
        if name not in self._files:
            raise Refusal(400, "Bad Request: invalid file_id")
        return {
            "file_id": name, "file_unique_id": f"u-{name}", "file_path": f"files/{name}",
            "file_size": len(self._files[name]),
        }  # fmt: skip

    def _get(self, fields: dict[str, Any]) -> Sent:
        wanted = (int(fields["chat_id"]), int(fields["message_id"]))
        for one in self.sent:
            if (one.chat, one.id) == wanted:
                return one
        raise Refusal(400, "Bad Request: message to edit not found")

    def _describe(self, one: Sent) -> dict[str, Any]:
        kind = "private" if one.chat > 0 else "supergroup"
        told = {"message_id": one.id, "date": int(time.time()), "from": self.bot}
        return told | {"chat": {"id": one.chat, "type": kind}, "text": one.text}


def _find_entities(text: str) -> list[dict[str, Any]]:
    """The mentions and commands in a text, at their UTF-16 places."""
    found = []
    for match in re.finditer(r"(?<!\w)@\w+|^/\w+(?:@\w+)?", text):
        kind = "bot_command" if match[0].startswith("/") else "mention"
        place = utf16_size(text[: match.start()])
        found.append({"type": kind, "offset": place, "length": utf16_size(match[0])})
    return found


def _read_fields(kind: str, body: bytes) -> dict[str, Any]:
    """The parameters of a call: files are (name, data)."""
    if kind.startswith("application/json"):
        decoded: dict[str, Any] = json.loads(body)
        return decoded
    if not kind.startswith("multipart/"):
        return dict(parse_qsl(body.decode(), keep_blank_values=True))
    parser = email.parser.BytesParser(policy=email.policy.HTTP)
    fields: dict[str, Any] = {}
    for part in parser.parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + body).iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        data = part.get_payload(decode=True)
        assert isinstance(data, bytes)
        file_name = part.get_filename()
        fields[name] = data.decode() if file_name is None else (file_name, data)
    return fields


def _read_buttons(markup: Any) -> tuple[tuple[str, str], ...]:
    if not markup:
        return ()
    rows = (json.loads(markup) if isinstance(markup, str) else markup).get("inline_keyboard", [])
    buttons = tuple((each["text"], each.get("callback_data", "")) for row in rows for each in row)
    if any(not 0 < len(value.encode()) <= 64 for _, value in buttons):
        raise Refusal(400, "Bad Request: BUTTON_DATA_INVALID")
    return buttons


def _read_text(text: str, mode: Any, *, may_be_empty: bool = False) -> str:
    """The text that people see; refuses what Telegram refuses."""
    shown = parse_html(text) if mode == "HTML" else text
    if not shown.strip() and not may_be_empty:
        raise Refusal(400, "Bad Request: message text is empty")
    if utf16_size(shown) > LIMIT:
        raise Refusal(400, "Bad Request: message is too long")
    return shown


def parse_html(text: str) -> str:
    """The text without its markup, as strictly as Telegram reads it."""
    if _ENTITY.search(text):
        text = _ENTITY.sub("&amp;", text)  # Telegram leaves other ampersands alone
    opened: list[str] = []
    shown: list[str] = []
    place = 0
    while (at := text.find("<", place)) >= 0:
        shown.append(text[place:at])
        match = _TAG.match(text, at)
        if match is None or match[2] not in _TAGS:
            raise Refusal(
                400, f"Bad Request: can't parse entities: Unsupported start tag at byte {at}"
            )
        if not match[1]:
            if match[2] == "blockquote" and "blockquote" in opened:
                raise Refusal(400, "Bad Request: can't parse entities: nested blockquote")
            opened.append(match[2])
        elif not opened or opened.pop() != match[2]:
            raise Refusal(400, f"Bad Request: can't parse entities: Unmatched end tag at byte {at}")
        place = match.end()
    if opened:
        raise Refusal(400, f"Bad Request: can't parse entities: Can't find end tag of {opened[-1]}")
    return html.unescape("".join([*shown, text[place:]]))


async def _write(
    writer: asyncio.StreamWriter, status: int, body: bytes, kind: str = "application/json"
) -> None:
    head = f"HTTP/1.1 {status} -\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


@asynccontextmanager
async def open_telegram() -> AsyncIterator[TelegramServer]:
    """A server for the time of the block."""
    server = TelegramServer()
    await server.open()
    try:
        yield server
    finally:
        await server.close()
