"""Which export is written, and where to: whole files, private, or none."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias, get_args

from clew.core.message import Message
from clew.core.redaction import redact
from clew.core.session import Session
from clew.errors import ClewError, Conflict, InvalidInput
from clew.ports import Store
from clew.transfer.html import write_html
from clew.transfer.jsonl import write_jsonl
from clew.transfer.markdown import write_markdown
from clew.transfer.thread import pages

Format: TypeAlias = Literal["md", "html", "jsonl"]
FORMATS: tuple[Format, ...] = get_args(Format)

_ENDINGS: dict[str, Format] = {
    ".md": "md",
    ".markdown": "md",
    ".html": "html",
    ".htm": "html",
    ".jsonl": "jsonl",
}


def guess_format(name: str) -> Format:
    """The format that a file's ending asks for; Markdown if it has none."""
    ending = Path(name).suffix.lower()
    if ending and ending not in _ENDINGS:
        raise InvalidInput(
            f'The ending "{ending}" is not one that clew writes. Use .md, .html or .jsonl, '
            "or say --format."
        )
    return _ENDINGS.get(ending, "md")


def export_session(
    store: Store,
    session: Session,
    kind: Format,
    *,
    masked: bool | None = None,
    thinking: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> AsyncIterator[str]:
    """The session as a file of that kind, piece by piece.

    Secrets are masked (`masked`) in what people read and left in what is read back, unless told
    otherwise. Undone turns are left out of the former and kept in the latter.
    """
    if kind == "jsonl":
        return write_jsonl(store, session, masked=bool(masked), advance=advance)
    write = write_html if kind == "html" else write_markdown
    clean = str if masked is False else redact
    return write(session, _counted(store, session, advance), clean, thinking=thinking)


async def _counted(
    store: Store, session: Session, advance: Callable[[int], None]
) -> AsyncIterator[tuple[Message, ...]]:
    async for page in pages(store, session):
        yield page
        advance(len(page))


async def write_file(path: Path, pieces: AsyncIterator[str], *, force: bool = False) -> None:
    """Write a file that is there whole or not at all, for its owner's eyes only."""
    with _new_file(path, force=force) as file:
        async for piece in pieces:
            file.write(piece.encode())


@contextmanager
def _new_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    if path.exists() and not force:
        raise Conflict(
            f"{path} already exists. Use --force to write over it, or -o to give another name."
        )
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise ClewError(f"{path} can't be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
