"""A channel of one's own: a directory.

A file that is put into `in/` is a message; the answer is a file in `out/`.

    [channels.drop]
    factory = "own_channel:build"
    options = { directory = "/home/me/drop" }

It does what every channel must: it acknowledges a message (here, by removing its file) when that is
kept, gives it an identity that stays the same, and says of a reply whether it arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.core.channels.incoming import Incoming, Sender
from clew.core.channels.kinds import ChannelSetup
from clew.core.channels.replies import Parcel, Piece, cut_pieces, reply_to_peer
from clew.core.channels.routing import Arrival, Peer
from clew.core.delivery import Outbound
from clew.errors import ReplyDelayed
from clew.ports import Receive

LIMIT = 10_000
POLL = 0.2


class DropChannel:
    """`clew.ports.Channel` over two directories."""

    def __init__(self, name: str, account: str, directory: Path) -> None:
        self.name = name
        self.account = account
        self._in, self._out = directory / "in", directory / "out"

    async def run(self, receive: Receive) -> None:
        """Report files until cancelled, the oldest first."""
        for each in (self._in, self._out):
            each.mkdir(parents=True, exist_ok=True)
        while True:
            for file in sorted(self._in.glob("*.txt"), key=lambda each: each.stat().st_mtime_ns):
                await receive(self._read(file))
                file.unlink()  # now it is kept
            await asyncio.sleep(POLL)

    def _read(self, file: Path) -> Incoming:
        who = file.stem.partition("-")[0]
        return Incoming(
            arrival=Arrival(channel=self.name, account=self.account, peer=Peer("dm", who)),
            sender=Sender(who),
            text=file.read_text(encoding="utf-8"),
            external_id=f"{file.name}:{file.stat().st_mtime_ns}",
            reply_to=reply_to_peer(self.name, self.account, "dm", who),
        )

    def render(self, text: str) -> str:
        """Markdown is read as it is."""
        return text

    def split(self, text: str) -> Iterator[Piece]:
        """Cut a long answer between its paragraphs."""
        return cut_pieces(text, LIMIT)

    def may_repeat(self, outbound: Outbound) -> bool:  # noqa: ARG002  # the same for every message
        """A second delivery has the same file name, so it changes nothing."""
        return True

    async def send(self, parcel: Parcel) -> dict[str, Any]:
        """Write an answer."""
        file = self._out / f"{parcel.id}.txt"
        try:
            file.write_text(parcel.text, encoding="utf-8")
        except OSError as error:
            raise ReplyDelayed(f"{file} can't be written: {error.strerror}") from error
        return {"file": file.name}


def build(setup: ChannelSetup) -> DropChannel:
    """The factory that the config file names."""
    return DropChannel(setup.name, setup.account, Path(setup.settings["directory"]))
