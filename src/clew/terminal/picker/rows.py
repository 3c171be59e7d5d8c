"""A session as the picker knows it: what is shown of it, and what a typed word is looked for in.

Values only. They are made once for each name that is loaded, by the ten thousand, so that a key
costs no more than looking through them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from clew.core.names import recent_name
from clew.core.session import SessionName
from clew.core.text import fold, strip_controls

LONGEST: Final = 200
"""Characters of a text that typed words are looked for in."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """A session in the list. `title` and `directory` are clean, for the screen.

    The keys are folded for comparison: `name_key` is the name; `key` is the name, the directory,
    the id and the first prompt; `short_key` is the name and the directory's own name, in which
    typing errors are forgiven.
    """

    id: str
    title: str
    directory: str
    platform: str
    updated_at: int
    pinned: bool
    message_count: int
    archived: bool
    name_key: str
    short_key: str
    key: str

    @property
    def place(self) -> tuple[bool, int, str]:
        """Where it stands in a list: the greatest first."""
        return (self.pinned, self.updated_at, self.id)


def make_row(name: SessionName) -> Row:
    """The row of a name."""
    directory = clean_line(name.cwd or name.project or "")
    called = name.title or name.short_summary or name.preview or ""
    name_key = _key(called)
    directory_key = fold(directory)
    prompt_key = "" if called is name.preview else _key(name.preview or "")
    return Row(
        id=name.id,
        title=recent_name(name.title, name.short_summary, name.preview, name.id),
        directory=directory,
        platform=clean_line(name.platform),
        updated_at=name.updated_at,
        pinned=name.pinned,
        message_count=name.message_count,
        archived=name.archived,
        name_key=name_key,
        short_key=f" {name_key} {directory_key.rpartition('/')[2]}",
        key=f"{name_key}\n{directory_key}\n{name.id}\n{prompt_key}",
    )


def make_rows(names: Iterable[SessionName]) -> list[Row]:
    """The rows of a page."""
    return [make_row(name) for name in names]


def clean_line(text: str) -> str:
    """The text in one line without control characters; a tab, whose width varies, is a space."""
    return strip_controls(text, keep_newlines=False).replace("\t", " ")


def _key(text: str) -> str:
    """How a text compares: in one line, without what can't be seen."""
    return fold(" ".join(strip_controls(text[:LONGEST]).split()))
