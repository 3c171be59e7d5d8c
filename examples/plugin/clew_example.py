"""One package that extends clew in all six ways, each as small as it can be.

    pip install ./examples/plugin
    clew plugins

The entry points in `pyproject.toml` are all that clew needs to find it.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import clew
from clew.agent.tools import Arguments, Job, Tool, ToolFailure
from clew.core.channels.incoming import Incoming, Sender
from clew.core.channels.kinds import ChannelSetup
from clew.core.channels.replies import Parcel, Piece, cut_pieces, reply_to_peer
from clew.core.channels.routing import Arrival, Peer
from clew.core.delivery import Outbound
from clew.ports import Receive, Store
from clew.transfer.jsonl import Line
from clew.transfer.readers.files import entry_of
from clew.transfer.readers.reader import Home, Reading, Source
from clew.transfer.readers.transcript import About, Answer, Entry, make_lines, user_said


# --- clew.tools: a tool of the agent ------------------------------------------------------------
class Dice(Arguments, frozen=True, kw_only=True):
    """The arguments that a model gives; their schema is made from the types."""

    sides: Annotated[int, Meta(ge=2, le=1_000)] = 6


async def roll_dice(_job: Job, arguments: Dice) -> str:
    """Roll a die, and say what it shows."""
    if arguments.sides == 13:
        raise ToolFailure("There is no die with thirteen sides.")  # the model reads this
    return f"It shows {random.randint(1, arguments.sides)}."


DICE = Tool(name="roll_dice", arguments=Dice, function=roll_dice)


# --- clew.models: models of a provider ----------------------------------------------------------
def open_model(model_id: str, **_options: Any) -> FunctionModel:
    """A model of pydantic-ai. `_options` are the provider's `base_url` and `api_key`, if it has."""

    def said(messages: list[ModelMessage]) -> str:
        last = messages[-1].parts[-1]
        return f"{model_id} says: {getattr(last, 'content', '')}"

    async def answer(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(said(messages))])

    async def stream(messages: list[ModelMessage], _info: AgentInfo) -> AsyncIterator[str]:
        yield said(messages)

    return FunctionModel(answer, stream_function=stream, model_name=model_id)


# --- clew.stores: a store for URLs of a scheme --------------------------------------------------
async def open_store(url: str, **options: Any) -> Store:
    """`counted:///path`: a store in SQLite that counts how often it is opened.

    A real one is a class of its own with all methods of `clew.ports.Store`, tried with
    `clew.testing.contract`.
    """
    path = Path(url.partition("://")[2])
    count = path.with_suffix(".count")
    count.write_text(str(int(count.read_text()) + 1 if count.exists() else 1))
    return await clew.open_store(f"sqlite://{path}", **options)


# --- clew.channels: a place where people write --------------------------------------------------
class DropChannel:
    """A directory: a file in it is a message, and `NAME.answer` the answer."""

    def __init__(self, setup: ChannelSetup) -> None:
        self.name, self.account = setup.name, setup.account
        self._directory = Path(setup.settings["directory"])

    async def run(self, receive: Receive) -> None:
        """Report every file once, and end. A real channel goes on until it is cancelled."""
        for file in sorted(self._directory.glob("*.txt")):
            await receive(
                Incoming(
                    arrival=Arrival(
                        channel=self.name, account=self.account, peer=Peer("dm", file.stem)
                    ),
                    sender=Sender(file.stem),
                    text=file.read_text(encoding="utf-8"),
                    external_id=file.name,
                    reply_to=reply_to_peer(self.name, self.account, "dm", file.stem),
                )
            )

    def render(self, text: str) -> str:
        """Text as the platform wants it."""
        return text

    def split(self, text: str) -> Iterator[Piece]:
        """A long answer as several messages."""
        return cut_pieces(text, 10_000)

    def may_repeat(self, outbound: Outbound) -> bool:
        """Whether a message that may have arrived can be sent again without harm."""
        return bool(outbound.id)

    async def send(self, parcel: Parcel) -> dict[str, Any]:
        """Deliver a reply; what is returned is kept as its receipt."""
        file = self._directory / f"{parcel.outbound.address['peer']['id']}.answer"
        file.write_text(parcel.text, encoding="utf-8")
        return {"file": file.name}


def build_channel(setup: ChannelSetup) -> DropChannel:
    """`[channels.drop]` with `options = { directory = "…" }`."""
    return DropChannel(setup)


# --- clew.importers: histories of another agent -------------------------------------------------
class Diary:
    """Reads `*.diary` files: lines that begin with `me: ` or `it: `."""

    name = "diary"
    label = "Diary"

    def find(self, home: Home) -> Iterator[Source]:
        """The sessions of this machine."""
        return self.open(home.place("DIARY_HOME", "diary"))

    def open(self, path: Path) -> Iterator[Source]:
        """The sessions in a file or a directory."""
        for each in sorted(path.glob("*.diary")) if path.is_dir() else [path]:
            file = entry_of(each)
            if file is not None:
                yield Source(
                    agent=self.name,
                    id=each.stem,
                    path=each,
                    root=each.parent,
                    stamp=f"{file.size}:{file.at}",
                    at=file.at,
                    size=file.size,
                )

    def recognises(self, path: Path, first: bytes) -> bool:
        """Whether a file is a diary."""
        return path.suffix == ".diary" and bool(re.match(rb"(me|it): ", first))

    def read(self, source: Source, reading: Reading) -> Iterator[Line]:
        """A session as lines of a transcript."""
        return make_lines(About(agent=self.name, id=source.id), self._entries(source, reading))

    def _entries(self, source: Source, reading: Reading) -> Iterator[Entry]:
        lines = source.path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            who, _, text = line.partition(": ")
            if who == "me":
                yield user_said(f"{number}", text, at=source.at)
            elif who == "it":
                answer = Answer()
                answer.say(text)
                yield answer.said(f"{number}", at=source.at)
            else:
                reading.broken += 1


# --- clew.hooks: a function that is told of an event --------------------------------------------
def note_turn(event: dict[str, Any]) -> None:
    """The entry point's name is the event: `turn_end`, `session_end`, …"""
    place = os.environ.get("CLEW_EXAMPLE_LOG")
    if place is not None:
        with Path(place).open("a", encoding="utf-8") as log:
            log.write(f"{event['event']} {event['session_id']}\n")
