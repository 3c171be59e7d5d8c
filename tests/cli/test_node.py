"""`clew node run`: another machine calls a gateway that runs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from clew.cli import main
from tests.cli.conftest import Home
from tests.cli.gateways import run_gateway


def run(elsewhere: Path, *args: str, stdin: bytes = b"") -> Result:
    """On another machine, which has a home of its own and knows nothing of the gateway's."""
    return CliRunner().invoke(
        main, ["node", "run", *args], env={"CLEW_HOME": str(elsewhere)}, input=stdin
    )


def test_a_machine_has_one_session_and_gets_its_answers(home: Home, tmp_path: Path) -> None:
    home.script("All is well.", "Thank you.")
    elsewhere = tmp_path / "elsewhere"
    with run_gateway(home) as gateway:
        to = ("--url", gateway.url, "--token", gateway.token, "--name", "Backup Host")
        first = run(elsewhere, *to, "Is any disk full?", stdin=b"/dev/sda 40 %\n")
        assert (first.exit_code, first.stdout) == (0, "All is well.\n"), first.stderr
        second = msgspec.json.decode(run(elsewhere, *to, "--json", "Done.").stdout)

    assert (second["key"], second["answer"]) == ("agent:main:node-backup-host", "Thank you.")
    thread = home.json("show", second["session_id"])["messages"]
    assert [each["content"] for each in thread] == [
        "Is any disk full?\n\n/dev/sda 40 %", "All is well.", "Done.", "Thank you.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (("--url", "http://127.0.0.1:9", "--token", "x", "hello"), 1, "127.0.0.1:9"),
        (("--url", "http://127.0.0.1:9", "--token", "x"), 2, "nothing to say"),
        (("--url", "http://127.0.0.1:9", "--name", "é ", "hello"), 2, "--name"),
        (("hello",), 2, "--url"),
    ],
)
def test_what_can_not_be_is_told(
    tmp_path: Path, args: tuple[str, ...], code: int, word: str
) -> None:
    result = run(tmp_path, *args)

    assert (result.exit_code, word in result.stderr) == (code, True), result.stderr
