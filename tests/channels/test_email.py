"""E-mail through its real libraries, against a local IMAP and SMTP server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clew.channels.email import EmailChannel
from clew.channels.mail_reading import NotForUs, is_verified, part_history, read_from, read_mail
from clew.core.channels.replies import Attached, reply_to_peer
from clew.errors import ChannelRefused, ReplyDelayed
from clew.ports import Receive
from clew.testing.channel_contract import (
    ChannelContract,
    Listener,
    Reaction,
    Shown,
    keep_running,
    parcel_for,
    until,
)
from clew.testing.email import ADDRESS, ANN, AUTHSERV, PASSWORD, Held, MailServer, open_mail
from tests.patience import PATIENCE

HERE = reply_to_peer("email", "default", "dm", ANN)


def open_channel(server: MailServer) -> EmailChannel:
    return EmailChannel(
        ADDRESS, PASSWORD, imap=server.imap, smtp=server.smtp, authserv_id=AUTHSERV, watch=2
    )


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    async with open_mail() as server:
        yield server


@pytest.fixture
def channel(server: MailServer) -> EmailChannel:
    return open_channel(server)


class Ann:
    """`Platform`: a person who writes mails."""

    sender = ANN

    def __init__(self, server: MailServer) -> None:
        self.server, self.channel = server, open_channel(server)
        self._said: dict[str, Held] = {}

    @asynccontextmanager
    async def listening(self, receive: Receive) -> AsyncIterator[None]:
        async with keep_running(self.channel, receive):
            yield

    async def say(self, text: str, *, name: str, files: Sequence[Attached] = ()) -> None:
        self._said[name] = await self.server.say(text, files=files)

    async def say_again(self, name: str) -> None:
        await self.server.put(self._said[name].raw)

    async def is_acknowledged(self, name: str) -> bool:
        return "\\Seen" in self._said[name].flags

    def react(self, *reactions: Reaction) -> None:
        self.server.reactions.extend(reactions)

    def list_shown(self) -> list[Shown]:
        shown = []
        for mail in self.server.sent:
            body = mail.get_body(("plain",))
            files = [each.get_content() for each in mail.iter_attachments()]
            data = files[0].encode() if files and isinstance(files[0], str) else None
            text = "" if body is None else body.get_content().strip()
            shown.append(Shown(text, data or (files[0] if files else None)))
        return shown

    def count_typing(self) -> int:
        return 0

    async def disconnect(self) -> None:
        await self.server.hang_up()

    async def go_away(self) -> None:
        await self.server.close()


class TestEmailChannel(ChannelContract):
    @pytest.fixture
    async def platform(self, server: MailServer) -> Ann:
        return Ann(server)


# --- threads --------------------------------------------------------------------------------------


async def test_a_thread_is_found_by_ids_though_its_subject_changes(
    server: MailServer, channel: EmailChannel
) -> None:
    listener = Listener()
    async with keep_running(channel, listener):
        await server.say("one", subject="Обед\u3000завтра", headers=[("Message-ID", "<a@x.org>")])
        (first,) = await listener.wait_for(1)
        assert first.reply_to is not None
        await channel.send(parcel_for(first.reply_to, "Gladly."))
        own = str(server.sent[0]["Message-ID"])
        await server.say("two", subject="昼ご飯", headers=[("References", "<a@x.org>")])
        # A program that forgets all but the last mail.
        await server.say("three", subject="x", headers=[("In-Reply-To", own)])
        await server.say("four", subject="Обед завтра")
        messages = await listener.wait_for(4)

    threads = [each.arrival.thread for each in messages]
    assert threads[0] == threads[1] == threads[2] != threads[3]
    sent = server.sent[0]
    assert (sent["In-Reply-To"], sent["References"]) == ("<a@x.org>", "<a@x.org>")
    assert (sent["To"], sent["Subject"]) == (ANN, "Re: Обед завтра")
    assert sent["Auto-Submitted"] == "auto-replied"


async def test_a_subject_can_not_inject_a_header(server: MailServer, channel: EmailChannel) -> None:
    listener = Listener()
    evil = "=?utf-8?q?hi=0D=0ABcc:_everybody@example.org=0D=0A=0D=0Aboo?="
    raw = f"From: {ANN}\r\nSubject: {evil}\r\nMessage-ID: <a@x>\r\n\r\nhi".encode()
    async with keep_running(channel, listener):
        await server.put(raw)
        (message,) = await listener.wait_for(1)
        assert message.reply_to is not None
        await channel.send(parcel_for(message.reply_to, "ok"))

    assert server.sent[0]["Bcc"] is None
    assert "\n" not in str(server.sent[0]["Subject"])


# --- who wrote it ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "verified"),
    [
        (["mx.example.org; dmarc=pass header.from=example.com"], True),
        (["MX.Example.Org 1; spf=pass; DMARC=pass (p=none) header.from=Example.com"], True),
        (["mx.example.org; dkim=pass header.d=example.com header.s=k"], True),
        (["mx.example.org; dkim=pass header.i=@example.com; dmarc=none"], True),
        (["mx.example.org; dkim=pass header.d=evil.org"], False),
        (["mx.example.org; dkim=pass header.d=com"], False),
        (["mx.example.org; dkim=pass header.d=notexample.com"], False),
        (["mx.example.org; spf=pass smtp.mailfrom=example.com"], False),
        (["mx.example.org; dmarc=pass header.from=evil.org"], False),
        (["mx.example.org; dmarc=fail; dkim=pass header.d=example.com"], False),
        (["mx.example.org; dmarc=fail", "mx.example.org; dmarc=pass"], False),
        (["mx.example.org; spf=none", "mx.example.org; dmarc=pass"], False),
        (["mx.example.org; dmarc=pass", "mx.example.org; dmarc=fail"], False),
        (["evil.org; dmarc=pass"], False),
        (["mx.example.org.evil.org; dmarc=pass"], False),
        (["evil.org (mx.example.org); dmarc=pass"], False),
        (["mx.example.org; none (dmarc=pass)"], False),
        (["mx.example.org; spf=fail (; dmarc=pass header.from=example.com)"], False),
        (['mx.example.org; spf=fail reason="; dmarc=pass"'], False),
        (["mx.example.org; dmarc=pass (open"], False),
        (["mx.example.org; x=y dmarc=pass"], False),
        ([], False),
    ],
)
def test_only_the_topmost_results_of_the_configured_server_count(
    headers: list[str], verified: bool
) -> None:
    assert is_verified(headers, authserv_id="mx.example.org", domain="example.com") is verified
    assert not is_verified(headers, authserv_id="", domain="example.com")


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("Ann <ann@example.com>", ANN),
        ("ann@example.com (Ann)", ANN),
        ('"boss@example.org" <Ann@Example.com>', ANN),
        ('"a, b" <ann@example.com>', ANN),
        ("=?utf-8?q?boss=40x.org_=3Cboss=40x.org=3E?= <ann@example.com>", ANN),
        ("boss@example.org <ann@example.com>", None),
        ("<boss@example.org> <ann@example.com>", None),
        ("boss@example.org, ann@example.com", None),
        ("group: ann@example.com;", None),
        ("ann@example.com\x00@evil.org", None),
        ("ann", None),
        ("", None),
    ],
)
def test_a_sender_is_exactly_one_address(value: str, address: str | None) -> None:
    found = read_from(value)
    assert (found and found[0]) == address


async def test_a_forged_mail_is_a_strangers(server: MailServer, channel: EmailChannel) -> None:
    listener = Listener()
    forged = ("Authentication-Results", f"{AUTHSERV}; dmarc=pass header.from=example.com")
    async with keep_running(channel, listener):
        await server.say("a", results="dmarc=fail header.from=example.com", headers=[forged])
        await server.say("b", results=None)
        await server.say("c")
        messages = await listener.wait_for(3)

    assert [each.is_verified for each in messages] == [False, False, True]
    assert [each.sender.id for each in messages] == [f"{ANN} (unverified)"] * 2 + [ANN]
    assert not any(each.attended for each in messages)


TOP = b"Authentication-Results: mx.example.org; dmarc=pass\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"From: ann@example.com\r\nFrom: bob@example.com\r\n",
        b"From: clew@example.org\r\n",
        b"From: MAILER-DAEMON@example.com\r\n",
        b"From: ann@example.com\r\nAuto-Submitted: auto-replied\r\n",
        b"From: ann@example.com\r\nPrecedence: bulk\r\n",
        b"From: ann@example.com\r\nList-Id: <list.example.com>\r\n",
        b"From: ann@example.com\r\nReturn-Path: <>\r\n",
        b"From: ann@example.com\r\nContent-Type: multipart/report; boundary=b\r\n",
        b"Subject: of nobody\r\n",
    ],
)
def test_programs_lists_bounces_and_nobody_are_not_answered(head: bytes) -> None:
    with pytest.raises(NotForUs):
        read_mail(TOP + head + b"\r\nhi", own=ADDRESS, authserv_id=AUTHSERV)


# --- what it says ---------------------------------------------------------------------------------


def read(body: bytes, *head: bytes) -> Any:
    raw = b"\r\n".join([b"From: ann@example.com", *head, b"", body])
    return read_mail(raw, own=ADDRESS, authserv_id=AUTHSERV)


def test_a_mail_of_html_only_becomes_text() -> None:
    page = b"<style>p{}</style><p>Hi &amp; bye</p><script>x</script><ul><li>one<li>two</ul>"
    assert read(page, b"Content-Type: text/html").text == "Hi & bye\n- one\n- two"


def test_wrong_charsets_are_read_all_the_same() -> None:
    assert read("äö".encode(), b"Content-Type: text/plain; charset=nonsense").text == "äö"
    assert read(b"\xe4\xf6", b"Content-Type: text/plain; charset=utf-8").text == "äö"
    assert read(b"x", b"Subject: =?nonsense?q?a?=").subject


def test_deep_and_many_parts_are_bounded() -> None:
    deep = b"x"
    for number in range(400):
        mark = b"b%d" % number
        kind = b"Content-Type: multipart/mixed; boundary=" + mark
        deep = kind + b"\r\n\r\n--" + mark + b"\r\n" + deep + b"\r\n--" + mark + b"--"
    raw = b"From: ann@example.com\r\n" + deep
    assert "can't be read" in read_mail(raw, own=ADDRESS, authserv_id=AUTHSERV).text
    part = b"--b\r\nContent-Type: image/png\r\n\r\nx\r\n"
    wide = read(part * 5_000 + b"--b--", b"Content-Type: multipart/mixed; boundary=b")
    assert len(wide.files) == 20


def test_a_file_name_has_no_path() -> None:
    body = b'--b\r\nContent-Disposition: attachment; filename="../../etc/x.sh"\r\n\r\nx\r\n--b--'
    (file,) = read(body, b"Content-Type: multipart/mixed; boundary=b").files
    assert file.name == "x.sh"


@pytest.mark.parametrize(
    ("text", "new", "quoted"),
    [
        ("Yes.\n\nOn Monday, Clew wrote:\n> May I?\n> Please.", "Yes.", "May I?\nPlease."),
        ("> May I?\nYes.\n> And this?\nNo.", "> May I?\nYes.\n> And this?\nNo.", ""),
        ("Ok\n\n-----Original Message-----\nFrom: x", "Ok", "-----Original Message-----\nFrom: x"),
        ("> only a quote", "> only a quote", ""),
        ("Hi\n-- \nAnn, CEO", "Hi", ""),
    ],
)
def test_history_below_the_text_is_a_quote(text: str, new: str, quoted: str) -> None:
    assert part_history(text) == (new, quoted)


# --- what goes wrong ------------------------------------------------------------------------------


async def test_a_mailbox_that_renumbers_keeps_the_identities(
    server: MailServer, channel: EmailChannel
) -> None:
    listener = Listener()
    async with keep_running(channel, listener):
        held = await server.say("once")
        await until(lambda: "\\Seen" in held.flags)
        await server.renumber()
        await until(lambda: "\\Seen" in held.flags)
        await server.say("now")
        await until(lambda: listener.messages[-1].text == "now")

    assert len({each.external_id for each in listener.messages if each.text == "once"}) == 1
    assert len({each.position for each in listener.messages if each.text == "once"}) == 1


async def test_what_is_older_than_a_week_is_left_alone(
    server: MailServer, channel: EmailChannel
) -> None:
    listener = Listener()
    old = await server.say("old", at=datetime.now(UTC) - timedelta(days=9))
    async with keep_running(channel, listener):
        await server.say("new")
        await listener.wait_for(1)

    assert [each.text for each in listener.messages] == ["new"]
    assert not old.flags


async def test_a_revoked_password_is_said_and_never_shown(
    server: MailServer, channel: EmailChannel
) -> None:
    server.password = "another"
    with pytest.raises(ChannelRefused) as raised:
        async with asyncio.timeout(PATIENCE):
            await channel.run(Listener())
    with pytest.raises(ReplyDelayed) as delayed:
        await channel.send(parcel_for(HERE, "hi"))

    assert delayed.value.stops == "account"
    for error in (raised.value, delayed.value):
        assert "revoked" in str(error)
        assert PASSWORD not in str(error)


async def test_a_line_that_is_cut_after_sending_leaves_it_uncertain(
    server: MailServer, channel: EmailChannel
) -> None:
    server.reactions.append("swallow")
    with pytest.raises(ConnectionError):
        await channel.send(parcel_for(HERE, "hi"))
    assert len(server.sent) == 1


async def test_a_check_names_the_servers_whose_results_there_are(
    server: MailServer, channel: EmailChannel
) -> None:
    assert "They have none" in (await channel.check()).problems[0]
    await server.say("hi")
    found = await channel.check()
    assert (found.who, found.problems) == (ADDRESS, ())
