"""The owner's own token: made at the first start, in a file that only the owner can read.

Quick to import, since a chat looks here before anything else is loaded.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clew.core.tokens import ALL, digest_of, is_usable
from clew.errors import ClewError
from clew.files.durable import find_bytes, make_directory, sync_directory

if TYPE_CHECKING:
    from clew.ports import Tokens

TOKEN: Final = "gateway.token"  # noqa: S105  # the name of a file


def find_own_token(state_dir: Path) -> str | None:
    """The owner's token; None before the first start of a gateway."""
    try:
        data = find_bytes(state_dir / TOKEN)
    except (OSError, ClewError):
        return None
    return None if data is None else data.decode("ascii", "replace").strip() or None


async def ensure_own_token(state_dir: Path, tokens: Tokens, now: int) -> Path:
    """The file with a token of the owner that this store knows; made if there is none.

    One that was revoked or has expired is replaced. Only for the process that has claimed the
    directory (`running_gateway.claim`).
    """
    from clew.api.handlers.tokens import make_token  # noqa: PLC0415  # only a gateway makes one

    path = state_dir / TOKEN
    secret = find_own_token(state_dir)
    known = None if secret is None else await tokens.find_token(digest_of(secret))
    if (
        known is not None
        and (known.scopes, known.kind) == (ALL, "bearer")
        and is_usable(known, now)
    ):
        return path
    token, secret = make_token("first", ALL, now)
    path.unlink(missing_ok=True)
    create_exclusively(path, f"{secret}\n")
    await tokens.add_token(token, digest_of(secret))
    return path


def create_exclusively(path: Path, text: str) -> None:
    """Create a file that only its owner can read; a file or link that exists is not written to."""
    make_directory(path.parent)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise ClewError(f"Another process is making {path}. Start the gateway again.") from error
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    sync_directory(path.parent)
