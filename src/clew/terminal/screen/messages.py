"""Stored messages as blocks. What is only on its way is in `story`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clew.core.message import Message, blob_hashes
from clew.core.turn import ENDS, Turn
from clew.terminal.drawing import read_arguments
from clew.terminal.screen.blocks import AnswerBlock, Block, BrokenBlock, ThinkingBlock, UserBlock
from clew.terminal.screen.calls import ToolBlock
from clew.terminal.screen.prose import Prose


def list_blocks(
    messages: Iterable[Message], unfinished: Mapping[int, Turn] | None = None
) -> list[Block]:
    """Messages as they are in the store; a tool's result goes to its call.

    `unfinished`: turns that were stopped behind one of them, by its number.
    """
    blocks: list[Block] = []
    calls: dict[str, ToolBlock] = {}
    for message in messages:
        match message.role:
            case "user":
                blocks.append(make_user(message))
            case "assistant":
                if thoughts := find_thoughts(message):
                    blocks.append(ThinkingBlock(Prose(thoughts), message.seq))
                if message.content.strip():
                    blocks.append(AnswerBlock(Prose(message.content), message.seq))
                for call in message.tool_calls:
                    block = ToolBlock(
                        call.id, call.name, read_arguments(call.arguments), message.seq, "stopped"
                    )
                    calls[call.id] = block
                    blocks.append(block)
            case _:
                if (called := calls.get(message.tool_call_id or "")) is not None:
                    give_result(called, message)
                else:
                    blocks.append(make_orphan(message))
        if (turn := (unfinished or {}).get(message.seq)) is not None:
            blocks.append(BrokenBlock(turn.partial or "", ENDS.get(turn.status, turn.status)))
    return blocks


def make_user(message: Message) -> UserBlock:
    """What the person said."""
    return UserBlock(message.content, message.seq, len(blob_hashes(message.parts)))


def make_orphan(message: Message) -> ToolBlock:
    """A result whose call is not to be seen."""
    block = ToolBlock(message.tool_call_id or "", message.tool_name or "tool", {}, message.seq)
    give_result(block, message)
    return block


def give_result(block: ToolBlock, message: Message) -> None:
    """The call is over, and this came out."""
    block.result, block.result_seq = message.content, message.seq
    block.state = "failed" if message.is_error else "done"


def find_thoughts(message: Message) -> str:
    """What the model thought, if the provider tells."""
    found = (
        part.get("thinking") or part.get("text")
        for part in message.parts
        if part.get("type") == "thinking"
    )
    return "\n\n".join(text for text in found if isinstance(text, str) and text.strip())
