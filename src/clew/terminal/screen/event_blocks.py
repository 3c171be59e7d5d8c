"""Stored messages and live events of a session, as changes of the block list."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from clew.core.live_events import (
    ApprovalAsked,
    ApprovalDecided,
    Committed,
    Event,
    Notice,
    Retrying,
    Stalled,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from clew.core.message import Message, blob_hashes
from clew.core.turn import ENDS, Turn
from clew.terminal.plain_output import (
    describe_end,
    describe_retry,
    describe_stall,
    read_arguments,
)
from clew.terminal.screen.block_list import BlockList
from clew.terminal.screen.blocks import (
    AnswerBlock,
    Block,
    NoteBlock,
    ThinkingBlock,
    UnfinishedBlock,
    UserBlock,
)
from clew.terminal.screen.markdown import MarkdownText
from clew.terminal.screen.tool_blocks import ToolBlock

PROGRESS: Final = 4_000
"""Characters of a running tool's progress that are kept."""


class BlockBuilder:
    """Makes and changes the blocks for what happens in a session after it was opened."""

    def __init__(self, blocks: BlockList, last_seq: int = 0, before: Iterable[Block] = ()) -> None:
        self._blocks = blocks
        self._last_seq = last_seq
        self._said: deque[UserBlock] = deque()
        self._answer: AnswerBlock | None = None
        self._thinking: ThinkingBlock | None = None
        self._retry: NoteBlock | None = None
        self._tools: dict[str, ToolBlock] = {}
        for block in before:
            if isinstance(block, UserBlock):
                self._tools.clear()
            elif isinstance(block, ToolBlock) and block.result is None:
                self._tools[block.call_id] = block

    def sent(self, text: str) -> None:
        """The person's message is on its way."""
        block = UserBlock(text)
        self._said.append(block)
        self._blocks.add(block)

    def show(self, event: Event) -> bool:
        """Apply an event. Returns whether to draw it at once; text that streams can wait."""
        match event:
            case TextDelta(text):
                self._stream(text)
                return False
            case ThinkingDelta(text):
                self._think(text)
                return False
            case ToolProgress(call_id, text):
                self._progress(call_id, text)
                return False
            case Committed(message):
                self._commit(message)
            case ToolStarted(call_id, name, arguments):
                self._start_tool(call_id, name, arguments)
            case ToolEnded(call_id, _, is_error):
                self._set_state(call_id, is_error=is_error)
            case ApprovalAsked(approval):
                self._wait(approval.tool_call_id, is_waiting=True)
            case ApprovalDecided(approval):
                self._wait(approval.tool_call_id, is_waiting=False)
            case Retrying() | Stalled():
                self._show_wait(event)
            case Notice(text):
                self._blocks.add(NoteBlock(text, "warning"))
            case TurnEnded(turn):
                self._end(turn)
            case _:
                pass
        return True

    # --- what streams ---------------------------------------------------------------------------

    def _stream(self, text: str) -> None:
        self._forget_retry()
        self._stop_thinking()
        if self._answer is None:
            self._answer = AnswerBlock(MarkdownText())
            self._blocks.add(self._answer)
        self._answer.markdown.feed(text)
        self._blocks.change(self._answer)

    def _think(self, text: str) -> None:
        self._forget_retry()
        if self._thinking is None:
            self._thinking = ThinkingBlock(MarkdownText(), running=True)
            self._blocks.add(self._thinking, before=self._answer)
        self._thinking.markdown.feed(text)
        self._blocks.change(self._thinking)

    def _stop_thinking(self) -> None:
        if self._thinking is not None and self._thinking.running:
            self._thinking.running = False
            self._blocks.change(self._thinking)

    def _forget_retry(self) -> None:
        if self._retry is not None:
            self._blocks.drop(self._retry)
            self._retry = None

    def _show_wait(self, event: Retrying | Stalled) -> None:
        """Show silence or a countdown, until there is more text."""
        self._forget_retry()
        if isinstance(event, Retrying):
            self._forget_attempt()
        text = describe_retry(event) if isinstance(event, Retrying) else describe_stall(event)
        self._retry = NoteBlock(text, "warning")
        self._blocks.add(self._retry)

    def _forget_attempt(self) -> None:
        """Remove what the failed attempt said: the next one says it again."""
        for block in (self._answer, self._thinking):
            if block is not None:
                self._blocks.drop(block)
        self._answer = self._thinking = None

    # --- messages -------------------------------------------------------------------------------

    def _commit(self, message: Message) -> None:
        if message.seq <= self._last_seq:
            return
        self._last_seq = message.seq
        match message.role:
            case "user":
                self._commit_user(message)
            case "assistant":
                self._commit_answer(message)
            case _:
                self._commit_result(message)

    def _commit_user(self, message: Message) -> None:
        said = UserBlock(message.content).content
        if any(block.content == said for block in self._said):
            while (block := self._said.popleft()).content != said:
                pass  # these were never sent
            block.seq = message.seq
        else:
            self._blocks.add(make_user(message))

    def _commit_answer(self, message: Message) -> None:
        self._forget_retry()
        thoughts = find_thoughts(message)
        thinking, answer = self._thinking, self._answer
        self._thinking = self._answer = None
        if thinking is None and thoughts:
            self._blocks.add(ThinkingBlock(MarkdownText(thoughts), message.seq), before=answer)
        elif thinking is not None:
            thinking.running, thinking.seq = False, message.seq
            thinking.markdown.finish(thoughts or None)
            self._blocks.change(thinking)
        if answer is not None:
            answer.seq = message.seq
            answer.markdown.finish(message.content)
            self._blocks.change(answer)
        elif message.content.strip():
            self._blocks.add(AnswerBlock(MarkdownText(message.content), message.seq))
        for call in message.tool_calls:
            self._start_tool(call.id, call.name, read_arguments(call.arguments), message.seq)

    def _commit_result(self, message: Message) -> None:
        block = self._tools.pop(message.tool_call_id or "", None)
        if block is None:
            self._blocks.add(make_orphan(message))
        else:
            give_result(block, message)
            self._blocks.change(block)

    # --- tools ----------------------------------------------------------------------------------

    def _start_tool(
        self, call_id: str, name: str, arguments: dict[str, Any], seq: int | None = None
    ) -> None:
        block = self._tools.get(call_id)
        if block is None:
            self._tools[call_id] = block = ToolBlock(call_id, name, arguments, seq)
            self._blocks.add(block)
        block.state = "running"
        block.seq = block.seq or seq
        self._blocks.change(block)

    def _progress(self, call_id: str, text: str) -> None:
        if (block := self._tools.get(call_id)) is not None:
            block.progress = (block.progress + text)[-PROGRESS:]
            self._blocks.change(block)

    def _wait(self, call_id: str, *, is_waiting: bool) -> None:
        if (block := self._tools.get(call_id)) is not None:
            block.is_waiting = is_waiting
            self._blocks.change(block)

    def _set_state(self, call_id: str, *, is_error: bool) -> None:
        if (block := self._tools.get(call_id)) is not None:
            block.state = "failed" if is_error else "done"
            self._blocks.change(block)

    # --- the end --------------------------------------------------------------------------------

    def _end(self, turn: Turn) -> None:
        self._forget_retry()
        self._stop_thinking()
        for block in (self._thinking, self._answer):
            if block is not None:
                block.markdown.finish()
                self._blocks.change(block)
        self._thinking = self._answer = None
        for tool in self._tools.values():
            if tool.state == "running":
                tool.state = "stopped"
                self._blocks.change(tool)
        self._tools.clear()
        for text, style in describe_end(turn):
            self._blocks.add(NoteBlock(text, style))


def list_blocks(
    messages: Iterable[Message], unfinished: Mapping[int, Turn] | None = None
) -> list[Block]:
    """The blocks of stored messages; a tool's result goes to its call.

    `unfinished`: turns that were stopped after a message, by its number.
    """
    blocks: list[Block] = []
    calls: dict[str, ToolBlock] = {}
    for message in messages:
        match message.role:
            case "user":
                blocks.append(make_user(message))
            case "assistant":
                if thoughts := find_thoughts(message):
                    blocks.append(ThinkingBlock(MarkdownText(thoughts), message.seq))
                if message.content.strip():
                    blocks.append(AnswerBlock(MarkdownText(message.content), message.seq))
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
            blocks.append(UnfinishedBlock(turn.partial or "", ENDS.get(turn.status, turn.status)))
    return blocks


def make_user(message: Message) -> UserBlock:
    """What the person said."""
    return UserBlock(message.content, message.seq, len(blob_hashes(message.parts)))


def make_orphan(message: Message) -> ToolBlock:
    """A result whose call is not shown."""
    block = ToolBlock(message.tool_call_id or "", message.tool_name or "tool", {}, message.seq)
    give_result(block, message)
    return block


def give_result(block: ToolBlock, message: Message) -> None:
    """Set the result of a call."""
    block.result, block.result_seq = message.content, message.seq
    block.state = "failed" if message.is_error else "done"


def find_thoughts(message: Message) -> str:
    """What the model thought, if the provider says."""
    found = (
        part.get("thinking") or part.get("text")
        for part in message.parts
        if part.get("type") == "thinking"
    )
    return "\n\n".join(text for text in found if isinstance(text, str) and text.strip())
