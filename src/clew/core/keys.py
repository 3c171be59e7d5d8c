"""Keys of the terminal: how a directory's name becomes one, and which one a directory gets.

Spelling and choosing only. What is on the disk (which directory, whether it still exists) comes as
values from `runtime.place.directories`; the keys of channels are not known here yet.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from clew.core.session import Session
from clew.core.text import strip_controls
from clew.errors import InvalidInput

PREFIX: Final = "cli:"
ROOT: Final = "/"
"""What the directory without a name is called; no other directory can have this name."""
LONGEST: Final = 100
"""Longest spelling of a name; what is longer keeps its beginning and gets a digest."""
MAX_KEY: Final = 500
"""Longest key that a person may choose."""
DIGITS: Final = (6, 12, 64)
"""Digits of the path behind `~`: more than six only where another directory has those."""

_MARKS: Final = "%:~…/"
_HIDDEN: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
_ESCAPES: Final = re.compile("(?:%[0-9a-f]{2})+")
_KEY: Final = re.compile(
    rf"{PREFIX}(?P<name>/|[^:~/]+)(?:~(?P<digits>[0-9a-f]{{6,64}}))?(?::(?P<ms>[0-9]{{1,16}}))?"
)

Scope = Literal["cwd", "git"]


# --- spelling ---------------------------------------------------------------------------------


class CliKey(msgspec.Struct, frozen=True):
    """A terminal's key, taken apart. `whole` is False where a long name was shortened."""

    name: str
    digits: str | None = None
    ms: int | None = None
    whole: bool = True


def cli_key(basename: str) -> str:
    """The key of a directory with this name: `cli:api`."""
    return f"{PREFIX}{spell_name(basename)}"


def qualified_key(basename: str, path: str, digits: int = DIGITS[0]) -> str:
    """The key of a directory whose name alone belongs to another one: `cli:api~1f0c3a`."""
    return f"{cli_key(basename)}~{_digest(path)[:digits]}"


def new_key(base: str, ms: int) -> str:
    """The key of a session that `/new` begins: `cli:api:1773484320000`."""
    return f"{base}:{ms}"


def parse_cli_key(key: str) -> CliKey | None:
    """Take a terminal's key apart; None for keys that are not of a directory's."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    spelled, ms = match["name"], match["ms"]
    name = spelled if spelled == ROOT else _read_name(spelled)
    if name is None:
        return None
    return CliKey(name, match["digits"], int(ms) if ms else None, "…" not in spelled)


def check_key(typed: str) -> str:
    """A key that a person chose, or `InvalidInput`. It is taken as it is, without the edges."""
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

    Ordinary names stay as they are. What has a meaning in keys, can't be seen, or is white space
    at an edge is written like in URLs (`%3a`). `/` is the root's.
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
    # An escape is never cut in two: what is left of one goes too.
    return re.sub("%[0-9a-f]?$", "", spelled[: LONGEST - 13]) + f"…{_digest(basename)[:12]}"


def _read_name(spelled: str) -> str | None:
    try:
        return _ESCAPES.sub(
            lambda match: bytes.fromhex(match[0].replace("%", "")).decode("utf-8", "surrogatepass"),
            spelled.partition("…")[0],
        )
    except UnicodeDecodeError:
        # A shortened name may end inside a character; anything else was never written here.
        return spelled.partition("…")[0] if "…" in spelled else None


def _is_odd(character: str) -> bool:
    return character in _MARKS or unicodedata.category(character) in _HIDDEN


def _escape(character: str) -> str:
    return "".join(f"%{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# --- places -----------------------------------------------------------------------------------


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a directory is, whatever it is called. `born` in nanoseconds, where that is known."""

    device: int
    inode: int
    born: int | None = None

    def is_same(self, other: Identity) -> bool:
        """Whether both are one directory.

        Numbers of deleted directories are given out again, so a birth that both know must agree.
        """
        if (self.device, self.inode) != (other.device, other.inode):
            return False
        return self.born is None or other.born is None or self.born == other.born


class Place(msgspec.Struct, frozen=True):
    """Where a terminal is: the directory, and the project that it stands for.

    The project is the directory itself, or with scope `git` the root of its repository; name and
    identity are the project's.
    """

    cwd: str
    project: str
    basename: str
    identity: Identity
    scope: Scope = "cwd"

    @property
    def facts(self) -> dict[str, Any]:
        """What a session's metadata keep under `directory`."""
        facts: dict[str, Any] = msgspec.to_builtins(self.identity)
        return facts

    def is_home_of(self, session: Session) -> bool:
        """Whether a session belongs to this place."""
        return home_of(session, self.scope) == self.project


def here_filter(place: Place) -> dict[str, Any]:
    """What narrows a list to the sessions of a place: its project, or the directory itself."""
    return {"project": place.project} if place.scope == "git" else {"cwd": place.cwd}


def home_of(session: Session, scope: Scope) -> str | None:
    """The directory that a session belongs to; None for those of channels."""
    if scope == "git" and session.project is not None:
        return session.project
    return session.cwd


def recorded_identity(session: Session) -> Identity | None:
    """What the session's directory was when the session was made."""
    try:
        return msgspec.convert(session.metadata["directory"], Identity)
    except (KeyError, msgspec.ValidationError):
        return None


# --- choosing ---------------------------------------------------------------------------------


class Claim(msgspec.Struct, frozen=True):
    """Who has a key: nobody, a session without a directory, or that of a directory.

    `recorded` is what the directory was, `present` what stands at its path now (None: nothing).
    """

    key: str
    taken: bool = False
    directory: str | None = None
    recorded: Identity | None = None
    present: Identity | None = None


Standing = Literal["free", "ours", "moved", "theirs"]


class KeyDecision(msgspec.Struct, frozen=True):
    """Which key a directory uses, and why: it is its own, free, or came along with a move."""

    key: str
    standing: Standing


def candidate_keys(place: Place) -> Iterator[str]:
    """The keys that a place may get, the simplest first."""
    yield cli_key(place.basename)
    for digits in DIGITS:
        yield qualified_key(place.basename, place.project, digits)


def weigh_claim(place: Place, claim: Claim) -> Standing:
    """What a key is to a place.

    Another directory keeps its key while it exists, and also when it is gone, unless the same
    device and inode prove that it is this one: it may be on a disk that is not there today.
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
    """The key of a place among those that it may get; None if others have them all.

    A key that it has already wins, then one that comes along with a move, then the first free one.
    """
    standings = [(claim.key, weigh_claim(place, claim)) for claim in claims]
    for wanted in ("ours", "moved", "free"):
        for key, standing in standings:
            if standing == wanted:
                return KeyDecision(key, standing)
    return None
