"""The consoles of the docs, written down anew, look as they do for the reader."""

from __future__ import annotations

from pathlib import Path

from scripts import consoles


def test_columns_stay_columns_where_a_row_names_the_home(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ clew config show\n```\n", encoding="utf-8")
    text, failed = consoles.rewrite(page)
    assert not failed
    head, *rows = text.splitlines()[2:-1]
    assert any(f"sqlite://{consoles.READER}/try/sessions.db" in row for row in rows)
    column = head.rindex(head.split()[-1])
    starts = {row.rindex("  ") + 2 for row in rows}
    assert starts == {column}, text


def test_a_home_is_as_long_as_the_readers_and_gone_afterwards() -> None:
    with consoles.empty_home() as home:
        assert len(str(home)) == len(consoles.READER)
        assert not list(home.iterdir())
    assert not home.exists()
