"""What could be meant by what is being typed: commands and their arguments, files, sessions.

Functions over text and what the seat can ask; how the choices look, and which keys take one, is the
editor's and the popup's affair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal

import msgspec

from clew.core.commands import ALIASES, COMMANDS, find_command, list_commands
from clew.core.keys import here_filter
from clew.core.models import MODES, THINKING
from clew.core.names import recent_name, time_ago
from clew.core.text import fold
from clew.terminal.commands import ISSUER
from clew.terminal.screen.files import complete_files
from clew.terminal.seat import Seat

SHOWN: Final = 50
"""Choices that are offered at most; the popup shows some of them at a time."""

SESSIONS: Final = 40

LONGEST: Final = 200
"""Characters of a name that are looked for."""

Kind = Literal["command", "argument", "file"]


class Wanted(msgspec.Struct, frozen=True):
    """The word before the cursor that could be completed: `text`, from column `start` on."""

    kind: Kind
    start: int
    text: str
    command: str = ""


class Choice(msgspec.Struct, frozen=True):
    """One way to complete it: what is put in, what is shown, and a word about it.

    `goes_on`: more can follow at once, as below a directory.
    """

    text: str
    label: str = ""
    help: str = ""
    goes_on: bool = False

    @property
    def shown(self) -> str:
        """What stands in the list."""
        return self.label or self.text


_COMMAND: Final = re.compile(r"/([a-z_-]*)\Z", re.IGNORECASE)
_ARGUMENT: Final = re.compile(r"/([a-z_-]+)[ \t]+([^\n]*)\Z", re.IGNORECASE)
_FILE: Final = re.compile(r"(?:\A|(?<=[\s(\[{\"'`,:]))@(\S*)\Z")


def find_wanted(line: str, *, first: bool = True) -> Wanted | None:
    """What the line before the cursor ends with, if it could be completed; None for words.

    Commands stand in the `first` line of a message only.
    """
    if first and (match := _COMMAND.match(line)):
        return Wanted("command", 0, match[1])
    if first and (match := _ARGUMENT.match(line)) and find_command(match[1].lower()):
        return Wanted("argument", match.start(2), match[2], match[1].lower())
    if match := _FILE.search(line):
        return Wanted("file", match.start(), match[1])
    return None


async def complete(seat: Seat, wanted: Wanted) -> tuple[Choice, ...]:
    """The choices, best first."""
    match wanted.kind:
        case "command":
            return complete_command(wanted.text)
        case "file":
            found = await complete_files(seat.place.cwd, wanted.text, SHOWN)
            return tuple(_file_choice(path) for path in found)
        case _:
            return await _complete_argument(seat, wanted)


def _file_choice(path: str) -> Choice:
    if " " in path:  # in quotes, so that it is seen where it ends
        return Choice(f'@"{path}"', path)
    return Choice(f"@{path}", path, goes_on=path.endswith("/"))


def complete_command(typed: str) -> tuple[Choice, ...]:
    """Commands that begin so, then those that contain it."""
    known = [
        Choice(f"/{each.name}", each.line, each.help, bool(each.usage))
        for each in list_commands(ISSUER)
    ]
    known += [
        Choice(f"/{alias}", help=f"The same as /{each.name}.", goes_on=bool(each.usage))
        for each in list_commands(ISSUER)
        for alias in each.aliases
    ]
    return _rank(known, typed, lambda each: each.text[1:])


async def _complete_argument(seat: Seat, wanted: Wanted) -> tuple[Choice, ...]:
    name = ALIASES.get(wanted.command, wanted.command)
    if name == "resume":
        return await _complete_session(seat, wanted.text)
    return _rank(await list_arguments(seat, name), wanted.text, lambda each: each.text)


async def list_arguments(seat: Seat, command: str) -> tuple[Choice, ...]:
    """What can follow a command, as far as it is known beforehand."""
    match command:
        case "model":
            known = await seat.list_models()
            usable = sorted(known, key=lambda each: each.problem is not None)
            return tuple(Choice(each.name, help=each.problem or "") for each in usable)
        case "personality":
            found = await seat.list_personalities()
            return tuple(Choice(each.id, help=each.description) for each in found)
        case _:
            return tuple(_list_words(seat, command))


def _list_words(seat: Seat, command: str) -> Iterator[Choice]:
    """What can follow a command, where nobody has to be asked."""
    match command:
        case "mode":
            yield from (Choice(name, help=what) for name, what in MODES.items())
        case "thinking":
            more, can = "more than this model can", seat.model.thinking
            yield from (Choice(each, help="" if each in can else more) for each in THINKING)
        case "tier":
            yield from (Choice(tier) for tier in (*seat.model.tiers, "none"))
        case "help":
            yield from (Choice(each.name, help=each.help) for each in list_commands(ISSUER))
        case _:
            yield from (Choice(word) for word in _words(COMMANDS[command].usage))


def _words(usage: str) -> tuple[str, ...]:
    """The words that a usage such as `[on|off]` spells out; its names in capitals are none."""
    words = re.split(r"[\[\]|\s]+", usage)
    return tuple(word for word in words if word and word == word.lower())


async def _complete_session(seat: Seat, typed: str) -> tuple[Choice, ...]:
    """This directory's sessions, then the others, by what their names contain."""
    sessions, text = seat.client.sessions, typed.strip()[:LONGEST] or None
    here = await sessions.list(named=text, limit=SESSIONS, **here_filter(seat.place))
    found = list(here.sessions)
    if len(found) < SESSIONS:
        known = {each.id for each in found}
        page = await sessions.list(named=text, limit=SESSIONS)
        found += [each for each in page.sessions if each.id not in known]
    now = seat.session
    return tuple(
        Choice(
            each.short_id,
            recent_name(each.title, each.short_summary, each.preview, each.id),
            time_ago(each.updated_at, seat.now(), seat.zone(each.updated_at)),
        )
        for each in found[:SHOWN]
        if now is None or each.id != now.id
    )


def _rank(known: Iterable[Choice], typed: str, name: Callable[[Choice], str]) -> tuple[Choice, ...]:
    """Those that begin with what was typed, then those that contain it."""
    wanted = fold(typed.strip())
    fits = [(each, fold(name(each)).find(wanted)) for each in known]
    first = [each for each, place in fits if place == 0]
    return tuple((first + [each for each, place in fits if place > 0])[:SHOWN])
