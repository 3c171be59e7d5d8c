"""Pictures that a message names go along with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.terminal.pictures import LARGEST, MOST, find_pictures
from tests.cli.conftest import Home
from tests.cli.gateways import run_gateway

PNG = b"\x89PNG\r\n\x1a\n and so on"
ECHO = {"text": "You said: ", "echo": "user"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    (path / "shots").mkdir(parents=True)
    (path / "a.png").write_bytes(PNG)
    (path / "shots" / "my screen.jpg").write_bytes(b"\xff\xd8\xff and so on")
    (path / "notes.txt").write_text("no picture")
    (path / "fake.png").write_text("no picture either")
    (path / "empty.png").touch()
    (tmp_path / "private.png").write_bytes(PNG)
    (path / "way out.png").symlink_to(tmp_path / "private.png")
    return path


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("what is in @a.png?", ["image/png"]),
        ("@a.png", ["image/png"]),
        ("(see @a.png, and @a.png again)", ["image/png"]),
        ('compare @"shots/my screen.jpg" with @./a.png', ["image/jpeg", "image/png"]),
        ("nothing@a.png is an address", []),
        ("@notes.txt @fake.png @empty.png @shots @missing.png", []),
        ('@../private.png @"way out.png" @~/private.png', []),
        ("@" + "x" * 5_000 + " @\x00.png", []),
    ],
)
def test_pictures_of_this_directory_are_found_and_nothing_else(
    work: Path, text: str, kinds: list[str]
) -> None:
    assert [each.media_type for each in find_pictures(text, str(work))] == kinds


def test_what_is_outside_is_not_sent_though_its_whole_path_is_named(work: Path) -> None:
    assert find_pictures(f"@{work.parent}/private.png", str(work)) == ()
    assert len(find_pictures(f"@{work}/a.png", str(work))) == 1


def test_too_large_a_picture_and_too_many_stay_where_they_are(work: Path) -> None:
    (work / "large.png").write_bytes(PNG + b"\0" * LARGEST)
    names = [f"{number}.png" for number in range(MOST + 1)]
    for name in names:
        (work / name).write_bytes(PNG)
    text = "@large.png " + " ".join(f"@{name}" for name in names)
    assert len(find_pictures(text, str(work))) == MOST


@pytest.mark.parametrize("at_gateway", [False, True])
def test_a_picture_comes_with_the_message_here_and_over_a_gateway(
    tmp_path: Path, work: Path, at_gateway: bool
) -> None:
    home = Home(tmp_path / "home")
    home.script(ECHO)

    def talk() -> None:
        chat = home.chat("look at @a.png", cwd=work)
        assert chat.exit_code == 0, chat.output
        assert "Sent along: 1 picture." in chat.stderr
        asked = home.ask("-c", "and", "@a.png", cwd=work)
        assert asked.exit_code == 0, asked.output

    if at_gateway:
        with run_gateway(home):
            talk()
    else:
        talk()
    (session,) = home.json("list")["sessions"]
    said = [each for each in home.json("show", session["id"])["messages"] if each["role"] == "user"]
    assert [each["content"] for each in said] == ["look at @a.png", "and @a.png"]
    for each in said:
        (part,) = each["parts"]
        assert (part["type"], part["media_type"]) == ("image", "image/png")
    assert "+ 1 attached" in home.clew("show", session["id"]).output
