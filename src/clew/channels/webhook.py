"""Webhooks: signed requests in, signed callbacks out.

`read_hook` makes a message of a request whose signature is good; the gateway passes it the
request. Replies are posted to the hook's callback, each part with an id that stays the same when
it is sent again. Both ways are signed with HMAC-SHA256 over the time and the body.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from clew.core.channels.incoming import Incoming, Labels, Sender
from clew.core.channels.replies import Parcel, Piece, ReplyTo, cut_pieces, parse_reply_to
from clew.core.channels.routing import Arrival, Peer
from clew.core.delivery import Outbound
from clew.core.keys import ChannelKey, format_key
from clew.core.settings import SHORTEST_SECRET
from clew.errors import InvalidConfig, InvalidInput, ReplyDelayed, ReplyRefused, Unauthorized
from clew.ports import Clock, Receive

if TYPE_CHECKING:
    import httpx

CHANNEL: Final = "webhook"
DELIVERY: Final = "x-clew-delivery"
LIMIT: Final = 100_000
MAX_BODY: Final = 1_000_000
TIMEOUT: Final = 30.0

_KEY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
_LATER: Final = (408, 425, 429, 503)
"""Status codes that say that nothing was done."""

TIMESTAMP: Final = "x-clew-timestamp"
SIGNATURE: Final = "x-clew-signature"
VERSION: Final = "v1"
WINDOW: Final = 300
"""Seconds that a signature's time may differ from now."""

WRONG: Final = "The signature of this request is missing, wrong or too old."
_TIME: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_SIGNATURE: Final = re.compile(rf"{VERSION}=[0-9a-f]{{64}}", re.ASCII)
_SIGNATURES: Final = 10


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook: who may call, with which rights, and where replies go.

    `session` is a name under which its messages share a session; without one each message, or each
    `key` in a body, has its own. `trusted`: it has the owner's rights; `memory`: and its turns may
    write memory.
    """

    name: str
    secret: str
    agent: str = "main"
    session: str | None = None
    trusted: bool = False
    memory: bool = False
    callback: str | None = None
    callback_secret: str | None = None
    deliver_to: str | None = None
    resend: bool = False
    window: int = WINDOW

    def check(self) -> None:
        """`InvalidConfig` if it could not work, or not safely."""
        if len(self.secret) < SHORTEST_SECRET:
            raise InvalidConfig(
                f"webhooks.{self.name}.secret is too short: take at least {SHORTEST_SECRET} "
                "characters."
            )
        if self.session is not None and not _KEY.fullmatch(self.session):
            raise InvalidConfig(
                f"webhooks.{self.name}.session must be letters, digits, `-`, `_` and `.`."
            )
        if self.deliver_to is not None:
            parse_reply_to(self.deliver_to)


class _Body(msgspec.Struct, frozen=True):
    """The known fields of a body; others are ignored."""

    text: str
    id: str | None = None
    key: str | None = None
    sender: str | None = None


def read_hook(hook: Hook, headers: Mapping[str, str], body: bytes, *, now: int) -> Incoming:
    """The message in a request. `Unauthorized`, or `InvalidInput` for a body that is not a message.

    Header names are in lower case, `now` is in milliseconds. A JSON body with a `text` says that;
    any other body is itself the text. Only what is signed counts: a message is known by its `id`,
    else by its signature.
    """
    signature = check_signature(hook.secret, headers, body, now=now // 1000, window=hook.window)
    if len(body) > MAX_BODY:
        raise InvalidInput("The body is too long for a message.")
    said = _read_body(body)
    external = said.id or signature
    if said.key is not None and not _KEY.fullmatch(said.key):
        raise InvalidInput("`key` must be letters, digits, `-`, `_` and `.`, at most 100.")
    # A second delivery must not begin a second session.
    key = format_key(ChannelKey(hook.agent, "hook", _session_of(hook, said, external)))
    return Incoming(
        arrival=Arrival(
            channel=CHANNEL,
            account=hook.name,
            peer=Peer("dm", hook.name),
            is_owner=hook.trusted,
        ),
        sender=Sender(hook.name, said.sender),
        text=said.text,
        external_id=external,
        labels=Labels(conversation=hook.name),
        reply_to=_reply_to(hook, key),
        key=key,
        from_person=False,
        memory=hook.memory,
    )


def _session_of(hook: Hook, said: _Body, external: str) -> str:
    """The name of its session. A hook that is not trusted can't name another hook's session."""
    if hook.session is not None:
        return hook.session.lower()
    if said.key is not None:
        # No name has a colon in it: `a-b` with `c` must not be `a` with `b-c`, or what is `a-b-c`.
        return said.key.lower() if hook.trusted else f"{hook.name}:{said.key}".lower()
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{hook.name} {external}"))


def _read_body(body: bytes) -> _Body:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("The body is not text.") from error
    try:
        said = msgspec.json.decode(body, type=_Body)
    except (msgspec.MsgspecError, RecursionError):
        said = _Body(text)
    if not said.text.strip():
        raise InvalidInput("There is nothing in the body to answer.")
    if said.id is not None and not 0 < len(said.id) <= 200:
        raise InvalidInput("`id` must have 1 to 200 characters.")
    if said.sender is not None and len(said.sender) > 200:
        raise InvalidInput("`sender` must have at most 200 characters.")
    return said


def _reply_to(hook: Hook, key: str) -> ReplyTo | None:
    if hook.deliver_to is not None:
        return parse_reply_to(hook.deliver_to)
    if hook.callback is None:
        return None
    return ReplyTo(channel=CHANNEL, key=key, account=hook.name)


class WebhookChannel:
    """`ports.Channel` to the callback of one hook."""

    def __init__(
        self, hook: Hook, *, clock: Clock, client: httpx.AsyncClient | None = None
    ) -> None:
        self.name = CHANNEL
        self.account = hook.name
        self.hook = hook
        self._clock = clock
        self._client = client

    async def run(self, receive: Receive) -> None:  # noqa: ARG002  # requests come by the gateway
        """See `ports.Channel`. There is nothing to listen to: the gateway receives the requests."""
        try:
            await asyncio.Event().wait()
        finally:
            client, self._client = self._client, None
            if client is not None:
                await client.aclose()

    def render(self, text: str) -> str:
        """See `ports.Channel`. The receiver gets Markdown."""
        return text

    def split(self, text: str) -> Iterator[Piece]:
        """See `ports.Channel`."""
        return cut_pieces(text, LIMIT)

    def may_repeat(self, outbound: Outbound) -> bool:  # noqa: ARG002  # all of a hook's are alike
        """See `ports.Channel`."""
        return self.hook.resend

    async def send(self, parcel: Parcel) -> dict[str, Any]:
        """See `ports.Channel`."""
        import httpx  # noqa: PLC0415  # only senders need httpx

        if self.hook.callback is None:
            raise ReplyRefused(f"webhooks.{self.hook.name} has no callback to send replies to.")
        body = _encode(parcel)
        secret = self.hook.callback_secret or self.hook.secret
        headers = sign(secret, body, self._clock() // 1000)
        headers |= {"content-type": "application/json", DELIVERY: parcel.id}
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=TIMEOUT, follow_redirects=False)
        try:
            response = await self._client.post(self.hook.callback, content=body, headers=headers)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise ReplyDelayed(f"The callback does not answer: {error}") from error
        except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise ReplyRefused(f"The callback is not a valid address: {error}") from error
        return _read_answer(response)


def _encode(parcel: Parcel) -> bytes:
    row = parcel.outbound
    return msgspec.json.encode(
        {
            "id": row.id,
            "part": parcel.part,
            "is_last": parcel.is_last,
            "text": parcel.text.encode(errors="replace").decode(),
            "session_id": row.session_id,
            "turn_id": row.turn_id,
            "key": row.key,
        }
    )


def _read_answer(response: httpx.Response) -> dict[str, Any]:
    """A receipt, or the error that the callback's status code means."""
    status = response.status_code
    if response.is_success:
        return {"status": status}
    if status in _LATER:
        after = response.headers.get("retry-after", "")
        seconds = min(int(after), 3_600) if after.isascii() and after.isdigit() else None
        stops: Literal["reply", "account"] = "account" if status == 429 else "reply"
        raise ReplyDelayed(f"The callback answers {status}.", after=seconds, stops=stops)
    if status < 500:
        raise ReplyRefused(f"The callback answers {status}.")
    raise ConnectionError(f"the callback answers {status}")  # it may have been processed


def sign(secret: str, body: bytes, at: int) -> dict[str, str]:
    """The headers of a body that is sent now; `at` in seconds."""
    return {TIMESTAMP: str(at), SIGNATURE: f"{VERSION}={_digest(secret, str(at), body)}"}


def check_signature(
    secret: str, headers: Mapping[str, str], body: bytes, *, now: int, window: int = WINDOW
) -> str:
    """The signature that fits, as hexadecimal digits; `Unauthorized` if none does.

    Header names are in lower case. Several signatures, separated by commas, are allowed, so that a
    secret can be changed. The error does not say what is wrong.
    """
    check_headers(headers, now=now, window=window)
    expected = _digest(secret, headers[TIMESTAMP], body)
    found = False
    for each in _list_signatures(headers):
        found |= hmac.compare_digest(each.encode(), f"{VERSION}={expected}".encode())
    if not found:
        raise Unauthorized(WRONG)
    return expected


def check_headers(headers: Mapping[str, str], *, now: int, window: int = WINDOW) -> None:
    """`Unauthorized` if no body and no secret could make these headers right."""
    stamp = headers.get(TIMESTAMP, "")
    if not _TIME.fullmatch(stamp) or abs(now - int(stamp)) > window:
        raise Unauthorized(WRONG)
    if not _list_signatures(headers):
        raise Unauthorized(WRONG)


def _list_signatures(headers: Mapping[str, str]) -> list[str]:
    given = headers.get(SIGNATURE, "").split(",")[:_SIGNATURES]
    return [each.strip() for each in given if _SIGNATURE.fullmatch(each.strip())]


def _digest(secret: str, stamp: str, body: bytes) -> str:
    signed = stamp.encode(errors="replace") + b"." + body
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
