"""Tables that fit the terminal, and sessions as rows of them.

Layout only: values in, lines out. Control characters are removed from the cells of a table; other
text must come without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from clew.core.names import format_count
from clew.core.text import columns as columns_of
from clew.core.text import cut, pad, strip_controls

if TYPE_CHECKING:
    from clew.api.sessions import SessionView
    from clew.cli.app import App
    from clew.errors import Candidate

GAP: Final = "  "
WIDE: Final = 100
"""A list shows directories in a terminal of at least so many columns."""


class Column(NamedTuple):
    """One column of a table, and how it gives way in a narrow terminal.

    Columns are shortened to `least` characters (None: never), those with the highest `optional`
    first; if that is not enough, they are left out in the same order (0: never). `keep_end` cuts
    the beginning of a cell, not its end.
    """

    title: str
    style: str | None = None
    align: Literal["left", "right"] = "left"
    least: int | None = None
    optional: int = 0
    keep_end: bool = False


def table(
    app: App, columns: Sequence[Column], rows: Sequence[Sequence[str]], *, whole: bool = False
) -> list[str]:
    """Lines of a table with a heading; empty columns are left out.

    A `whole` table is never cut: the terminal breaks its lines.
    """
    cells = [[strip_controls(cell, keep_newlines=False) for cell in row] for row in rows]
    shown = [index for index in range(len(columns)) if any(row[index] for row in cells)]
    widths = {
        index: max(columns_of(columns[index].title), *(columns_of(row[index]) for row in cells))
        for index in shown
    }
    shown = _fit(columns, shown, widths, None if whole else app.width)
    heading = [column.title for column in columns]
    lines = []
    for row, style in [(heading, "dim"), *((row, None) for row in cells)]:
        parts = []
        filled = [index for index in shown if row[index].strip()]
        for index in shown[: shown.index(filled[-1]) + 1] if filled else ():
            column = columns[index]
            shorten = _cut_beginning if column.keep_end else cut
            text = pad(shorten(row[index], widths[index]), widths[index], column.align)
            if index == filled[-1]:
                text = text.rstrip()  # no line ends in blanks
            chosen = style or column.style
            parts.append(app.colour(text, chosen) if chosen and text else text)
        lines.append(GAP.join(parts))
    return lines


def answer_table(  # what to print, for programs and for people
    app: App,
    value: object,
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
    *,
    empty: str = "",
) -> None:
    """Print `value` with --json, else the rows as a table, or `empty` if there are none."""
    app.answer(value, "\n".join(table(app, columns, rows)) if rows else empty)


def _fit(
    columns: Sequence[Column], shown: list[int], widths: dict[int, int], width: int | None
) -> list[int]:
    """Choose the columns to show, and reduce their widths in place."""
    if width is None or not shown:
        return shown
    yielding = sorted(shown, key=lambda index: -columns[index].optional)
    least = {index: min(widths[index], columns[index].least or widths[index]) for index in shown}

    def excess(widths: dict[int, int]) -> int:
        return sum(widths[index] + len(GAP) for index in shown) - len(GAP) - width

    for index in yielding:
        if columns[index].optional and excess(least) > 0:
            shown = [each for each in shown if each != index]
    for index in yielding:
        if index in shown:
            widths[index] -= max(0, min(excess(widths), widths[index] - least[index]))
    # For an extremely narrow terminal: shorten the last column further.
    widths[shown[-1]] = max(1, widths[shown[-1]] - max(0, excess(widths)))
    return shown


def _cut_beginning(text: str, width: int) -> str:
    if columns_of(text) <= width:
        return text
    while text and columns_of(text) > width - 1:
        text = text[1:]
    return f"…{text}"


def fit(app: App, line: str) -> str:
    """A line cut to the width of the terminal."""
    return line if app.width is None else cut(line, app.width)


def wrap(text: str, width: int) -> Iterator[str]:
    """One line broken between words into lines of `width` columns, where that is possible."""
    while columns_of(text) > width:
        room = len(cut(text, width + 1)) - 1
        space = text.rfind(" ", 1, room + 1)
        if space <= len(text) - len(text.lstrip()):
            space = text.find(" ", room)  # a word that is too long stays whole
        if space < 0:
            break
        yield text[:space]
        text = text[space + 1 :]
    yield text


def facts(app: App, pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Names and values as aligned lines."""
    listed = list(pairs)
    width = max((columns_of(name) for name, _ in listed), default=0)
    return [f"{app.colour(pad(name, width), 'dim')}{GAP}{value}" for name, value in listed]


def session_table(
    app: App,
    sessions: Sequence[SessionView],
    *,
    time: Literal["updated", "deleted"] = "updated",
) -> list[str]:
    """Sessions as a table, with their status if any of them has one."""
    several = len({session.platform for session in sessions}) > 1
    columns = (
        Column("ID", "id"),
        Column(time.upper(), optional=1),
        Column("MESSAGES", align="right", optional=2),
        Column("PLATFORM", optional=3),
        Column("STATUS", "warning", optional=1),
        Column("TITLE", least=16),
        Column("DIRECTORY", "dim", least=16, optional=4, keep_end=True),
    )
    rows = [
        (
            session.short_id,
            app.ago((session.deleted_at if time == "deleted" else None) or session.updated_at),
            format_count(session.message_count),
            session.platform if several else "",
            session.status or "",
            ("★ " if session.pinned else "") + session.listed_name,
            home_relative(session.shown_directory) if (app.width or 0) >= WIDE else "",
        )
        for session in sessions
    ]
    return table(app, columns, rows)


def candidate_lines(app: App, sessions: Sequence[Candidate]) -> list[str]:
    """Sessions to choose from, as lines under a message."""
    columns = (
        Column("ID"),
        Column("UPDATED"),
        Column("TITLE", least=16),
        Column("DIRECTORY", least=16, optional=1, keep_end=True),
    )
    rows = [
        (each.short_id, app.ago(each.updated_at), each.name, home_relative(each.cwd))
        for each in sessions
    ]
    return [f"  {line}" for line in table(app, columns, rows)[1:]]


def home_relative(path: str | None) -> str:
    """A path with `~` for the home directory."""
    if path is None:
        return ""
    home = str(Path.home())
    return f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path
