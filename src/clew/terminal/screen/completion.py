"""Completion of commands, their arguments, files and sessions; and the list of choices."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import ClassVar, Final, Literal

import msgspec
from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from clew.core.commands import ALIASES, COMMANDS, find_command, list_commands
from clew.core.keys import here_filter
from clew.core.models import MODES, THINKING
from clew.core.names import time_ago
from clew.core.text import cut, fold, pad, strip_controls
from clew.terminal.commands import ISSUER
from clew.terminal.seat import Seat

SHOWN: Final = 50
"""Choices that are offered at most; the popup shows some of them at a time."""

SESSIONS: Final = 40

LONGEST: Final = 200
"""Characters of a typed name that are used."""

Kind = Literal["command", "argument", "file"]

ROWS: Final = 8
NAMES: Final = 34
"""Columns of a choice, before its help."""

MOST: Final = 20_000
"""Entries that a walk looks at; the shallow ones come first."""

WALK_SECONDS: Final = 0.5
"""Seconds that a walk may take."""

WALK_VALID: Final = 5.0
"""Seconds for which the result of a walk is used again."""

_walks: dict[str, tuple[float, tuple[str, ...]]] = {}


class Wanted(msgspec.Struct, frozen=True):
    """The word before the cursor that could be completed: `text`, from column `start` on."""

    kind: Kind
    start: int
    text: str
    command: str = ""


class Choice(msgspec.Struct, frozen=True):
    """One way to complete it: the text to insert, the label to show, and a help.

    `goes_on`: more can be typed at once, such as a file after its directory.
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
    """The end of the line before the cursor, if it can be completed; else None.

    Commands are in the `first` line of a message only.
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
    if " " in path:  # in quotes, so that its end is clear
        return Choice(f'@"{path}"', path)
    return Choice(f"@{path}", path, goes_on=path.endswith("/"))


def complete_command(typed: str) -> tuple[Choice, ...]:
    """Commands that begin with it, then those that contain it."""
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
    """The known arguments of a command."""
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
    """The known arguments of a command, without a call."""
    match command:
        case "mode":
            yield from (Choice(name, help=what) for name, what in MODES.items())
        case "thinking":
            more, can = "not supported by this model", seat.model.thinking
            yield from (Choice(each, help="" if each in can else more) for each in THINKING)
        case "tier":
            yield from (Choice(tier) for tier in (*seat.model.tiers, "none"))
        case "help":
            yield from (Choice(each.name, help=each.help) for each in list_commands(ISSUER))
        case _:
            yield from (Choice(word) for word in _words(COMMANDS[command].usage))


def _words(usage: str) -> tuple[str, ...]:
    """The words of a usage such as `[on|off]`; names in capitals are left out."""
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
            each.name,
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


class Popup(Widget):
    """Choices for the word before the cursor. `place` is the chosen one; None for none yet."""

    DEFAULT_CSS = """
    Popup { height: auto; display: none; background: $panel; padding: 0 1; }
    Popup.-open { display: block; }
    Popup > .popup--chosen { background: $primary 40%; text-style: bold; }
    Popup > .popup--help { color: $text-muted; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"popup--chosen", "popup--help"}

    choices: reactive[tuple[Choice, ...]] = reactive((), layout=True)
    place: reactive[int | None] = reactive(None)

    def __init__(self) -> None:
        super().__init__()
        self.wanted: Wanted | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is something to choose from."""
        return bool(self.choices)

    @property
    def chosen(self) -> Choice | None:
        """What Enter takes."""
        return None if self.place is None else self.choices[self.place]

    def open(self, wanted: Wanted, choices: tuple[Choice, ...]) -> None:
        """Offer these. The first is chosen only if something was typed."""
        self.wanted = wanted
        self.place = 0 if choices and (wanted.kind == "command" or wanted.text) else None
        self.choices = choices
        self.set_class(bool(choices), "-open")

    def close(self) -> None:
        """Offer nothing."""
        self.wanted = self.place = None
        self.choices = ()
        self.remove_class("-open")

    def move(self, by: int) -> None:
        """Choose the next or the previous one; after the last comes the first."""
        if self.place is None:
            self.place = 0 if by > 0 else len(self.choices) - 1
        else:
            self.place = (self.place + by) % len(self.choices)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """Some rows, and no more than there are choices."""
        del container, viewport, width
        return min(ROWS, len(self.choices))

    @property
    def _first(self) -> int:
        """The first choice that is seen."""
        return max(0, (self.place or 0) - self.content_size.height + 1)

    def render(self) -> Text:
        """The rows around the chosen one."""
        chosen = self.get_component_rich_style("popup--chosen")
        faint = self.get_component_rich_style("popup--help")
        first, (width, rows) = self._first, self.content_size
        shown = self.choices[first : first + rows]
        column = min(NAMES, max((len(each.shown) for each in shown), default=0)) + 2
        text = Text(no_wrap=True, end="")
        for place, each in enumerate(shown, first):
            name = strip_controls(each.shown, keep_newlines=False)
            about = strip_controls(each.help, keep_newlines=False)
            row = Text(pad(cut(name, column - 2 if about else width), column if about else width))
            row.append(cut(about, max(0, width - column)), "" if place == self.place else faint)
            row.pad_right(max(0, width - row.cell_len))
            if place == self.place:
                row.stylize(chosen)
            text.append_text(row)
            text.append("\n")
        text.rstrip()
        return text

    def on_click(self, event: object) -> None:
        """A click chooses; Enter or Tab takes it."""
        place = self._first + getattr(event, "y", 0)
        if place < len(self.choices):
            self.place = place


async def complete_files(root: str, typed: str, limit: int) -> tuple[str, ...]:
    """Paths below the root that fit what was typed, best first; directories end with a slash."""
    return await asyncio.to_thread(find_files, root, typed, limit)


def find_files(root: str, typed: str, limit: int) -> tuple[str, ...]:
    """The same, blocking: first the entries of the typed directory, then matches below."""
    above, _, name = typed.rpartition("/")
    if typed.startswith("/") or ".." in above.split("/"):
        return ()  # only inside the workspace
    here = rank_paths(_list(Path(root, above), above, hidden=name.startswith(".")), typed)
    below = rank_paths(_walk(root), typed) if typed and not typed.endswith("/") else ()
    return tuple(dict.fromkeys((*here, *below)))[:limit]


def rank_paths(paths: Iterable[str], typed: str) -> tuple[str, ...]:
    """Those that begin with it, whose name does, that contain it, whose letters do, in order."""
    wanted = fold(typed)
    ranked: list[tuple[int, int, str]] = []
    for path in paths:
        folded = fold(path)
        name = folded.rstrip("/").rpartition("/")[2]
        if folded.startswith(wanted):
            rank = 0
        elif name.startswith(wanted):
            rank = 1
        elif wanted in folded:
            rank = 2
        elif len(wanted) > 2 and _has_in_order(folded, wanted):
            rank = 3
        else:
            continue
        ranked.append((rank, path.rstrip("/").count("/"), path))
    return tuple(path for _, _, path in sorted(ranked))


def _has_in_order(text: str, letters: str) -> bool:
    rest = iter(text)
    return all(letter in rest for letter in letters)


def _walk(root: str) -> tuple[str, ...]:
    """All paths that are not hidden, breadth first, up to the limits."""
    now = time.monotonic()
    at, found = _walks.get(root, (-WALK_VALID, ()))
    if now - at < WALK_VALID:
        return found
    paths: list[str] = []
    waiting = deque([""])
    while waiting and len(paths) < MOST and time.monotonic() - now < WALK_SECONDS:
        above = waiting.popleft()
        for path in _list(Path(root, above), above, hidden=False):
            paths.append(path)
            if path.endswith("/"):
                waiting.append(path.rstrip("/"))
    _walks.clear()
    _walks[root] = (time.monotonic(), tuple(paths[:MOST]))
    return _walks[root][1]


def _list(directory: Path, above: str, *, hidden: bool) -> Iterator[str]:
    """A directory's entries, as paths below the root. Links are not followed any further."""
    prefix = f"{above}/" if above else ""
    try:
        with os.scandir(directory) as entries:
            for count, entry in enumerate(entries):
                if count >= MOST:
                    return
                if entry.name.startswith(".") and not hidden:
                    continue
                if not _is_plain(entry.name):
                    continue
                yield f"{prefix}{entry.name}{'/' if entry.is_dir(follow_symlinks=False) else ''}"
    except OSError:
        return


def _is_plain(name: str) -> bool:
    """Whether a name can be shown and sent as it is."""
    return strip_controls(name, keep_newlines=False) == name
