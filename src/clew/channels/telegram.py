"""Telegram: a bot that is asked for its updates (long polling), over `python-telegram-bot`.

An update is acknowledged by asking for the next one, which happens when it is kept. Replies are in
Telegram's HTML (`telegram_markup`). Who may talk, and which session it is, is decided elsewhere.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final, NamedTuple

import httpx
from telegram import (
    Bot,
    CallbackQuery,
    Chat,
    ChatMemberUpdated,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    Message,
    MessageEntity,
    Update,
    User,
)
from telegram.constants import ChatAction, ParseMode
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
)
from telegram.request import HTTPXRequest

from clew.channels.telegram_markup import to_html
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
from clew.core.channels.routing import GENERAL_TOPIC, Arrival, Peer
from clew.core.delivery import Outbound
from clew.errors import ChannelRefused, FormatRefused, ReplyDelayed, ReplyRefused
from clew.ports import Receive

LIMIT: Final = 4096
"""UTF-16 units of a message."""
CAPTION: Final = 1024
BIGGEST_IN: Final = 20 * 1024 * 1024
BIGGEST_OUT: Final = 50 * 1024 * 1024
BIGGEST_PHOTO: Final = 10 * 1024 * 1024
"""Bytes of a file that a bot may fetch, send, and send as a photo."""

POLL: Final = 50
"""Seconds that Telegram waits for news before it answers."""
UPDATES: Final = ["message", "edited_message", "callback_query", "my_chat_member"]

PHOTOS: Final = ("image/png", "image/jpeg", "image/webp")

PRIVACY: Final = (
    "Privacy mode is on: in groups the bot gets only commands, answers to its messages and what "
    "mentions it, so it can't know what else was said{}. To change that, write /setprivacy to "
    "@BotFather, choose the bot and Disable; then remove the bot from the group and add it again."
)
NO_GROUPS: Final = "The bot can't be added to groups: @BotFather changes that with /setjoingroups."
HOOKED: Final = (
    "A webhook is set for this bot, so it gets no updates by polling. Remove it in the program "
    "that set it, or take another bot."
)
TAKEN: Final = (
    "another program asks for the updates of this bot: stop it, or give each program its own bot"
)


def build(setup: ChannelSetup) -> TelegramChannel:
    """The channel of a configuration: see `core.channels.kinds`."""
    return TelegramChannel(
        setup.token or "",
        account=setup.account,
        base_url=str(setup.settings.get("api_url") or "https://api.telegram.org"),
        answers_all=setup.groups == "always",
    )


class _Me(NamedTuple):
    """The bot itself."""

    id: int
    username: str


class TelegramChannel:
    """`ports.Channel` to Telegram."""

    def __init__(
        self,
        token: str,
        *,
        account: str = "default",
        base_url: str = "https://api.telegram.org",
        answers_all: bool = False,
        poll: int = POLL,
    ) -> None:
        self.name = "telegram"
        self.account = account
        self._token = token
        self._base_url = base_url.rstrip("/")
        self._answers_all = answers_all
        self._poll = poll
        self._sender: tuple[Bot, Sequence[HTTPXRequest]] | None = None

    # --- in -------------------------------------------------------------------------------------

    async def run(self, receive: Receive) -> None:
        """See `ports.Channel`."""
        async with self._listening() as bot:
            found = await bot.get_me()
            me = _Me(found.id, found.username or "")
            offset: int | None = None
            while True:
                updates = await bot.get_updates(
                    offset,
                    timeout=self._poll,
                    allowed_updates=UPDATES,
                    read_timeout=self._poll + 15,
                )
                for update in sorted(updates, key=lambda each: each.update_id):
                    await self._report(bot, me, update, receive)
                    offset = update.update_id + 1

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[Bot]:
        bot, requests = self._make_bot()
        try:
            yield bot
        except (InvalidToken, Forbidden) as error:
            raise ChannelRefused(_REVOKED) from error
        except Conflict as error:
            raise ChannelRefused(f"Telegram says: {TAKEN}.") from error
        except TelegramError as error:
            raise ConnectionError(self._clean(error)) from None
        finally:
            await _shut(requests)

    def _make_bot(self) -> tuple[Bot, Sequence[HTTPXRequest]]:
        """A bot, and its connections: it closes them itself only after a call of its own."""
        requests = [
            HTTPXRequest(
                connection_pool_size=16, read_timeout=30, write_timeout=30, pool_timeout=30
            )
            for _ in range(2)
        ]
        try:
            bot = Bot(
                self._token,
                base_url=f"{self._base_url}/bot",
                base_file_url=f"{self._base_url}/file/bot",
                request=requests[0],
                get_updates_request=requests[1],
            )
        except InvalidToken as error:
            raise ChannelRefused(_REVOKED) from error
        return bot, requests

    async def _report(self, bot: Bot, me: _Me, update: Update, receive: Receive) -> None:
        """Report one update; what clew has no use for is left out."""
        if update.message is not None and _is_persons(update.message):
            incoming = await self._read_message(bot, me, update.message)
            if incoming is not None:
                await receive(incoming)
        elif update.edited_message is not None and _is_persons(update.edited_message):
            await self._report_edit(me, update.edited_message, receive)
        elif update.callback_query is not None:
            await self._report_press(bot, update.callback_query, receive)
        elif update.my_chat_member is not None:
            await self._report_place(update.my_chat_member, receive)

    async def _read_message(self, bot: Bot, me: _Me, message: Message) -> Incoming | None:
        files, lost = await self._fetch(bot, message)
        text = _text_of(message, me)
        if lost:
            text = "\n".join([*([text] if text else []), *lost])
        if not text.strip() and not files:
            return None  # a service message: somebody has joined, a title was changed
        place = self._place(message.chat, message)
        return Incoming(
            arrival=place.arrival,
            sender=_sender_of(message.from_user),
            text=text,
            external_id=f"{message.chat.id}:{message.message_id}",
            # Not the update's number: Telegram begins anew after a week of silence.
            position=int(message.date.timestamp()),
            attachments=tuple(files),
            labels=_labels_of(message.chat),
            reply_to=place.reply_to,
            is_mentioned=_is_to(message, me),
            mention=f"@{me.username}",
            quote=_quote_of(message, me),
        )

    async def _report_edit(self, me: _Me, message: Message, receive: Receive) -> None:
        place = self._place(message.chat, message)
        await receive(
            Edited(
                arrival=place.arrival,
                sender=_sender_of(message.from_user),
                external_id=f"{message.chat.id}:{message.message_id}",
                text=_text_of(message, me),
                labels=_labels_of(message.chat),
                reply_to=place.reply_to,
            )
        )

    async def _report_press(self, bot: Bot, query: CallbackQuery, receive: Receive) -> None:
        note = "That message is too old."
        shown = query.message
        if shown is not None and query.data:
            thread = shown if isinstance(shown, Message) else None
            place = self._place(shown.chat, thread)
            receipt = await receive(
                Pressed(
                    arrival=place.arrival,
                    sender=_sender_of(query.from_user),
                    value=query.data,
                    reply_to=place.reply_to,
                    external_id=f"press:{query.id}",
                )
            )
            note = receipt.note or ""
            # Nobody has to press a button that was pressed. A stranger's press changes nothing.
            if note.startswith(("Allowed", "Not allowed", "It was", "That question is over")):
                with contextlib.suppress(TelegramError):
                    await bot.edit_message_reply_markup(
                        chat_id=shown.chat.id, message_id=shown.message_id, reply_markup=None
                    )
        with contextlib.suppress(TelegramError):
            await bot.answer_callback_query(query.id, text=note[:200])

    async def _report_place(self, changed: ChatMemberUpdated, receive: Receive) -> None:
        if changed.new_chat_member.status not in ("member", "administrator"):
            return
        place = self._place(changed.chat, None)
        await receive(
            Learned(
                arrival=place.arrival,
                sender=_sender_of(changed.from_user),
                reply_to=place.reply_to,
                labels=_labels_of(changed.chat),
            )
        )

    def _place(self, chat: Chat, message: Message | None) -> _Place:
        kind = "dm" if chat.type == "private" else "channel" if chat.type == "channel" else "group"
        is_forum = bool(chat.is_forum)
        thread = None
        if is_forum:
            topic = message is not None and message.is_topic_message and message.message_thread_id
            thread = str(topic) if topic else GENERAL_TOPIC
        return _Place(
            Arrival(
                channel=self.name,
                account=self.account,
                peer=Peer(kind, str(chat.id)),  # type: ignore[arg-type]  # one of its kinds
                thread=thread,
                is_forum=is_forum,
                is_owner=False,
            ),
            reply_to_peer(self.name, self.account, kind, str(chat.id), thread=thread),
        )

    async def _fetch(self, bot: Bot, message: Message) -> tuple[list[Attached], list[str]]:
        """The files of a message, and a line for each that could not be fetched."""
        files: list[Attached] = []
        lost: list[str] = []
        for one in _list_files(message):
            if (one.size or 0) > BIGGEST_IN:
                lost.append(f"[{one.name or one.kind}: too big for a bot to fetch]")
                continue
            try:
                found = await bot.get_file(one.id)
                data = await found.download_as_bytearray()
            except BadRequest as error:
                lost.append(f"[{one.name or one.kind} could not be fetched: {self._clean(error)}]")
            else:
                files.append(Attached(one.media_type, bytes(data), one.name))
        return files, lost

    # --- out ------------------------------------------------------------------------------------

    def render(self, text: str) -> str:
        """See `ports.Channel`."""
        return to_html(text)

    def split(self, text: str) -> Iterator[Piece]:
        """See `ports.Channel`."""
        return cut_pieces(text, LIMIT, size=utf16_size, render=to_html)

    def may_repeat(self, outbound: Outbound) -> bool:  # noqa: ARG002  # the same for every message
        """See `ports.Channel`. Telegram does not recognise a second delivery."""
        return False

    async def send(self, parcel: Parcel) -> dict[str, Any]:
        """See `ports.Channel`."""
        return await self._say(parcel, None)

    async def ask(self, parcel: Parcel, choices: Sequence[Choice]) -> dict[str, Any]:
        """See `ports.AsksWithButtons`."""
        buttons = [InlineKeyboardButton(each.label, callback_data=each.value) for each in choices]
        rows = [buttons[at : at + 2] for at in range(0, len(buttons), 2)]
        return await self._say(parcel, InlineKeyboardMarkup(rows))

    async def _say(self, parcel: Parcel, markup: InlineKeyboardMarkup | None) -> dict[str, Any]:
        where = _where(parcel.address)
        async with self._errors():
            sent = await self._to_chat(
                where,
                lambda chat: self._bot.send_message(
                    chat,
                    parcel.text,
                    parse_mode=None if parcel.is_plain else ParseMode.HTML,
                    message_thread_id=where.thread,
                    reply_markup=markup,
                ),
            )
        return {"chat": sent.chat.id, "message": sent.message_id}

    async def send_file(self, parcel: Parcel) -> dict[str, Any]:
        """See `ports.SendsFiles`."""
        file, where = parcel.file, _where(parcel.address)
        if file is None:
            raise ReplyRefused("There is no file to send.")
        if len(file.data) > BIGGEST_OUT:
            raise ReplyRefused("Telegram takes files of at most 50 MB from a bot.")
        name = file.name or f"file.{file.media_type.partition('/')[2] or 'bin'}"
        caption = parcel.text[:CAPTION] or None
        is_photo = file.media_type in PHOTOS and len(file.data) <= BIGGEST_PHOTO
        async with self._errors():
            if is_photo:
                # What Telegram does not take as a photo, for its measures say, goes as a file.
                with contextlib.suppress(BadRequest):
                    sent = await self._to_chat(
                        where,
                        lambda chat: self._bot.send_photo(
                            chat, file.data, caption=caption, filename=name,
                            message_thread_id=where.thread,
                        ),
                    )  # fmt: skip
                    return {"chat": sent.chat.id, "message": sent.message_id}
            sent = await self._to_chat(
                where,
                lambda chat: self._bot.send_document(
                    chat, file.data, caption=caption, filename=name, message_thread_id=where.thread
                ),
            )
        return {"chat": sent.chat.id, "message": sent.message_id}

    async def edit(self, receipt: dict[str, Any], text: str, *, is_plain: bool = False) -> None:
        """See `ports.EditsMessages`."""
        async with self._errors():
            await self._bot.edit_message_text(
                text,
                chat_id=receipt["chat"],
                message_id=receipt["message"],
                parse_mode=None if is_plain else ParseMode.HTML,
            )

    async def typing(self, address: dict[str, Any], on: bool) -> None:
        """See `ports.ShowsTyping`. Telegram stops it by itself, after five seconds."""
        if not on:
            return
        where = _where(address)
        async with self._errors():
            await self._bot.send_chat_action(
                where.chat, ChatAction.TYPING, message_thread_id=where.thread
            )

    async def check(self) -> ChannelCheck:
        """See `ports.IsTestable`."""
        async with self._listening() as bot:
            me = await bot.get_me()
            hook = await bot.get_webhook_info()
        problems = [HOOKED] if hook.url else []
        if not me.can_join_groups:
            problems.append(NO_GROUPS)
        elif not me.can_read_all_group_messages:
            more = ', though groups = "always"' if self._answers_all else ""
            problems.append(PRIVACY.format(more))
        return ChannelCheck(
            who=f"{me.full_name} (@{me.username})",
            problems=tuple(problems),
            contact=f"https://t.me/{me.username}",
        )

    async def close(self) -> None:
        """See `ports.HoldsConnections`."""
        sender, self._sender = self._sender, None
        if sender is not None:
            await _shut(sender[1])

    @property
    def _bot(self) -> Bot:
        if self._sender is None:
            self._sender = self._make_bot()
        return self._sender[0]

    async def _to_chat(self, where: _Where, call: Any) -> Message:
        """Send to a chat; a group that became a supergroup has another id."""
        try:
            sent: Message = await call(where.chat)
        except ChatMigrated as error:
            sent = await call(error.new_chat_id)
        return sent

    @asynccontextmanager
    async def _errors(self) -> AsyncIterator[None]:
        """What Telegram's answers mean for a message."""
        try:
            yield
        except RetryAfter as error:
            seconds = _seconds_of(error)
            # Telegram does not say whether the chat or the bot was too fast.
            raise ReplyDelayed(
                "Telegram asks to wait.", after=min(seconds, 3_600), stops="account"
            ) from error
        except (InvalidToken, Conflict) as error:
            raise ReplyDelayed(_REVOKED, after=60, stops="account") from error
        except Forbidden as error:
            raise ReplyRefused(f"Telegram says: {self._clean(error)}") from error
        except BadRequest as error:
            said = self._clean(error)
            if "not modified" in said:
                return
            if "parse entities" in said:
                raise FormatRefused(f"Telegram says: {said}") from error
            raise ReplyRefused(f"Telegram says: {said}") from error
        except NetworkError as error:
            if isinstance(error.__cause__, _NEVER_SENT):
                raise ReplyDelayed(f"Telegram can't be reached: {self._clean(error)}") from error
            raise ConnectionError(self._clean(error)) from None
        except TelegramError as error:
            raise ConnectionError(self._clean(error)) from None

    def _clean(self, error: Exception) -> str:
        """What an error says, without the token."""
        said = " ".join(str(error).split()) or type(error).__name__
        return said.replace(self._token, "…") if self._token else said


# The library warns of this whenever it reads its own attribute; here both types are read.
warnings.filterwarnings("ignore", message=".*attribute `retry_after` will be", module="telegram")

_NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_REVOKED: Final = (
    "Telegram does not accept the token: it is wrong, or was revoked. @BotFather shows the right "
    "one: `clew channels remove` and `add` again store it."
)


def _seconds_of(error: RetryAfter) -> float:
    wait = error.retry_after
    return wait.total_seconds() if isinstance(wait, timedelta) else float(wait)


async def _shut(requests: Sequence[HTTPXRequest]) -> None:
    for each in requests:
        await each.shutdown()


class _Place(NamedTuple):
    arrival: Arrival
    reply_to: ReplyTo


class _Where(NamedTuple):
    chat: int | str
    thread: int | None


def _where(address: dict[str, Any]) -> _Where:
    peer = address.get("peer")
    name = str(peer.get("id", "")) if isinstance(peer, dict) else ""
    if not name:
        raise ReplyRefused("The address has no chat.")
    thread = str(address.get("thread") or "")
    # The general topic of a forum is addressed without a number.
    topic = int(thread) if thread.isdecimal() and thread != GENERAL_TOPIC else None
    return _Where(int(name) if name.lstrip("-").isdecimal() else name, topic)


class _File(NamedTuple):
    id: str
    kind: str
    media_type: str
    name: str | None
    size: int | None


def _list_files(message: Message) -> Iterator[_File]:
    if message.photo:
        best = max(message.photo, key=lambda each: (each.width or 0) * (each.height or 0))
        yield _File(best.file_id, "photo", "image/jpeg", None, best.file_size)
    if message.sticker is not None and not (
        message.sticker.is_animated or message.sticker.is_video
    ):
        sticker = message.sticker
        yield _File(sticker.file_id, "sticker", "image/webp", None, sticker.file_size)
    named = {
        "document": (message.document, "application/octet-stream"),
        "audio": (message.audio, "audio/mpeg"),
        "video": (message.video, "video/mp4"),
    }
    for kind, (one, usual) in named.items():
        if one is not None:
            name = one.file_name
            yield _File(one.file_id, kind, one.mime_type or usual, name, one.file_size)
    if message.voice is not None:
        voice = message.voice
        kind = voice.mime_type or "audio/ogg"
        yield _File(voice.file_id, "voice message", kind, "voice.ogg", voice.file_size)
    if message.video_note is not None:
        note = message.video_note
        yield _File(note.file_id, "video message", "video/mp4", "video.mp4", note.file_size)


def _is_persons(message: Message) -> bool:
    """Whether a person wrote it: other bots, channels and anonymous senders are not answered."""
    user = message.from_user
    return user is not None and not user.is_bot


def _sender_of(user: User | None) -> Sender:
    return Sender("") if user is None else Sender(str(user.id), user.full_name or user.username)


def _labels_of(chat: Chat) -> Labels:
    return Labels() if chat.type == "private" else Labels(conversation=chat.title)


def _text_of(message: Message, me: _Me) -> str:
    """What a message says. In a group a command is `/new@bot`: the name is left out."""
    text = message.text or message.caption or ""
    if text.split(" ")[0].lower() in ("/start", f"/start@{me.username.lower()}"):
        return "/help"
    named = f"@{me.username}"
    first, space, rest = text.partition(" ")
    if first.startswith("/") and first.lower().endswith(named.lower()):
        return f"{first[: -len(named)]}{space}{rest}"
    return text


def _is_to(message: Message, me: _Me) -> bool:
    """Whether a message is to the bot: a private one, an answer, a command, or with its name."""
    if message.chat.type == "private":
        return True
    answered = message.reply_to_message
    if answered is not None and answered.from_user is not None and answered.from_user.id == me.id:
        return answered.forum_topic_created is None
    named = f"@{me.username}".lower()
    found = message.parse_entities() if message.text else {}
    if message.caption:
        found = message.parse_caption_entities()
    for entity, text in found.items():
        if entity.type == MessageEntity.MENTION and text.lower() == named:
            return True
        if entity.type == MessageEntity.TEXT_MENTION and entity.user and entity.user.id == me.id:
            return True
        if entity.type == MessageEntity.BOT_COMMAND and entity.offset == 0:
            return "@" not in text or text.lower().endswith(named)
    return False


def _quote_of(message: Message, me: _Me) -> Quote | None:
    """The message that this one answers; in a forum, every message "answers" its topic."""
    answered = message.reply_to_message
    if answered is None or answered.forum_topic_created is not None:
        return None
    text = message.quote.text if message.quote is not None else answered.text or answered.caption
    if not text:
        return None
    author = answered.from_user
    return Quote(text, _sender_of(author), is_own=author is not None and author.id == me.id)
