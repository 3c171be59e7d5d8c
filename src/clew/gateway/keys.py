"""The owner's own token: made by the first start, in a file that only they can read."""

from __future__ import annotations

import os
from pathlib import Path

from clew.api.handlers.tokens import make_token
from clew.core.tokens import digest_of, is_usable
from clew.errors import ClewError
from clew.files.durable import make_directory, sync_directory
from clew.gateway.presence import TOKEN, find_own_token
from clew.ports import Tokens


async def ensure_own_token(state_dir: Path, tokens: Tokens, now: int) -> Path:
    """The file with a token of the owner that this store knows; made if there is none.

    One that was revoked or has expired is replaced. Only for whoever has claimed the directory.
    """
    path = state_dir / TOKEN
    secret = find_own_token(state_dir)
    known = None if secret is None else await tokens.find_token(digest_of(secret))
    if known is not None and known.scope == "admin" and is_usable(known, now):
        return path
    token, secret = make_token("first", "admin", now)
    path.unlink(missing_ok=True)
    create_exclusively(path, f"{secret}\n")
    await tokens.add_token(token, digest_of(secret))
    return path


def create_exclusively(path: Path, text: str) -> None:
    """A file for its owner's eyes. What is there already, a link above all, is not written to."""
    make_directory(path.parent)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise ClewError(f"Somebody else is making {path}. Start the gateway again.") from error
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    sync_directory(path.parent)
