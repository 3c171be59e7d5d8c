"""What was sent before, and how one goes back to it."""

from __future__ import annotations

from pathlib import Path

from clew.terminal.screen.history import History


def test_going_back_before_the_file_was_read_reads_it(tmp_path: Path) -> None:
    History(tmp_path / "history.jsonl").keep("said before")
    history = History(tmp_path / "history.jsonl")
    assert history.older("draft") == "said before"
    assert history.newer() == "draft"


def test_reading_the_file_twice_is_as_once(tmp_path: Path) -> None:
    History(tmp_path / "history.jsonl").keep("said before")
    history = History(tmp_path / "history.jsonl")
    history.load()
    history.load()
    assert [history.older(""), history.older("")] == ["said before", None]
