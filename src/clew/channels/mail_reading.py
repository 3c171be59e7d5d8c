"""What a mail says, who wrote it, and whether the receiving server vouches for that.

Pure: bytes in, values out. Whoever sends a mail chooses every byte of it, so nothing here trusts a
header but the topmost `Authentication-Results` of the server that the owner has configured.
"""

from __future__ import annotations

import email
import email.policy
import hashlib
import html
import re
from collections.abc import Iterator, Sequence
from email.header import decode_header
from email.message import Message
from html.parser import HTMLParser
from typing import Final, NamedTuple

from clew.core.channels.replies import Attached
from clew.core.text import cut, strip_controls

MOST_PARTS: Final = 200
MOST_FILES: Final = 20
DEEPEST: Final = 100
"""Parts and files that are looked at, and boundaries that a mail may declare."""
LONGEST_TEXT: Final = 200_000
LONGEST_SUBJECT: Final = 200
LONGEST_NAME: Final = 100
MOST_REFERENCES: Final = 20

UNREADABLE: Final = "[This mail can't be read: it has too many parts inside of each other.]"

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
ADDRESS: Final = re.compile(rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})+")
_ID: Final = re.compile(r"<[^<>\s\x00-\x1f\x7f-\uffff]{1,250}>")
_RESULT: Final = re.compile(r"([a-z][a-z0-9-]*)(?:/[0-9]+)?=([a-z]+)(?=\s|$)")
_PROPERTY: Final = re.compile(r"(?<!\S)([a-z]+\.[a-z0-9_-]+)=(\S+)")
_ROBOTS: Final = ("mailer-daemon", "postmaster", "no-reply", "noreply", "donotreply")


class Mail(NamedTuple):
    """A mail as its reader sees it. `is_verified`: the server says that it is its sender's.

    `references` are the ids of the mails before it, oldest first. `quoted` is the history below
    the text, without its marks.
    """

    sender: str
    name: str | None
    is_verified: bool
    subject: str
    message_id: str
    references: tuple[str, ...]
    text: str
    quoted: str
    files: tuple[Attached, ...]


class NotForUs(Exception):
    """A mail that must not be answered: of a list, a program, ourselves, or of nobody."""


def read_mail(raw: bytes, *, own: str, authserv_id: str) -> Mail:
    """Read a mail to the address `own`; `NotForUs` if it must never be answered."""
    head = email.message_from_bytes(_head_of(raw), policy=email.policy.compat32)
    froms = head.get_all("From") or []
    found = read_from(_text(froms[0])) if len(froms) == 1 else None
    if found is None:
        raise NotForUs("it has no sender, or several")
    sender, name = found
    refuse_robots(head, sender, own)
    text, quoted, files = _read_body(raw)
    given = [_text(each) for each in head.get_all("Message-ID") or []]
    own_id = next(iter(_ID.findall(given[0])), None) if given else None
    return Mail(
        sender=sender,
        name=name,
        is_verified=is_verified(
            [_text(each) for each in head.get_all("Authentication-Results") or []],
            authserv_id=authserv_id,
            domain=sender.rpartition("@")[2],
        ),
        subject=_read_words(_text(head.get("Subject") or ""), LONGEST_SUBJECT),
        message_id=own_id or f"<{hashlib.sha256(raw).hexdigest()[:32]}@no-message-id.invalid>",
        references=_list_references(head),
        text=text,
        quoted=quoted,
        files=files,
    )


def _head_of(raw: bytes) -> bytes:
    end = re.search(rb"\r?\n\r?\n", raw)
    return raw if end is None else raw[: end.end()]


def _text(value: object) -> str:
    """A header as text; bytes that are not ASCII become question marks of their kind."""
    return str(value).encode("utf-8", "replace").decode("utf-8", "replace")


def _list_references(head: Message) -> tuple[str, ...]:
    found: list[str] = []
    for name in ("References", "In-Reply-To"):
        for value in head.get_all(name) or []:
            found += [each for each in _ID.findall(_text(value)[:10_000]) if each not in found]
    return tuple(found[:1] + found[1:][-MOST_REFERENCES:])


# --- who wrote it -------------------------------------------------------------------------------


def read_from(value: str) -> tuple[str, str | None] | None:
    """The address and the name of a From header; None unless it names exactly one person.

    It is read before its encoded words are: a name can't smuggle in an address.
    """
    shown, bare = _scan(value)
    if shown is None or bare is None:
        return None
    if "<" in bare:
        phrase, _, rest = bare.partition("<")
        address, closed, after = rest.partition(">")
        if not closed or after.strip() or "," in phrase or "@" in phrase:
            return None
        name = _read_words(shown.partition("<")[0].replace('"', " "), LONGEST_NAME)
    else:
        address, name = bare, ""
    address = address.strip()
    if ADDRESS.fullmatch(address) is None or len(address) > 254:
        return None
    return address.lower(), name or None


def _scan(value: str) -> tuple[str | None, str | None]:
    """A header without its comments, and without its quoted texts too; None if one is open."""
    shown: list[str] = []
    bare: list[str] = []
    depth, quoted, escaped = 0, False, False
    for each in value:
        if escaped:
            escaped = False
            if not depth:
                shown.append(each)
            continue
        if each == "\\" and (depth or quoted):
            escaped = True
        elif quoted:
            quoted = each != '"'
            shown.append(" " if each == '"' else each.replace("<", " "))
        elif depth or each == "(":
            depth += (each == "(") - (each == ")")
        elif each == '"':
            quoted = True
            bare.append(" _ ")
            shown.append(" ")
        else:
            shown.append(each)
            bare.append(each)
    if depth or quoted or escaped:
        return None, None
    return "".join(shown), "".join(bare)


def is_verified(headers: Sequence[str], *, authserv_id: str, domain: str) -> bool:
    """Whether the configured server says that a mail is of this domain.

    Headers are in the order of the mail, the newest first. Only the topmost of that server can
    say yes, as a sender can write more of them below it; every one can say no.
    """
    own = [each for each in map(_parse_results, headers) if each and each[0] == authserv_id.lower()]
    if not authserv_id or not own:
        return False
    dmarc = [result for _, found in own for method, result, _ in found if method == "dmarc"]
    if any(each not in ("pass", "none") for each in dmarc):
        return False
    for method, result, about in own[0][1]:
        if result != "pass":
            continue
        if method == "dmarc" and about.get("header.from", domain) == domain:
            return True
        if method == "dkim" and _is_aligned(about, domain):
            return True
    return False


def _is_aligned(about: dict[str, str], domain: str) -> bool:
    """Whether a signature is of the domain of the sender, or of one above it."""
    signer = about.get("header.d") or about.get("header.i", "").rpartition("@")[2]
    return "." in signer and (domain == signer or domain.endswith(f".{signer}"))


def _parse_results(header: str) -> tuple[str, list[tuple[str, str, dict[str, str]]]] | None:
    """The server and its results: the method, the result, and what it is about."""
    _, bare = _scan(" ".join(header.split()))
    if bare is None:
        return None
    first, *rest = bare.lower().split(";")
    server = first.split()
    if not server:
        return None
    found = []
    for each in rest:
        match = _RESULT.match(each.strip())
        if match is not None:
            found.append((match[1], match[2], dict(_PROPERTY.findall(each))))
    return server[0], found


def refuse_robots(head: Message, sender: str, own: str) -> None:
    """`NotForUs` for our own mails and those of programs: answers could go on for ever."""
    if sender == own.lower() or sender.partition("@")[0] in _ROBOTS:
        raise NotForUs("it is our own, or of a program")
    submitted = _text(head.get("Auto-Submitted") or "no").split(";")[0].strip().lower()
    precedence = _text(head.get("Precedence") or "").strip().lower()
    if submitted != "no" or precedence in ("bulk", "list", "junk", "auto_reply"):
        raise NotForUs("it was sent by a program")
    if any(name.lower().startswith(("list-", "x-autoreply", "x-autorespond")) for name in head):
        raise NotForUs("it is of a list, or an automatic answer")
    if _text(head.get("Return-Path") or "x").strip() == "<>" or (
        head.get_content_type() == "multipart/report"
    ):
        raise NotForUs("it is about a mail that could not be delivered")


def _read_words(value: str, most: int) -> str:
    """A text of a header, decoded, in one line."""
    pieces = []
    try:
        for data, charset in decode_header(value.replace("\r", " ").replace("\n", " ")):
            pieces.append(data if isinstance(data, str) else _decode(data, charset or "utf-8"))
    except (ValueError, LookupError):
        pieces = [value]
    return cut(" ".join(strip_controls("".join(pieces), keep_newlines=False).split()), most)


# --- what it says -------------------------------------------------------------------------------


def _read_body(raw: bytes) -> tuple[str, str, tuple[Attached, ...]]:
    if len(re.findall(rb"(?i)boundary\s*=", raw)) > DEEPEST:
        return UNREADABLE, "", ()
    try:
        whole = email.message_from_bytes(raw, policy=email.policy.compat32)
        parts = list(_leaves(whole))
    except RecursionError:
        return UNREADABLE, "", ()
    plain: list[str] = []
    rich: list[str] = []
    files: list[Attached] = []
    left = 0
    for part in parts:
        kind = part.get_content_type()
        is_file = part.get_content_disposition() == "attachment" or bool(part.get_filename())
        if not is_file and kind in ("text/plain", "text/html"):
            data = part.get_payload(decode=True)
            said = _decode(data if isinstance(data, bytes) else b"", _charset_of(part))
            (plain if kind == "text/plain" else rich).append(said)
        elif len(files) < MOST_FILES:
            files.append(_read_file(part, kind))
        else:
            left += 1
    text = "\n".join(plain)
    if not text.strip():
        text = to_text("\n".join(rich)[: 5 * LONGEST_TEXT])
    text, quoted = part_history(strip_controls(text.replace("\r\n", "\n"))[:LONGEST_TEXT])
    if left:
        text = f"{text}\n[{left} more files were left out.]".lstrip()
    return text, quoted, tuple(files)


def _leaves(whole: Message) -> Iterator[Message]:
    """The parts that have no parts; a forwarded mail is a file. Only a bounded number."""
    waiting = [whole]
    seen = 0
    while waiting and seen < MOST_PARTS:
        part = waiting.pop(0)
        seen += 1
        inside = part.get_payload()
        if part.get_content_maintype() == "multipart" and isinstance(inside, list):
            waiting[:0] = [each for each in inside if isinstance(each, Message)]
        else:
            yield part


def _read_file(part: Message, kind: str) -> Attached:
    inside = part.get_payload()
    if isinstance(inside, list):
        data = b"".join(each.as_bytes() for each in inside if isinstance(each, Message))
    else:
        decoded = part.get_payload(decode=True)
        data = decoded if isinstance(decoded, bytes) else b""
    name = _read_words(str(part.get_filename() or ""), LONGEST_NAME)
    name = re.split(r"[/\\]", name)[-1].strip(". ")
    if not name and kind == "message/rfc822":
        name = "forwarded.eml"
    return Attached(kind, data, name or None)


def _charset_of(part: Message) -> str:
    try:
        return part.get_content_charset() or "utf-8"
    except (LookupError, ValueError, UnicodeError):
        return "utf-8"


def _decode(data: bytes, charset: str) -> str:
    """Bytes as text, whatever their charset is said to be."""
    for name in (charset, "utf-8"):
        try:
            return data.decode(name)
        except (LookupError, ValueError):
            continue
    return data.decode("latin-1")


_WROTE: Final = re.compile(
    r"^.{0,300}(?:wrote|schrieb|écrit|escribió|написал|写道).{0,100}[:\uff1a]$"
)
_ORIGINAL: Final = re.compile(
    r"^(?:-{3,} ?(?:Original Message|Ursprüngliche Nachricht|Forwarded message) ?-{3,}|_{20,})$",
    re.IGNORECASE,
)


def part_history(text: str) -> tuple[str, str]:
    """What is new in a mail, and the history that is quoted below it.

    Quotes with answers between them stay where they are, and a mail that is all quote stays whole.
    """
    lines = [each.rstrip() for each in text.strip().split("\n")]
    end = len(lines)
    for number, line in enumerate(lines):
        if _ORIGINAL.match(line) and number:
            end = number
            break
    history = lines[end:]
    if not history:
        while end and (not lines[end - 1] or lines[end - 1].startswith(">")):
            end -= 1
        history = lines[end:]
        if any(each.startswith(">") for each in history):
            for back in (1, 2):  # its introduction may be broken into two lines
                said = " ".join(lines[max(0, end - back) : end])
                if end >= back and _WROTE.match(said):
                    end -= back
                    break
        else:
            history = []
            end = len(lines)
    new = "\n".join(lines[:end]).strip()
    new = re.split(r"(?m)^-- ?$", new)[0].strip() or new
    if not new:
        return text.strip(), ""
    quoted = "\n".join(re.sub(r"^(?:> ?)+", "", each) for each in history).strip()
    return new, quoted


class _Reader(HTMLParser):
    """Collects the text of a page: its lines, and a mark before what is quoted."""

    BLOCKS: Final = ("p", "div", "br", "tr", "li", "h1", "h2", "h3", "h4", "blockquote", "table")
    HIDDEN: Final = ("script", "style", "head", "title", "template")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = [""]
        self._hidden = 0
        self._quotes = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002  # as its class calls it
        """See `HTMLParser`."""
        self._hidden += tag in self.HIDDEN
        if tag in self.BLOCKS:
            self._break()
        self._quotes += tag == "blockquote"
        if tag == "li":
            self.lines[-1] += "- "

    def handle_endtag(self, tag: str) -> None:
        """See `HTMLParser`."""
        self._hidden = max(0, self._hidden - (tag in self.HIDDEN))
        if tag in self.BLOCKS:
            self._break()
        self._quotes = max(0, self._quotes - (tag == "blockquote"))

    def handle_data(self, data: str) -> None:
        """See `HTMLParser`."""
        if self._hidden:
            return
        if self._quotes and not self.lines[-1]:
            self.lines[-1] = "> "
        self.lines[-1] += re.sub(r"\s+", " ", data)

    def _break(self) -> None:
        if self.lines[-1].strip():
            self.lines.append("")


def to_text(page: str) -> str:
    """The text of an HTML mail, without its markup and what it hides."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    lines = [html.unescape(each).strip() for each in reader.lines]
    return "\n".join(each for each in lines if each not in ("", ">"))
