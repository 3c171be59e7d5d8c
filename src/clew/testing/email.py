"""A mail provider for tests: an IMAP and an SMTP server on local ports, and one mailbox.

They speak the protocols as far as clients need them: IMAP4rev1 with UID and IDLE, SMTP with AUTH.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import email
import email.policy
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import make_msgid
from functools import partial

from clew.core.channels.replies import Attached

ADDRESS = "clew@example.org"
PASSWORD = "canary-mail-password"  # noqa: S105  # of a server that lives for a test
AUTHSERV = "mx.example.org"
ANN = "ann@example.com"


_Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Held:
    """A mail in the mailbox."""

    def __init__(self, uid: int, raw: bytes, at: datetime) -> None:
        self.uid, self.raw, self.at = uid, raw, at
        self.flags: set[str] = set()


class MailServer:
    """A provider with one mailbox. `sent` are the mails that were given to SMTP."""

    def __init__(self) -> None:
        self.password = PASSWORD
        self.box: list[Held] = []
        self.sent: list[EmailMessage] = []
        self.reactions: deque[str] = deque()
        self.validity = 1
        self.has_idle = True
        self._next = 1
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.imap = self.smtp = ""

    async def open(self) -> None:
        """Listen on two free ports."""
        for name in ("imap", "smtp"):
            serve = self._serve_imap if name == "imap" else self._serve_smtp
            server = await asyncio.start_server(
                partial(self._accept, serve), "127.0.0.1", 0, limit=1 << 26
            )
            self._servers.append(server)
            port = server.sockets[0].getsockname()[1]
            setattr(self, name, f"{name}://127.0.0.1:{port}")

    async def close(self) -> None:
        """Stop: new connections are refused."""
        for server in self._servers:
            server.close()
        await self.hang_up()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def hang_up(self) -> None:
        """Cut every connection."""
        for writer in tuple(self._open):
            writer.transport.abort()

    # --- people ---------------------------------------------------------------------------------

    async def put(self, raw: bytes, *, at: datetime | None = None) -> Held:
        """A mail arrives, byte for byte as given."""
        held = Held(self._next, raw, at or datetime.now(UTC))
        self._next += 1
        self.box.append(held)
        return held

    async def say(
        self,
        text: str,
        *,
        sender: str = f"Ann <{ANN}>",
        subject: str = "Hello",
        results: str | None = "dmarc=pass header.from=example.com",
        files: Sequence[Attached] = (),
        headers: Sequence[tuple[str, str]] = (),
        at: datetime | None = None,
    ) -> Held:
        """A person writes; the server adds its results on top."""
        mail = EmailMessage(policy=email.policy.SMTP)
        mail["From"], mail["To"], mail["Subject"] = sender, ADDRESS, subject
        if not any(name.lower() == "message-id" for name, _ in headers):
            mail["Message-ID"] = make_msgid(domain="example.com")
        for name, value in headers:
            mail[name] = value
        mail.set_content(text)
        for file in files:
            kind, _, sub = file.media_type.partition("/")
            mail.add_attachment(file.data, maintype=kind, subtype=sub, filename=file.name)
        raw = mail.as_bytes()
        if results is not None:
            raw = f"Authentication-Results: {AUTHSERV}; {results}\r\n".encode() + raw
        return await self.put(raw, at=at)

    async def renumber(self) -> None:
        """The mailbox gives new numbers to its mails, and forgets what was read."""
        self.validity += 1
        for held in self.box:
            held.uid = self._next
            self._next += 1
            held.flags.clear()
        await self.hang_up()

    # --- connections ----------------------------------------------------------------------------

    def _accept(
        self, serve: _Serve, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async def run() -> None:
            self._open.add(writer)
            try:
                await serve(reader, writer)
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                pass
            finally:
                self._open.discard(writer)
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- IMAP -----------------------------------------------------------------------------------

    async def _serve_imap(  # noqa: PLR0912  # a branch for each command
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        idle = " IDLE" if self.has_idle else ""
        told = 0

        async def say(line: str) -> None:
            writer.write(line.encode("latin-1") + b"\r\n")
            await writer.drain()

        await say(f"* OK [CAPABILITY IMAP4rev1{idle}] ready")
        while line := await reader.readline():
            tag, _, rest = line.decode("latin-1").strip().partition(" ")
            name, _, args = rest.partition(" ")
            if name.upper() == "UID":
                name, _, args = args.partition(" ")
            match name.upper():
                case "CAPABILITY":
                    await say(f"* CAPABILITY IMAP4rev1{idle}")
                case "LOGIN":
                    if not args.endswith(f'"{self.password}"'):
                        await say(f"{tag} NO [AUTHENTICATIONFAILED] Invalid credentials")
                        continue
                case "SELECT":
                    told = len(self.box)
                    await say(f"* {told} EXISTS")
                    await say("* FLAGS (\\Seen)")
                    await say(f"* OK [UIDVALIDITY {self.validity}] UIDs valid")
                case "SEARCH":
                    found = [each for each in self.box if self._matches(each, args)]
                    await say(" ".join(["* SEARCH", *(str(each.uid) for each in found)]))
                case "FETCH":
                    await self._fetch(writer, args)
                case "STORE":
                    for held in self._find(args.split(" ")[0]):
                        held.flags |= set(re.findall(r"\\\w+", args))
                case "IDLE":
                    await say("+ idling")
                    told = await self._idle(reader, writer, told)
                case "LOGOUT":
                    await say("* BYE")
                    await say(f"{tag} OK done")
                    return
                case "NOOP":
                    pass
                case _:
                    await say(f"{tag} BAD {name} is not here")
                    continue
            await say(f"{tag} OK done")

    def _find(self, numbers: str) -> list[Held]:
        wanted: set[int] = set()
        for each in numbers.split(","):
            first, _, last = each.partition(":")
            wanted |= set(range(int(first), int(last or first) + 1))
        return [each for each in self.box if each.uid in wanted]

    def _matches(self, held: Held, args: str) -> bool:
        since = re.search(r'SINCE "?(\d+-\w+-\d+)"?', args)
        day = since and datetime.strptime(since[1], "%d-%b-%Y").replace(tzinfo=UTC)
        unread = "UNSEEN" not in args or "\\Seen" not in held.flags
        return unread and (not day or held.at >= day)

    async def _fetch(self, writer: asyncio.StreamWriter, args: str) -> None:
        numbers, _, what = args.partition(" ")
        for held in self._find(numbers):
            head = held.raw.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
            day = held.at.strftime("%d-%b-%Y %H:%M:%S +0000")
            told = f"* {self.box.index(held) + 1} FETCH (UID {held.uid}".encode()
            if "RFC822.SIZE" in what:
                told += f' RFC822.SIZE {len(held.raw)} INTERNALDATE "{day}"'.encode()
            match = re.search(r"BODY\.PEEK(\[.*\])", what)
            if match:
                data = held.raw if match[1] == "[]" else head
                told += f" BODY{match[1]} {{{len(data)}}}\r\n".encode() + data
            writer.write(told + b")\r\n")
        await writer.drain()

    async def _idle(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, told: int
    ) -> int:
        """Tell about new mails until the client has enough."""
        done = asyncio.create_task(reader.readline())
        try:
            while not done.done():
                if len(self.box) != told:
                    told = len(self.box)
                    writer.write(f"* {told} EXISTS\r\n".encode())
                    await writer.drain()
                await asyncio.wait({done}, timeout=0.02)
        finally:
            done.cancel()
        return told

    # --- SMTP -----------------------------------------------------------------------------------

    async def _serve_smtp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def say(line: str) -> None:
            writer.write(line.encode() + b"\r\n")
            await writer.drain()

        await say("220 mail.example.org ESMTP")
        reaction = "take"
        while line := await reader.readline():
            name, _, args = line.decode("latin-1").strip().partition(" ")
            match name.upper():
                case "EHLO":
                    await say("250-mail.example.org")
                    await say("250 AUTH PLAIN")
                case "AUTH":
                    secret = base64.b64decode(args.partition(" ")[2]).split(b"\0")[-1]
                    is_right = secret == self.password.encode()
                    await say("235 ok" if is_right else "535 5.7.8 Bad credentials")
                case "MAIL":
                    reaction = self.reactions.popleft() if self.reactions else "take"
                    flood = reaction == "flood"
                    await say("421 4.7.0 Too many mails, try later" if flood else "250 ok")
                case "RCPT":
                    await say("550 5.1.1 No such user" if reaction == "refuse" else "250 ok")
                case "DATA":
                    await say("354 go on")
                    data = await reader.readuntil(b"\r\n.\r\n")
                    if reaction == "vanish":
                        writer.transport.abort()
                        return
                    data = data[:-3].replace(b"\r\n..", b"\r\n.")
                    mail = email.message_from_bytes(data, policy=email.policy.default)
                    assert isinstance(mail, EmailMessage)
                    self.sent.append(mail)
                    if reaction == "swallow":
                        writer.transport.abort()
                        return
                    await say("250 ok")
                case "QUIT":
                    await say("221 bye")
                    return
                case _:
                    await say("250 ok")


@asynccontextmanager
async def open_mail() -> AsyncIterator[MailServer]:
    """A provider for the time of the block."""
    server = MailServer()
    await server.open()
    try:
        yield server
    finally:
        await server.close()
