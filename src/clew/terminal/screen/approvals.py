"""The bar above the editor that asks for the approval of a tool call, and the keys that answer.

Several questions wait one after the other. The answer goes to the conversation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from clew.core.text import strip_controls
from clew.core.turn import Approval, ApprovalScope, Decision
from clew.terminal.plain_output import one_line, says_all

ANSWERS: Final[dict[str, tuple[Decision, ApprovalScope]]] = {
    "y": ("yes", "once"),
    "s": ("yes", "session"),
    "a": ("yes", "always"),
    "n": ("no", "once"),
}

LINES: Final = 400
"""Lines of a detail that can be scrolled through."""

SETTLES: Final = 0.6
"""Seconds in which a key is still taken as part of the message being typed."""


def detail_lines(approval: Approval) -> Iterator[tuple[str, str]]:
    """What exactly is asked for: lines, and the style of each (added, removed, head or none)."""
    detail = strip_controls(str(approval.request.get("detail") or ""))
    summary = str(approval.request.get("summary") or "")
    if not detail.strip() or says_all(summary, detail):
        return
    lines = detail.splitlines()
    is_diff = approval.tool_name in ("edit_file", "write_file")
    for line in lines[:LINES]:
        yield line.expandtabs(4), _style_of(line) if is_diff else ""
    if len(lines) > LINES:
        yield f"… {len(lines) - LINES:,} more lines", ""


def _style_of(line: str) -> str:
    if line.startswith(("+++ ", "--- ", "@@")):
        return "head"
    return {"+": "added", "-": "removed"}.get(line[:1], "")


class ApprovalBar(VerticalScroll, can_focus=True):
    """The oldest question that waits."""

    DEFAULT_CSS = """
    ApprovalBar {
        height: auto; max-height: 50%; display: none; padding: 0 1;
        background: $panel; border-top: solid $warning; scrollbar-size-vertical: 1;
    }
    ApprovalBar.-asking { display: block; }
    ApprovalBar:focus { border-top: heavy $warning; }
    ApprovalBar Static { height: auto; }
    ApprovalBar > .question { text-style: bold; }
    ApprovalBar > .keys { dock: bottom; color: $text-warning; }
    ApprovalBar.-aside > .detail { display: none; }
    """
    # With priority, so that the key after an answer goes to the editor, not to this bar.
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"answer('{key}')", show=False, priority=True) for key in ANSWERS),
        Binding("escape,tab,shift+tab", "put_aside", show=False, priority=True),
    ]

    @dataclass
    class Decided(Message):
        """The person has answered the oldest question."""

        decision: Decision
        scope: ApprovalScope

    def __init__(
        self, *, settles: float = SETTLES, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(id="approvals")
        self.give_back: Callable[[], None] = lambda: None
        """Called when keys are for the editor again."""
        self._waiting: list[Approval] = []
        self._settles = settles
        self._now = now
        self._shown_at = 0.0

    def compose(self) -> ComposeResult:
        """Question, detail, rule and keys."""
        yield Static(classes="question", markup=False)
        yield Static(classes="detail", markup=False)
        yield Static(classes="keys", markup=False)

    @property
    def waiting(self) -> tuple[Approval, ...]:
        """The questions, oldest first."""
        return tuple(self._waiting)

    def put(self, approval: Approval) -> None:
        """Another question."""
        self._waiting.append(approval)
        if len(self._waiting) == 1:
            self._begin()
        self._draw()

    def withdraw(self, approval: Approval) -> None:
        """A question that needs no answer any more."""
        oldest = self._waiting[:1]
        self._waiting = [each for each in self._waiting if each.id != approval.id]
        if self._waiting and self._waiting[:1] != oldest:
            self._begin()
        self._draw()

    def clear(self) -> None:
        """No questions at all."""
        self._waiting.clear()
        self._draw()

    def answer(self, key: str) -> bool:
        """Whether this key answers the oldest question; then it is answered."""
        if not self._waiting or key not in ANSWERS:
            return False
        decision, scope = ANSWERS[key]
        if scope != "once" and not self._waiting[0].request.get("rule"):
            return False  # nothing could be remembered
        self._waiting.pop(0)
        self._begin()
        self._draw()
        self.give_back()
        self.post_message(self.Decided(decision, scope))
        return True

    def answer_from_editor(self, key: str) -> bool:
        """The same for a key in the empty editor, where it may begin a message."""
        if not self._waiting or self.has_class("-aside"):
            return False
        if key == "escape":
            self.action_put_aside()
            return True
        return self._now() - self._shown_at >= self._settles and self.answer(key)

    def action_put_aside(self) -> None:
        """Let it wait, in as few lines as possible."""
        self.add_class("-aside")
        self._draw()
        self.give_back()

    def take_up(self) -> None:
        """Give the keys to this bar."""
        self.remove_class("-aside")
        self._shown_at = self._now() - self._settles
        self._draw()
        self.screen.set_focus(self)  # at once: the next key is already for it

    def action_answer(self, key: str) -> None:
        """A letter of an answer."""
        self.answer(key)

    def _begin(self) -> None:
        self._shown_at = self._now()
        self.remove_class("-aside")

    def _draw(self) -> None:
        self.set_class(bool(self._waiting), "-asking")
        if not self._waiting:
            return
        approval, more = self._waiting[0], len(self._waiting) - 1
        summary = one_line(str(approval.request.get("summary") or approval.tool_name), 400)
        behind = f"  ({more} more behind it)" if more else ""
        question, detail, keys = (
            self.query_one(f".{name}", Static) for name in ("question", "detail", "keys")
        )
        question.update(Text(f"? {summary}{behind}"))
        detail.update(self._detail(approval))
        keys.update(self._keys(approval))
        self.scroll_home(animate=False)

    def _detail(self, approval: Approval) -> Text:
        colours = self.app.theme_variables
        styles = {
            "added": colours.get("text-success", "green"),
            "removed": colours.get("text-error", "red"),
            "head": "dim",
        }
        text = Text(no_wrap=False)
        for line, style in detail_lines(approval):
            text.append(f"    {line}\n", styles.get(style, ""))
        if approval.request.get("rule"):
            rule = one_line(str(approval.request["rule"]), 70)
            text.append(f"  for the session or always, this is allowed: {rule}\n", "dim")
        text.rstrip()
        return text

    def _keys(self, approval: Approval) -> str:
        if self.has_class("-aside"):
            return "It waits: Tab goes back to it."
        remembered = "s for this session, a always, " if approval.request.get("rule") else ""
        return f"y yes once, {remembered}n no; Esc lets it wait"
