"""A tool's question in line mode: which lines answer it, and what is asked next.

Only a whole line of a few words answers. "Always" shows the rule that it writes and asks once more;
"no" asks for a reason. Reading and writing lines is done by the plain chat and by `clew ask`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from clew.core.text import strip_controls
from clew.core.turn import MAX_REASON, Approval, ApprovalScope, Decision

YES: Final = ("y", "yes")
NO: Final = ("n", "no")


class Answer(msgspec.Struct, frozen=True):
    """What the person said to a question."""

    decision: Decision
    scope: ApprovalScope = "once"
    reason: str | None = None


Reading = Answer | Literal["asked", "message"]
"""An answer; or something else is asked now; or the line has nothing to do with the question."""


class LineQuestion:
    """One question, from the first prompt to the answer."""

    def __init__(self, approval: Approval) -> None:
        self.approval = approval
        rule = approval.request.get("rule")
        self._rule = strip_controls(str(rule)) if rule else None
        self._step: Literal["question", "rule", "reason"] = "question"

    @property
    def prompt(self) -> str:
        """What is asked now, with the words that answer it."""
        if self._step == "rule":
            return (
                f"  This rule is written to tools.allow, for every session:\n    {self._rule}\n"
                "  Write it? y or n: "
            )
        if self._step == "reason":
            return "  Why not? The model is told (Enter alone: no reason): "
        return f"  {self.words}: "

    @property
    def words(self) -> str:
        """The words that answer the question itself."""
        if self._rule is None:
            return "y (yes, once) or n (no)"
        return "y (yes, once), session, always or n (no)"

    def read(self, line: str) -> Reading:
        """Read one line that was typed after the prompt was shown."""
        word = line.strip().lower()
        if self._step == "reason":
            return Answer("no", reason=line.strip()[:MAX_REASON] or None)
        if self._step == "rule":
            self._step = "question"
            if word in YES:
                return Answer("yes", "always")
            return "asked" if word in ("", *NO) else "message"
        return self._read_answer(word)

    def _read_answer(self, word: str) -> Reading:
        if word in YES:
            return Answer("yes")
        if word in NO:
            self._step = "reason"
            return "asked"
        if word == "session" and self._rule is not None:
            return Answer("yes", "session")
        if word == "always" and self._rule is not None:
            self._step = "rule"
            return "asked"
        return "message" if word else "asked"
