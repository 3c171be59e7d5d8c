"""Session keys, of directories (`cli:api`) and of channels, and session ids."""

from __future__ import annotations

import hashlib
import re
import unicodedata
import uuid
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, Literal

import msgspec

from clew.core.session import Session
from clew.core.text import strip_controls
from clew.errors import InvalidInput

PREFIX: Final = "cli:"
ROOT: Final = "/"
"""Stands for the root directory, which has no name; no other directory can have this name."""
LONGEST: Final = 100
"""Longest spelling of a name; a longer one keeps its beginning and gets a digest."""
MAX_KEY: Final = 500
"""Longest key that a person may choose."""
DIGITS: Final = (6, 12, 64)
"""Digits of the digest behind `~`: more than six only where another directory has the same six."""

_MARKS: Final = "%:~…/"
_HIDDEN: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
_ESCAPES: Final = re.compile("(?:%[0-9a-f]{2})+")
_KEY: Final = re.compile(
    rf"{PREFIX}(?P<name>/|[^:~/]+)(?:~(?P<digits>[0-9a-f]{{6,64}}))?(?::(?P<ms>[0-9]{{1,16}}))?"
)

_ASK_KEY: Final = re.compile(rf"{PREFIX}(?:/|[^:~/]+):ask:[0-9]{{1,16}}")

Scope = Literal["cwd", "git"]

PeerKind = Literal["dm", "group", "channel"]
KeyKind = Literal["main", "dm", "group", "channel", "cron", "hook", "node", "subagent"]

CASED: Final = ("matrix", "signal")
"""Channels whose ids differ by case."""

LONGEST_WORD: Final = 64

_WORD: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_MARKER: Final = re.compile(r"(?:\A|(?<=:))t(?=(?:opic|hread)(?::|\Z))")
_ESCAPE: Final = re.compile(r"%(?=74|25)")
_SUFFIX: Final = re.compile(r"(?P<base>.*?)(?::(?P<mark>topic|thread):(?P<id>.+))?", re.DOTALL)
_CHANNEL_KEY: Final = re.compile(
    r"agent:(?P<agent>[a-z0-9][a-z0-9_-]{0,63}):(?P<rest>.+)", re.DOTALL
)
_PEERED: Final = re.compile(
    r"(?P<channel>[a-z0-9][a-z0-9_-]{0,63}):"
    r"(?:(?P<account>(?:%|(?!(?:dm|group|channel):))[a-z0-9][a-z0-9_-]{0,63}):(?=dm:))?"
    r"(?P<kind>dm|group|channel):(?P<id>.+)",
    re.DOTALL,
)
_BARE: Final = re.compile(r"(?P<kind>dm|cron|hook|subagent):(?P<id>.+)", re.DOTALL)
_RESERVED: Final = ("dm", "group", "channel")

Purpose = Literal["resume", "read", "change"]
"""Why a session is looked up; decides how far to guess (`core.resume.PURPOSES`)."""

SHORTEST = 8
"""Ids are never shown shorter than this."""

SHORTEST_ENDING = 4
"""Fewer digits than this are not matched with the end of ids: they would fit too many."""

_HEX = re.compile(r"[0-9a-f]{1,32}\Z")
_CUTS = (8, 12, 16, 20)


# --- spelling ---------------------------------------------------------------------------------
class CliKey(msgspec.Struct, frozen=True):
    """The parts of a directory's key. `whole` is False where a long name was shortened."""

    name: str
    digits: str | None = None
    ms: int | None = None
    whole: bool = True


def cli_key(basename: str) -> str:
    """The key of a directory with this name: `cli:api`."""
    return f"{PREFIX}{spell_name(basename)}"


def qualified_key(basename: str, path: str, digits: int = DIGITS[0]) -> str:
    """The key of a directory if another one has the key of its name: `cli:api~1f0c3a`."""
    return f"{cli_key(basename)}~{_digest(path)[:digits]}"


def new_key(base: str, ms: int) -> str:
    """The key of a session that `/new` begins: `cli:api:1773484320000`."""
    return f"{base}:{ms}"


def ask_key(basename: str, ms: int) -> str:
    """The key of a session that `clew ask` begins: `cli:api:ask:1773484320000`."""
    return f"{cli_key(basename)}:ask:{ms}"


def is_ask_key(key: str) -> bool:
    """Whether `clew ask` began the session of this key. A fork has a key of its own."""
    return _ASK_KEY.fullmatch(key) is not None


def parse_cli_key(key: str) -> CliKey | None:
    """Parse a directory's key; None for other keys."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    spelled, ms = match["name"], match["ms"]
    name = spelled if spelled == ROOT else _read_name(spelled)
    if name is None:
        return None
    return CliKey(name, match["digits"], int(ms) if ms else None, "…" not in spelled)


def check_key(typed: str) -> str:
    """A key that a person chose, stripped, or `InvalidInput`."""
    key = typed.strip()
    if not key:
        raise InvalidInput("The session key is empty. Give it a name, such as --key work.")
    if len(key) > MAX_KEY:
        raise InvalidInput(f"A session key can have {MAX_KEY} characters; this one has {len(key)}.")
    if strip_controls(key, keep_newlines=False) != key:
        raise InvalidInput("A session key can't have control characters in it.")
    return key


def spell_name(basename: str) -> str:
    """A directory's name as part of a key, different for different names.

    Ordinary names stay as they are. Characters that mean something in keys, are invisible, or are
    white space at an edge are escaped as in URLs (`%3a`). `/` is the root.
    """
    if not basename:
        return ROOT
    edge = len(basename) - len(basename.rstrip())
    start, end = len(basename) - len(basename.lstrip()), len(basename) - edge
    spelled = "".join(
        _escape(each) if index < start or index >= end or _is_odd(each) else each
        for index, each in enumerate(basename)
    )
    if len(spelled) <= LONGEST:
        return spelled
    # An escape is never cut in two: its remains are removed too.
    return re.sub("%[0-9a-f]?$", "", spelled[: LONGEST - 13]) + f"…{_digest(basename)[:12]}"


def _read_name(spelled: str) -> str | None:
    try:
        return _ESCAPES.sub(
            lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "surrogatepass"),
            spelled.partition("…")[0],
        )
    except UnicodeDecodeError:
        # A shortened name may end inside a character; no other escape was ever written like this.
        return spelled.partition("…")[0] if "…" in spelled else None


def _is_odd(character: str) -> bool:
    return character in _MARKS or unicodedata.category(character) in _HIDDEN


def _escape(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- places -----------------------------------------------------------------------------------
class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """A directory's identity, which survives a rename. `born` in nanoseconds, where it is known."""

    device: int
    inode: int
    born: int | None = None

    def is_same(self, other: Identity) -> bool:
        """Whether both are one directory.

        Inodes of deleted directories are reused, so times of birth that are known for both must
        agree.
        """
        if (self.device, self.inode) != (other.device, other.inode):
            return False
        return self.born is None or other.born is None or self.born == other.born


class Place(msgspec.Struct, frozen=True):
    """Where a terminal is: the directory, and the project that it stands for.

    The project is the directory itself, or with scope `git` the root of its repository; name and
    identity are those of the project.
    """

    cwd: str
    project: str
    basename: str
    identity: Identity
    scope: Scope = "cwd"

    @property
    def facts(self) -> dict[str, Any]:
        """What a session's metadata keeps under `directory`."""
        facts: dict[str, Any] = msgspec.to_builtins(self.identity)
        return facts

    def is_home_of(self, session: Session) -> bool:
        """Whether a session belongs to this place."""
        return home_of(session, self.scope) == self.project


def here_filter(place: Place) -> dict[str, Any]:
    """The filter for the sessions of a place: its project, or the directory itself."""
    return {"project": place.project} if place.scope == "git" else {"cwd": place.cwd}


def home_of(session: Session, scope: Scope) -> str | None:
    """The directory that a session belongs to; None for sessions of channels."""
    if scope == "git" and session.project is not None:
        return session.project
    return session.cwd


def recorded_identity(session: Session) -> Identity | None:
    """The identity of the session's directory when the session was made."""
    try:
        return msgspec.convert(session.metadata["directory"], Identity)
    except (KeyError, msgspec.ValidationError):
        return None


# --- choosing ---------------------------------------------------------------------------------
class Claim(msgspec.Struct, frozen=True):
    """Who uses a key: nothing, a session without a directory, or the session of a directory.

    `recorded` is the identity of that directory when the session was made, `present` the identity
    of its path now (None if the path does not exist).
    """

    key: str
    taken: bool = False
    directory: str | None = None
    recorded: Identity | None = None
    present: Identity | None = None


Standing = Literal["free", "ours", "moved", "theirs"]


class KeyDecision(msgspec.Struct, frozen=True):
    """The key a directory uses, and why: it already had it, it was free, or it moved with it."""

    key: str
    standing: Standing


def candidate_keys(place: Place) -> Iterator[str]:
    """The keys that a place may get, the simplest first."""
    yield cli_key(place.basename)
    for digits in DIGITS:
        yield qualified_key(place.basename, place.project, digits)


def weigh_claim(place: Place, claim: Claim) -> Standing:
    """Whether a place may use a key.

    Another directory keeps its key while it exists, and also when it is gone (its disk may not be
    mounted today), unless the same device and inode prove that it is this one.
    """
    if not claim.taken:
        return "free"
    if claim.directory is None or claim.directory == place.project:
        return "ours"
    if claim.present is not None:
        return "ours" if claim.present.is_same(place.identity) else "theirs"
    if claim.recorded is not None and claim.recorded.is_same(place.identity):
        return "moved"
    return "theirs"


def choose_cli_key(place: Place, claims: Sequence[Claim]) -> KeyDecision | None:
    """Choose the key of a place among its candidates; None if other directories have them all.

    A key that it already has comes first, then one that moved with the directory, then the first
    free one.
    """
    standings = [(claim.key, weigh_claim(place, claim)) for claim in claims]
    for wanted in ("ours", "moved", "free"):
        for key, standing in standings:
            if standing == wanted:
                return KeyDecision(key, standing)
    return None


class ChannelKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """The parts of a key of the gateway."""

    agent: str
    kind: KeyKind = "main"
    id: str = "main"
    channel: str | None = None
    account: str | None = None
    topic: str | None = None
    thread: str | None = None


def normalise_word(text: str) -> str:
    """An agent's, account's or channel's id: small letters, digits, `_` and `-`; may be empty."""
    word = text.strip().lower()
    if _WORD.fullmatch(word):
        return word
    return re.sub(r"[^a-z0-9_-]+", "-", word).strip("-_")[:LONGEST_WORD].rstrip("-_")


def normalise_id(text: str, channel: str | None = None) -> str:
    """A platform's id, trimmed; case counts only where the platform says so."""
    trimmed = text.strip()
    return trimmed if channel in CASED else trimmed.lower()


def format_key(key: ChannelKey) -> str:
    """The key as a text."""
    identity = _spell(key.id)
    match key.kind:
        case "main":
            rest = identity
        case "node":
            rest = f"node-{identity}"
        case "cron" | "hook" | "subagent":
            rest = f"{key.kind}:{identity}"
        case _:
            account = key.account and f"{_spell_account(key.account)}:"
            rest = f"{key.channel}:{account or ''}" if key.channel else ""
            rest += f"{key.kind}:{identity}"
    if key.topic is not None:
        rest += f":topic:{key.topic}"
    elif key.thread is not None:
        rest += f":thread:{key.thread}"
    return f"agent:{key.agent}:{rest}"


def parse_key(text: str) -> ChannelKey | None:
    """Parse a key of the gateway; None for those of directories and other surfaces."""
    whole = _CHANNEL_KEY.fullmatch(text)
    if whole is None:
        return None
    suffix = _SUFFIX.fullmatch(whole["rest"])
    if suffix is None or not suffix["base"]:
        return None
    mark, rest = suffix["mark"], suffix["base"]
    topic = suffix["id"] if mark == "topic" else None
    thread = suffix["id"] if mark == "thread" else None
    agent = whole["agent"]
    if peered := _PEERED.fullmatch(rest):
        account = peered["account"]
        return ChannelKey(
            agent,
            peered["kind"],  # type: ignore[arg-type]
            _read(peered["id"]),
            peered["channel"],
            account.removeprefix("%") if account else None,
            topic,
            thread,
        )
    if bare := _BARE.fullmatch(rest):
        return ChannelKey(agent, bare["kind"], _read(bare["id"]), None, None, topic, thread)  # type: ignore[arg-type]
    if rest.startswith("node-") and rest != "node-":
        return ChannelKey(
            agent, "node", _read(rest.removeprefix("node-")), None, None, topic, thread
        )
    return (
        None if ":" in rest else ChannelKey(agent, "main", _read(rest), None, None, topic, thread)
    )


def complete_key(text: str, *, agent: str = "main", channel: str | None = None) -> str:
    """Complete a key from a request: `cron:backup`, `group:-100` and so on get an agent."""
    key = text.strip()
    if key.startswith(("cron:", "hook:", "node-", "subagent:")):
        return f"agent:{agent}:{key}"
    if key.startswith("group:"):
        identity = re.sub(r"\A(?:group:)+", "", key)
        return format_key(
            ChannelKey(agent, "group", normalise_id(identity, channel), channel or "unknown")
        )
    return key


def _spell_account(account: str) -> str:
    """Escape an account that is named like a kind of peer."""
    return f"%{account}" if account in _RESERVED else account


def _spell(identity: str) -> str:
    """Escape an id, so that no topic or thread can be read in it."""
    return _MARKER.sub("%74", _ESCAPE.sub("%25", identity))


def _read(spelled: str) -> str:
    return re.sub("%74|%25", lambda match: "t" if match[0] == "%74" else "%", spelled)


def new_id() -> str:
    """A fresh random id (UUIDv4: random from its first character, so short prefixes are unique)."""
    return str(uuid.uuid4())


def is_id(text: str) -> bool:
    """Whether this is a whole id in its one stored spelling."""
    return len(text) == 36 and id_prefix(text) == text


def id_prefix(typed: str) -> str | None:
    """The stored spelling of a typed beginning of an id, or None if it can't be one.

    Case and hyphens don't matter: `550E8400e29b` is `550e8400-e29b`.
    """
    digits = typed.strip().lower().replace("-", "")
    if not _HEX.match(digits):
        return None
    edges = [0, *(cut for cut in _CUTS if cut < len(digits)), len(digits)]
    return "-".join(digits[a:b] for a, b in pairwise(edges))


def id_ending(typed: str) -> str | None:
    """The stored spelling of a typed end of an id, or None if it can't be one.

    Case and hyphens don't matter, as in `id_prefix`: `E29B446655440000` is `e29b-446655440000`.
    """
    digits = typed.strip().lower().replace("-", "")
    if len(digits) < SHORTEST_ENDING or not _HEX.match(digits):
        return None
    # The positions of hyphens in a whole id are fixed, counted from its end.
    whole = id_prefix(digits.rjust(32, "0")) or ""
    missing = 32 - len(digits)
    return whole[missing + sum(cut <= missing for cut in _CUTS) :]


def shortest_prefix(session_id: str, *neighbours: str | None, at_least: int = SHORTEST) -> str:
    """The shortest beginning that tells an id from its neighbours in sorted order."""
    length = at_least
    for neighbour in neighbours:
        if neighbour is not None:
            length = max(length, _common(session_id, neighbour) + 1)
    return session_id[:length].rstrip("-")


def _common(one: str, other: str) -> int:
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))
