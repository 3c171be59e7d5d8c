"""Files of messages: pictures and attachments."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from clew.api.fields import WORDS, SessionId
from clew.api.operation import Params, row

BlobHash = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-f]{64}$",
        max_length=64,
        description="The SHA-256 of the bytes.",
        extra={WORDS: "the SHA-256 of a file: 64 digits, 0 to 9 and a to f"},
    ),
]


class GetBlob(Params, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`session` is a session in which a message has this file."""

    hash: BlobHash
    session: SessionId


class BlobFile(msgspec.Struct, frozen=True):
    """The bytes of a file of a message; base64 in JSON.

    `media_type` is decided by the bytes: that of a PNG, JPEG, GIF or WebP, else that of any bytes.
    What the sender said it is stands in the part of the message.
    """

    name: str
    media_type: str
    content: bytes

    @property
    def is_picture(self) -> bool:
        """Whether a page may show it."""
        return self.media_type.startswith("image/")


# --- the rows of the table ---------------------------------------------------------------------

GET: Final = row(
    "blobs.get", "GET", "blobs/{hash}", "read", GetBlob, BlobFile,
    "Get a file of a message: a picture to be shown, anything else as a download.",
    answer="file", who="guest",
)  # fmt: skip
ROWS: Final = (GET,)
