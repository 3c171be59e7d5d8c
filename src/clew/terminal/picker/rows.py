"""A session in the picker: what is shown of it, and the texts that typed words are searched in.

Values only. There may be tens of thousands, so all is prepared once, when a name is loaded.
"""

from __future__ import annotations

from typing import Final

import msgspec

from clew.core.names import recent_name
from clew.core.session import SessionName
from clew.core.text import fold, strip_controls

LONGEST: Final = 200
"""Characters of a text that are searched."""


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


def clean_line(text: str) -> str:
    """The text in one line without control characters; a tab, whose width varies, is a space."""
    return strip_controls(text, keep_newlines=False).replace("\t", " ")


def _key(text: str) -> str:
    """A text prepared for comparison: folded, in one line, without control characters."""
    return fold(" ".join(strip_controls(text[:LONGEST]).split()))
