"""E-mail: a mailbox that is watched (IMAP with IDLE) and answers that are sent (SMTP).

A mail is acknowledged by its `\\Seen` flag, once it is kept. Threads are found by the ids of mails,
never by subjects. `mail_reading` says what a mail says and who wrote it. Nobody can approve a tool
call by mail, so its turns are not attended.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import formataddr, formatdate
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlsplit

import aiosmtplib
from imapclient import IMAPClient
from imapclient.exceptions import IMAPClientError, LoginError

from clew.channels.mail_reading import ADDRESS, Mail, NotForUs, read_mail
from clew.core.channels.incoming import Incoming, Labels, Quote, Sender
from clew.core.channels.kinds import ChannelCheck, ChannelSetup
from clew.core.channels.replies import Parcel, Piece, ReplyTo, cut_pieces
from clew.core.channels.routing import Arrival, Peer
from clew.core.delivery import Outbound
from clew.core.text import cut, strip_controls
from clew.errors import ChannelRefused, ReplyDelayed, ReplyRefused
from clew.ports import Receive

LIMIT: Final = 100_000
"""Characters of an answer in one mail."""
BIGGEST: Final = 25 * 1024 * 1024
"""Bytes of a mail, in and out."""
OLDEST: Final = timedelta(days=7)
"""Unread mails that are older are left alone: nobody waits for an answer any more."""
WATCH: Final = 240.0
"""Seconds of one IDLE; some servers close a connection that is silent for five minutes."""
PAUSE: Final = 30.0
"""Seconds between two looks at a mailbox without IDLE."""
SOON: Final = 60.0

UNVERIFIED: Final = " (unverified)"
"""Behind the address of a sender whom the server does not vouch for: no real address has it."""

_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_ANSWER: Final = re.compile(r"(?i)^(?:re|aw|sv|antw|回复)\s*[:\uff1a]")
_OWN_ID: Final = re.compile(r"<clew\.([0-9a-f]{16})\.[^<>@\s]+@([^<>@\s]+)>")

_REVOKED: Final = (
    "The mail server does not accept the user name or the password: it is wrong, or was revoked. "
    "Many providers want an app password here. `clew channels remove`, then `add`, stores another."
)
_NO_RESULTS: Final = (
    "None of the newest mails has an Authentication-Results header of {wanted}, so every sender is "
    "a stranger, you too. {found}"
)
_BIG: Final = "[This mail has {size} MB, which is too much to be read.]"

T = TypeVar("T")


def build(setup: ChannelSetup) -> EmailChannel:
    """The channel of a configuration: see `core.channels.kinds`."""
    given = setup.settings
    return EmailChannel(
        str(given["address"]),
        str(given["password"]),
        imap=str(given["imap"]),
        smtp=str(given["smtp"]),
        authserv_id=str(given["authserv_id"]),
        username=str(given.get("username") or given["address"]),
        account=setup.account,
    )


class Server(NamedTuple):
    """A mail server. Only one on this machine may be spoken to without encryption."""

    host: str
    port: int
    is_tls: bool

    @property
    def is_local(self) -> bool:
        """Whether it runs on this machine."""
        return self.host in _LOCAL


def read_server(url: str, kind: str, *, tls: int, plain: int) -> Server:
    """`imaps://host:port`, or `imap://` for STARTTLS; `ValueError` for anything else."""
    parts = urlsplit(url)
    if parts.scheme not in (kind, f"{kind}s") or not parts.hostname or parts.username:
        raise ValueError(f"{kind} is {kind}s://HOST, or {kind}://HOST for STARTTLS, not {url}")
    is_tls = parts.scheme == f"{kind}s"
    return Server(parts.hostname, parts.port or (tls if is_tls else plain), is_tls)


class EmailChannel:
    """`ports.Channel` to a mailbox."""

    def __init__(
        self,
        address: str,
        password: str,
        *,
        imap: str,
        smtp: str,
        authserv_id: str,
        username: str | None = None,
        account: str = "default",
        watch: float = WATCH,
    ) -> None:
        self.name = "email"
        self.account = account
        self._address = address.strip().lower()
        if ADDRESS.fullmatch(self._address) is None:
            raise ValueError(f"{address} is not a mail address")
        self._password = password
        self._username = username or self._address
        self._imap = read_server(imap, "imap", tls=993, plain=143)
        self._smtp = read_server(smtp, "smtp", tls=465, plain=587)
        self._authserv_id = authserv_id.strip()
        self._watch = watch

    # --- in -------------------------------------------------------------------------------------

    async def run(self, receive: Receive) -> None:
        """See `ports.Channel`."""
        async with self._mailbox() as box:
            while True:
                for uid in await box.do(box.list_new):
                    incoming = self._read(await box.do(partial(box.fetch, uid)))
                    if incoming is not None:
                        await receive(incoming)
                    await box.do(partial(box.acknowledge, uid))
                await box.do(box.wait)

    @asynccontextmanager
    async def _mailbox(self) -> AsyncIterator[_Mailbox]:
        box = _Mailbox(self._imap, self._watch)
        try:
            await box.do(lambda: box.open(self._username, self._password))
            yield box
        except LoginError as error:
            raise ChannelRefused(_REVOKED) from error
        except (IMAPClientError, OSError, ValueError) as error:
            raise ConnectionError(self._clean(error)) from None
        finally:
            box.close()

    def _read(self, fetched: _Fetched) -> Incoming | None:
        """A mail as a message; None for what must not be answered."""
        try:
            mail = read_mail(fetched.raw, own=self._address, authserv_id=self._authserv_id)
        except NotForUs:
            return None
        if _is_own_id(mail.message_id, self._domain):
            return None
        text = mail.text if fetched.size <= BIGGEST else _BIG.format(size=fetched.size >> 20)
        if not text.strip() and not mail.files:
            text = mail.subject
        if not text.strip() and not mail.files:
            return None
        return self._incoming(mail, text, fetched.at)

    def _incoming(self, mail: Mail, text: str, at: int) -> Incoming:
        sender = mail.sender if mail.is_verified else f"{mail.sender}{UNVERIFIED}"
        thread = find_thread(mail, self._domain)
        return Incoming(
            arrival=Arrival(
                channel=self.name,
                account=self.account,
                peer=Peer("dm", sender),
                thread=thread,
                is_owner=False,
            ),
            sender=Sender(sender, mail.name),
            text=text,
            # A mailbox may number its mails anew, so not its number; one person can't use up the
            # identity of another one's mail.
            external_id=hashlib.sha256(f"{sender}\0{mail.message_id}".encode()).hexdigest()[:32],
            position=at,
            attachments=mail.files,
            labels=Labels(thread=mail.subject or None, subject=mail.subject or None),
            reply_to=ReplyTo(
                channel=self.name,
                key=f"{self.name}:{self.account}:dm:{sender}:{thread}",
                account=self.account,
                address={
                    "peer": {"kind": "dm", "id": sender},
                    "thread": thread,
                    "subject": mail.subject,
                    "references": [*mail.references, mail.message_id],
                },
                attended=False,
            ),
            is_mentioned=True,
            is_verified=mail.is_verified,
            attended=False,
            quote=self._quote_of(mail),
        )

    def _quote_of(self, mail: Mail) -> Quote | None:
        if not mail.quoted:
            return None
        return Quote(
            mail.quoted,
            is_own=bool(mail.references) and _is_own_id(mail.references[-1], self._domain),
        )

    @property
    def _domain(self) -> str:
        return self._address.rpartition("@")[2]

    # --- out ------------------------------------------------------------------------------------

    def render(self, text: str) -> str:
        """See `ports.Channel`. A mail is plain text: Markdown reads well as it is."""
        return text

    def split(self, text: str) -> Iterator[Piece]:
        """See `ports.Channel`."""
        return cut_pieces(text, LIMIT)

    def may_repeat(self, outbound: Outbound) -> bool:  # noqa: ARG002  # the same for every mail
        """See `ports.Channel`. Few mailboxes notice that a mail has come twice."""
        return False

    async def send(self, parcel: Parcel) -> dict[str, Any]:
        """See `ports.Channel`."""
        return await self._post(self._write(parcel))

    async def send_file(self, parcel: Parcel) -> dict[str, Any]:
        """See `ports.SendsFiles`."""
        file = parcel.file
        if file is None:
            raise ReplyRefused("There is no file to send.")
        if len(file.data) > BIGGEST * 3 // 4:
            raise ReplyRefused("A file of a mail can have at most 18 MB.")
        mail = self._write(parcel)
        kind, _, sub = file.media_type.partition("/")
        if not re.fullmatch(r"[\w.+-]+/[\w.+-]+", file.media_type) or kind in (
            "multipart", "message",
        ):  # fmt: skip
            kind, sub = "application", "octet-stream"
        name = _one_line(file.name or "") or f"file.{sub}"
        mail.add_attachment(file.data, maintype=kind, subtype=sub, filename=name)
        return await self._post(mail)

    async def check(self) -> ChannelCheck:
        """See `ports.IsTestable`."""
        async with self._mailbox() as box:
            servers = await box.do(box.list_servers)
        async with self._sending():
            pass
        problems = []
        if self._authserv_id.lower() not in servers:
            found = f"They have it of {', '.join(servers)}: is authserv_id one of these?"
            problems.append(
                _NO_RESULTS.format(
                    wanted=self._authserv_id,
                    found=found if servers else "They have none: does this provider check mails?",
                )
            )
        return ChannelCheck(
            who=self._address, problems=tuple(problems), contact=f"mailto:{self._address}"
        )

    def _write(self, parcel: Parcel) -> EmailMessage:
        address = parcel.address
        peer = address.get("peer")
        to = str(peer.get("id", "")) if isinstance(peer, dict) else ""
        to = to.removesuffix(UNVERIFIED).strip()
        if ADDRESS.fullmatch(to) is None:
            raise ReplyRefused(f"{_one_line(to)[:100]} is not a mail address.")
        thread = str(address.get("thread") or "")
        if not re.fullmatch(r"[0-9a-f]{16}", thread):
            thread = hashlib.sha256(parcel.outbound.key.encode()).hexdigest()[:16]
        subject = _one_line(str(address.get("subject") or ""))
        before = [str(each) for each in address.get("references") or ()]
        mail = EmailMessage(policy=SMTP_POLICY)
        mail["From"] = formataddr((None, self._address))
        mail["To"] = to
        mail["Date"] = formatdate(usegmt=True)
        mail["Message-ID"] = f"<clew.{thread}.{_word(parcel.id)}@{self._domain}>"
        if before:
            mail["Subject"] = subject if _ANSWER.match(subject) else f"Re: {subject}".strip()
            mail["In-Reply-To"] = before[-1]
            mail["References"] = " ".join(before)
        else:
            mail["Subject"] = subject or _one_line(parcel.text)[:60] or "clew"
        # No program answers this, ours included.
        mail["Auto-Submitted"] = "auto-replied"
        mail["X-Auto-Response-Suppress"] = "All"
        mail.set_content(parcel.text)
        return mail

    async def _post(self, mail: EmailMessage) -> dict[str, Any]:
        data = mail.as_bytes()
        if len(data) > BIGGEST * 3 // 2:
            raise ReplyRefused("The mail is too big.")
        async with self._sending() as client:
            with self._before_it_is_sent():
                await client.mail(self._address)
                await client.rcpt(str(mail["To"]))
            try:
                await client.data(data)
            except aiosmtplib.SMTPDataError as error:
                raise self._refusal(error.code, error.message) from error
            except (aiosmtplib.SMTPException, OSError) as error:
                raise ConnectionError(self._clean(error)) from None
        return {"message_id": str(mail["Message-ID"])}

    @asynccontextmanager
    async def _sending(self) -> AsyncIterator[aiosmtplib.SMTP]:
        where = self._smtp
        client = aiosmtplib.SMTP(
            hostname=where.host,
            port=where.port,
            use_tls=where.is_tls,
            start_tls=not (where.is_tls or where.is_local),
            local_hostname=self._domain,
            timeout=30,
        )
        with self._before_it_is_sent():
            await client.connect()
        try:
            with self._before_it_is_sent():
                await client.login(self._username, self._password)
            yield client
        finally:
            if client.is_connected:
                with contextlib.suppress(aiosmtplib.SMTPException, OSError):
                    await client.quit(timeout=5)
            client.close()

    @contextlib.contextmanager
    def _before_it_is_sent(self) -> Iterator[None]:
        """What an answer of the server means before the text of a mail is sent."""
        try:
            yield
        except aiosmtplib.SMTPAuthenticationError as error:
            if error.code // 100 == 4:
                raise self._refusal(error.code, error.message) from error
            raise ReplyDelayed(_REVOKED, after=SOON, stops="account") from error
        except aiosmtplib.SMTPResponseException as error:
            raise self._refusal(error.code, error.message) from error
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            raise ReplyDelayed(f"The mail server can't be reached: {self._clean(error)}") from error

    def _refusal(self, code: int, said: str) -> Exception:
        words = f"The mail server says: {code} {_one_line(self._clean_text(said))[:300]}"
        if code // 100 == 5:
            return ReplyRefused(words)
        return ReplyDelayed(words, after=SOON, stops="account" if code == 421 else "chat")

    def _clean(self, error: BaseException) -> str:
        return self._clean_text(_one_line(str(error)) or type(error).__name__)

    def _clean_text(self, text: str) -> str:
        """What a server says, without the password."""
        return text.replace(self._password, "…") if self._password else text


def find_thread(mail: Mail, domain: str) -> str:
    """The thread of a mail: that of an answer of ours before it, else of the first mail.

    Some programs leave out the older references; the ids of our answers name the thread.
    """
    for each in reversed(mail.references):
        match = _OWN_ID.fullmatch(each)
        if match is not None and match[2] == domain:
            return match[1]
    first = mail.references[0] if mail.references else mail.message_id
    return hashlib.sha256(first.encode()).hexdigest()[:16]


def _is_own_id(message_id: str, domain: str) -> bool:
    match = _OWN_ID.fullmatch(message_id)
    return match is not None and match[2] == domain


def _one_line(text: str) -> str:
    return cut(" ".join(strip_controls(text, keep_newlines=False).split()), 1_000)


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", text)[:100]


class _Fetched(NamedTuple):
    raw: bytes
    size: int
    at: int


class _Mailbox:
    """A connection to the mailbox, on a thread of its own: its library waits for answers."""

    def __init__(self, where: Server, watch: float) -> None:
        self._where = where
        self._watch = watch
        self._client: IMAPClient | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="imap")
        self._is_closed = False

    async def do(self, what: Callable[[], T]) -> T:
        """Call on the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, what)

    def close(self) -> None:
        """Cut the connection, whatever the thread waits for."""
        self._is_closed = True
        self._cut()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _cut(self) -> None:
        if self._client is not None:
            with contextlib.suppress(OSError, AttributeError):
                self._client.socket().shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError, AttributeError):
                self._client.shutdown()

    def open(self, username: str, password: str) -> None:
        """Connect, sign in, and open the inbox."""
        where = self._where
        context = ssl.create_default_context()
        self._client = client = IMAPClient(
            where.host, where.port, ssl=where.is_tls,
            ssl_context=context if where.is_tls else None, timeout=60,
        )  # fmt: skip
        if self._is_closed:
            self._cut()
            return
        client.normalise_times = False
        if not where.is_tls and not where.is_local:
            client.starttls(context)
        client.login(username, password)
        client.select_folder("INBOX")

    @property
    def _open(self) -> IMAPClient:
        if self._client is None or self._is_closed:
            raise ConnectionError("the mailbox is closed")
        return self._client

    def list_new(self) -> list[int]:
        """The numbers of unread mails, oldest first."""
        since = (datetime.now(UTC) - OLDEST).date()
        return sorted(self._open.search(["UNSEEN", "SINCE", since]))

    def fetch(self, uid: int) -> _Fetched:
        """A mail; of one that is too big, the headers."""
        about = self._open.fetch([uid], ["RFC822.SIZE", "INTERNALDATE"]).get(uid, {})
        size = int(about.get(b"RFC822.SIZE", 0))
        what = b"BODY[]" if size <= BIGGEST else b"BODY[HEADER]"
        asked = what.replace(b"BODY", b"BODY.PEEK").decode()
        raw = self._open.fetch([uid], [asked]).get(uid, {}).get(what) or b""
        at = about.get(b"INTERNALDATE")
        return _Fetched(bytes(raw), size, int(at.timestamp()) if at is not None else 0)

    def acknowledge(self, uid: int) -> None:
        """Mark a mail as read."""
        self._open.add_flags([uid], [b"\\Seen"], silent=True)

    def wait(self) -> None:
        """Wait until there is something new, or for a while."""
        client = self._open
        if not client.has_capability("IDLE"):
            _sleep(client.socket(), PAUSE)
            client.noop()
            return
        client.idle()
        try:
            client.idle_check(timeout=self._watch)
        finally:
            if not self._is_closed:
                client.idle_done()

    def list_servers(self) -> list[str]:
        """The servers whose results are in the newest mails."""
        client = self._open
        newest = sorted(client.search(["ALL"]))[-20:]
        if not newest:
            return []
        field = "BODY.PEEK[HEADER.FIELDS (AUTHENTICATION-RESULTS)]"
        found: dict[str, None] = {}
        for each in client.fetch(newest, [field]).values():
            for name, value in each.items():
                if name.startswith(b"BODY[") and isinstance(value, bytes):
                    text = value.decode("ascii", "replace")
                    for match in re.finditer(r"(?im)^authentication-results:\s*([^\s;]+)", text):
                        found.setdefault(match[1].lower())
        return list(found)[:5]


def _sleep(connection: socket.socket, seconds: float) -> None:
    """Wait, but no longer than the connection is open."""
    import select  # noqa: PLC0415  # only for servers without IDLE

    select.select([connection], [], [], seconds)
