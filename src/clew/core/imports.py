"""What a store remembers about sessions that came from elsewhere: their source, and how far.

`transfer.histories` decides with it what is new. Retention leaves such a session alone until
somebody talks in it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Gone = Literal["trashed", "purged"]


class ImportNote(msgspec.Struct, frozen=True, kw_only=True):
    """Where a session came from. `native_id` is the id that its agent has for it.

    `stamp` is what the source looked like when it was last read; the same stamp means that there
    is nothing new. Messages up to `head` came from the source. `gone` says that the session is in
    the trash or purged; it is only read.
    """

    session_id: str
    agent: str
    native_id: str
    stamp: str
    head: int
    gone: Gone | None = None
