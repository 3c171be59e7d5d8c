"""Files of the workspace, for `@path`: a walk that is bounded in entries and time.

What a project ignores is not known here; hidden files are left out unless they are asked for.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from clew.core.text import fold, strip_controls

MOST: Final = 20_000
"""Entries that a walk looks at; the shallow ones come first."""

LONGEST: Final = 0.5
"""Seconds that it may take."""

FRESH: Final = 5.0
"""Seconds for which its result is good enough."""

_walked: dict[str, tuple[float, tuple[str, ...]]] = {}


async def complete_files(root: str, typed: str, limit: int) -> tuple[str, ...]:
    """Paths below the root that fit what was typed, best first; directories end with a slash."""
    return await asyncio.to_thread(find_files, root, typed, limit)


def find_files(root: str, typed: str, limit: int) -> tuple[str, ...]:
    """The same, here and now: what stands in the directory that was typed, then what fits below."""
    above, _, name = typed.rpartition("/")
    if typed.startswith("/") or ".." in above.split("/"):
        return ()  # the workspace only
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
    """Everything that is not hidden, breadth first, as far as the bounds allow."""
    now = time.monotonic()
    at, found = _walked.get(root, (-FRESH, ()))
    if now - at < FRESH:
        return found
    paths: list[str] = []
    waiting = deque([""])
    while waiting and len(paths) < MOST and time.monotonic() - now < LONGEST:
        above = waiting.popleft()
        for path in _list(Path(root, above), above, hidden=False):
            paths.append(path)
            if path.endswith("/"):
                waiting.append(path.rstrip("/"))
    _walked.clear()
    _walked[root] = (time.monotonic(), tuple(paths[:MOST]))
    return _walked[root][1]


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
