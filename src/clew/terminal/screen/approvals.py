"""The bar above the editor that asks for the approval of a tool call.

An answer is moved to and then taken with Enter. Nothing is chosen when a question appears, and
letters are always for the editor, so typing never answers. Several questions wait one after the
other. The answer goes to the conversation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Input, Static

from clew.core.text import strip_controls
from clew.core.turn import MAX_REASON, Approval, ApprovalScope, Decision
from clew.terminal.plain_output import one_line, says_all

Choice = Literal["once", "session", "always", "no", "write", "back"]

NAMES: Final[dict[Choice, str]] = {
    "once": "Yes, once",
    "session": "This session",
    "always": "Always",
    "no": "No",
    "write": "Write this rule",
    "back": "Back",
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
    """The oldest question that waits. It has the focus exactly while one of its answers is chosen.

    `step` is what is asked at the moment: the question itself, whether a rule may be written
    (after "always"), or the reason (after "no").
    """

    DEFAULT_CSS = """
    ApprovalBar {
        height: auto; max-height: 50%; display: none; padding: 0 1;
        background: $panel; border-top: solid $warning; scrollbar-size-vertical: 1;
    }
    ApprovalBar.-asking { display: block; }
    ApprovalBar:focus-within { border-top: heavy $warning; }
    ApprovalBar Static { height: auto; }
    ApprovalBar > .question { text-style: bold; }
    ApprovalBar > .keys { dock: bottom; color: $text-warning; }
    ApprovalBar > Input { margin: 0 3; }
    ApprovalBar.-aside > .detail { display: none; }
    """
    # With priority, so that the key after an answer goes to the editor, not to this bar.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", show=False, priority=True),
        Binding("right", "move(1)", show=False, priority=True),
        Binding("tab", "move(1)", show=False, priority=True),
        Binding("shift+tab", "move(-1)", show=False, priority=True),
        Binding("enter", "take", show=False, priority=True),
        Binding("escape", "step_back", show=False, priority=True),
    ]

    @dataclass
    class Decided(Message):
        """The person has answered a question."""

        approval: Approval
        decision: Decision
        scope: ApprovalScope = "once"
        reason: str | None = None

    def __init__(
        self, *, settles: float = SETTLES, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(id="approvals")
        self.give_back: Callable[[], None] = lambda: None
        """Called when keys are for the editor again."""
        self.step: Literal["question", "rule", "reason"] = "question"
        self.chosen: Choice | None = None
        self._waiting: list[Approval] = []
        self._settles = settles
        self._now = now
        self._shown_at = 0.0
        self._reason = Input(
            placeholder="Why? The model is told; Enter alone for no reason",
            max_length=MAX_REASON,
            compact=True,
        )
        self._reason.display = False

    def compose(self) -> ComposeResult:
        """Question, detail, rule and answers."""
        yield Static(classes="question", markup=False)
        yield Static(classes="detail", markup=False)
        yield self._reason
        yield Static(classes="keys", markup=False)

    @property
    def waiting(self) -> tuple[Approval, ...]:
        """The questions, oldest first."""
        return tuple(self._waiting)

    @property
    def answers(self) -> tuple[Choice, ...]:
        """What can be chosen now. Without a rule, nothing could be remembered."""
        if not self._waiting or self.step == "reason":
            return ()
        if self.step == "rule":
            return ("write", "back")
        if self._waiting[0].request.get("rule"):
            return ("once", "session", "always", "no")
        return ("once", "no")

    @property
    def is_settled(self) -> bool:
        """Whether the question was there long enough for a key to be meant for it."""
        return self._now() - self._shown_at >= self._settles

    @property
    def has_keys(self) -> bool:
        """Whether an answer is chosen, so that the keys are for this bar."""
        return self.chosen is not None

    # --- the questions --------------------------------------------------------------------------

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
        if self._waiting[:1] != oldest:
            self._begin()
        self._draw()

    def clear(self) -> None:
        """No questions at all."""
        self._waiting.clear()
        self._begin()
        self._draw()

    def _begin(self) -> None:
        """Show the next question, with nothing chosen."""
        self._shown_at = self._now()
        self.remove_class("-aside")
        self._reason.value = ""
        self._go("question")

    # --- the keys -------------------------------------------------------------------------------

    def take_editor_key(self, key: str) -> bool:
        """Handle a key of the editor: Tab and arrows go to the answers, Esc lets the question wait.

        Up and Down are not among them: with Enter behind it, Up sends a message once more. Returns
        whether it was such a key.
        """
        is_aside = self.has_class("-aside")
        if not self._waiting or key not in ("tab", "left", "right", "escape"):
            return False
        if key == "tab" and is_aside:  # it is seen before an answer can be chosen
            self.remove_class("-aside")
            self._draw()
        elif is_aside:
            return False
        elif key == "escape":
            self.action_step_back()
        elif self.is_settled:
            self.action_move(-1 if key == "left" else 1)
        return True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The keys are for this bar while an answer is chosen; those of a reason while it is typed.

        What is typed as a reason has arrows and Tab for itself.
        """
        if action == "move":
            return self.has_keys
        if action in ("take", "step_back"):
            return self.has_keys or self.step == "reason"
        return super().check_action(action, parameters)

    def action_move(self, by: int) -> None:
        """Choose the next answer; beyond the last one, and before the first, is the editor."""
        places: tuple[Choice | None, ...] = (None, *self.answers)
        self._choose(places[(places.index(self.chosen) + by) % len(places)])

    def let_go(self) -> None:
        """Choose nothing: the keys are for the editor."""
        if self.chosen is not None:
            self._choose(None)

    @property
    def is_asking(self) -> bool:
        """Whether a question is shown that Esc would let wait."""
        return bool(self._waiting) and not self.has_class("-aside")

    def put_aside(self) -> None:
        """Let the question wait, in as few lines as possible."""
        self.add_class("-aside")
        self._go("question")

    def action_step_back(self) -> None:
        """From a second question to the first; from that to the editor."""
        if self.step == "question":
            self.put_aside()
        else:
            self._go("question")

    def action_take(self) -> None:
        """Take the answer that is chosen."""
        match self.step, self.chosen:
            case "question", "once":
                self._decide("yes")
            case "question", "session":
                self._decide("yes", "session")
            case "question", "always":
                self._go("rule")
            case "question", "no":
                self._go("reason")
            case "rule", "write":
                self._decide("yes", "always")
            case "rule", "back":
                self._go("question")
            case "reason", _:
                self._decide("no", reason=self._reason.value.strip() or None)

    def _decide(
        self, decision: Decision, scope: ApprovalScope = "once", reason: str | None = None
    ) -> None:
        approval = self._waiting.pop(0)
        self._begin()
        self.post_message(self.Decided(approval, decision, scope, reason))

    def _go(self, step: Literal["question", "rule", "reason"]) -> None:
        """Ask something, with nothing chosen; a reason is typed at once."""
        self.step = step
        self._reason.display = step == "reason"
        self._choose(None)
        if step == "reason":
            self.screen.set_focus(self._reason)

    def _choose(self, choice: Choice | None) -> None:
        had_keys = self.screen.focused in (self, self._reason)
        self.chosen = choice
        self._draw()
        if choice is not None:
            self.screen.set_focus(self)  # at once: the next key is already for it
        elif had_keys:
            self.give_back()

    def on_focus(self) -> None:
        """Give a focus back that comes by itself, as when the terminal's window gets it again."""
        if self.chosen is None:
            self.give_back()

    def on_blur(self) -> None:
        """The keys are for something else now, so Enter must not answer."""
        if self.screen.focused not in (None, self):  # None: the terminal's window has lost it
            self.let_go()

    def on_descendant_blur(self) -> None:
        """The reason is not being typed any more."""
        if self.step == "reason" and self.screen.focused not in (None, self._reason):
            self._go("question")

    # --- how it looks ---------------------------------------------------------------------------

    def on_resize(self) -> None:
        """A low screen shows less."""
        self._draw()

    def _draw(self) -> None:
        self.set_class(bool(self._waiting), "-asking")
        if not self._waiting:
            return
        approval = self._waiting[0]
        question, detail, keys = (
            self.query_one(f".{name}", Static) for name in ("question", "detail", "keys")
        )
        question.update(Text(self._question(approval)))
        detail.update(self._rule(approval) if self.step == "rule" else self._detail(approval))
        keys.update(self._keys())
        if self.chosen is None:
            self.scroll_home(animate=False)

    def _question(self, approval: Approval) -> str:
        if self.step == "rule":
            return "? Allow this always, in every session? This rule is written to tools.allow:"
        summary = one_line(str(approval.request.get("summary") or approval.tool_name), 400)
        more = len(self._waiting) - 1
        return f"? {summary}" + (f"  ({more} more behind it)" if more else "")

    def _rule(self, approval: Approval) -> Text:
        return Text(f"    {strip_controls(str(approval.request['rule']))}")

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

    def _keys(self) -> Text:
        if self.has_class("-aside"):
            return Text("It waits: Tab goes back to it.")
        if self.step == "reason":
            return Text("Enter refuses it, Esc goes back")
        text = Text()
        for choice in self.answers:
            text.append(f" {NAMES[choice]} ", "reverse bold" if choice == self.chosen else "")
            text.append(" ")
        if self.screen.has_class("-low"):  # a line more for the question
            return text
        text.append("\n")
        back = "Esc lets it wait" if self.step == "question" else "Esc goes back"
        if self.chosen is None:
            text.append(f"Tab or → goes to the answers; {back}", "dim")
        else:
            text.append(f"← → choose, Enter takes it, ↑ ↓ scroll; {back}", "dim")
        return text
