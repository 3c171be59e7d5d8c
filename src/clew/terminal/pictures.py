"""Pictures that a message names with `@`: they are sent with it, also to a gateway.

Other files are only named: the agent reads them with its tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from clew.core.channels.replies import Attached
from clew.core.notes import find_picture_type

MOST: Final = 10
"""Pictures that are sent with one message."""
LARGEST: Final = 5_000_000
"""Bytes of a picture; a larger one is not sent."""
TOTAL: Final = 10_000_000

_NAMED: Final = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')


def find_pictures(text: str, cwd: str) -> tuple[Attached, ...]:
    """The pictures of this directory that a text names, each once."""
    found: dict[Path, Attached] = {}
    room = TOTAL
    for path in _list_named(text, Path(cwd)):
        if path in found or len(found) == MOST:
            continue
        picture = _read(path, min(LARGEST, room))
        if picture is not None:
            found[path] = picture
            room -= len(picture.data)
    return tuple(found.values())


def _list_named(text: str, cwd: Path) -> Iterator[Path]:
    """Paths in the text. None outside of the directory, since the text may be pasted."""
    for quoted, bare in _NAMED.findall(text):
        names = [quoted] if quoted else dict.fromkeys([bare, bare.rstrip(".,;:!?)]}'")])
        for name in names:
            try:
                path, home = (cwd / name).resolve(), cwd.resolve()
            except (OSError, RuntimeError, ValueError):
                continue
            if path.is_relative_to(home):
                yield path


def _read(path: Path, limit: int) -> Attached | None:
    """The file, if it is a picture that fits."""
    try:
        if not path.is_file() or not 0 < path.stat().st_size <= limit:
            return None
        data = path.read_bytes()
    except (OSError, ValueError):
        return None
    kind = find_picture_type(data)
    if kind is None or len(data) > limit:
        return None
    return Attached(media_type=kind, data=data)
