"""Handler of the files of messages."""

from __future__ import annotations

from typing import Final

from clew.api.blobs import GET, BlobFile, GetBlob
from clew.api.handlers.parts import Caller, Parts, get_visible, handles
from clew.core.notes import find_picture_type
from clew.errors import BlobNotFound

ANY_BYTES: Final = "application/octet-stream"


@handles(GET)
async def get_blob(parts: Parts, params: GetBlob, caller: Caller) -> BlobFile:
    """A file that a message of the session has; `BlobNotFound` also if another session has it."""
    session = await get_visible(parts, params.session, caller)
    if not await parts.store.has_blob(session.id, params.hash):
        raise BlobNotFound(params.hash)
    blob = await parts.store.get_blob(params.hash)
    kind = find_picture_type(blob.data)
    ending = "bin" if kind is None else kind.removeprefix("image/")
    return BlobFile(f"{blob.hash[:12]}.{ending}", kind or ANY_BYTES, blob.data)
