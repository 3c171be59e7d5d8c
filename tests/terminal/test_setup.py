"""`clew setup` and `/setup`: what is found on the machine, a key, a test, what is taken back."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clew import config as configuration
from clew.agent.models.local_servers import find_servers
from clew.api.handlers.parts import Caller
from clew.api.local import Calls, LocalTransport
from clew.client.client import Client
from clew.core.models import LocalServer
from clew.core.session import OWNER
from clew.errors import Forbidden
from clew.terminal.setup import set_up
from clew.wiring.house import House, open_house
from tests.agent.peer import answer, peering
from tests.cli.conftest import Home
from tests.cli.screens import Terminal


class Person:
    """Answers questions, one after the other, and keeps what was said."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.told: list[str] = []
        self.hidden: list[str] = []

    def note(self, text: str, style: str | None = "dim") -> None:
        self.told.append(text if style != "error" else f"error: {text}")

    async def ask(self, question: str) -> str:
        return await self.ask_text(question)

    async def ask_text(self, question: str, *, hidden: bool = False) -> str:
        self.told.append(question)
        if hidden:
            self.hidden.append(question)
        return self.answers.pop(0)


class ModelServer:
    """A server of models: lists some, answers each question with one word, keeps what came."""

    def __init__(self, listed: bytes) -> None:
        self.listed = listed
        self.heads: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.heads.append(head)
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + self.listed)
        writer.close()


@asynccontextmanager
async def serving(listed: object) -> AsyncIterator[ModelServer]:
    body = listed if isinstance(listed, bytes) else json.dumps(listed).encode()
    server = ModelServer(body)
    running = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}/v1"
    async with running:
        yield server


@asynccontextmanager
async def open_client(
    home: Path, servers: Sequence[str] = (), text: str = ""
) -> AsyncIterator[Any]:
    (home / "config.toml").write_text(f"{text}\n[models]\nservers = {json.dumps(servers)}\n")
    async with open_house(configuration.load(home=str(home), environ={})) as house:
        yield house, client_of(house)


def client_of(house: House, person: str = OWNER) -> Client:
    return Client(transport=LocalTransport(Calls(house), Caller(person)))


def list_ids(*ids: object) -> object:
    return {"data": [{"id": each} for each in ids]}


async def test_a_server_is_asked_for_its_models_without_key_or_text() -> None:
    async with serving(list_ids("qwen3:8b", "llama")) as server:
        found = await find_servers(("http://127.0.0.1:9/v1", server.url))
        port = server.url.split(":")[2].removesuffix("/v1")
        name = f"server-{port}"
        title = f"A server at port {port}"
        assert found == (LocalServer(name, title, server.url, ("qwen3:8b", "llama")),)
        assert server.heads == [f"GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n"]


@pytest.mark.parametrize(
    "listed",
    [
        b"<html>", b"[1]", b'{"data": 3}', b'{"data": [{"id": 3}]}', b'{"data": []}',
        b"[" * 100_000, b"x" * 300_000, list_ids("a\x1b[31m", "", "x" * 201, "two words", None),
    ],
)  # fmt: skip
async def test_whatever_else_listens_there_is_passed_over(listed: object) -> None:
    async with serving(listed) as server:
        assert await find_servers((server.url,)) == ()


async def test_only_the_owner_learns_what_listens_on_the_machine(tmp_path: Path) -> None:
    async with open_client(tmp_path) as (house, client):
        assert (await client.models.servers()).servers == ()
        with pytest.raises(Forbidden):
            await client_of(house, "telegram:7").models.servers()


async def test_a_key_is_kept_in_a_file_of_its_own_and_its_model_answers(tmp_path: Path) -> None:
    async with peering(answer("openai", "ready")) as peer, open_client(tmp_path) as (house, client):
        # The third of the choices without servers is Google's, the fourth another server.
        person = Person("4", f"{peer.url}/v1", "mine", "sk-secret-of-mine", "big")
        info = await set_up(client, person)
    assert info is not None
    assert info.name == "mine/big"
    assert len(person.hidden) == 1
    assert "sk-secret-of-mine" not in str(person.told)
    text = (tmp_path / "config.toml").read_text("utf-8")
    assert 'model = "mine/big"' in text
    assert "sk-secret" not in text
    file = tmp_path / "keys" / "mine.key"
    assert file.read_text() == "sk-secret-of-mine\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not house.models.get_model("mine/big").problem


@pytest.mark.parametrize("last", ["n", ""])
async def test_a_set_up_whose_test_fails_leaves_nothing_behind(tmp_path: Path, last: str) -> None:
    async with open_client(tmp_path) as (_, client):
        before = (tmp_path / "config.toml").read_text("utf-8")
        person = Person("4", "http://127.0.0.1:9/v1", "mine", "sk-secret", "big", last)
        assert await set_up(client, person) is None
    assert any(each.startswith("error: ") for each in person.told)
    assert person.told[-1] == "Nothing was changed."
    after = configuration.load(home=str(tmp_path), environ={})
    assert (after.model, dict(after.providers)) == (None, {})
    assert before.strip() in (tmp_path / "config.toml").read_text("utf-8")
    assert not (tmp_path / "keys" / "mine.key").exists()


async def test_one_may_keep_a_model_that_does_not_answer_now(tmp_path: Path) -> None:
    async with open_client(tmp_path) as (_, client):
        person = Person("4", "http://127.0.0.1:9/v1", "", "", "big", "y")
        info = await set_up(client, person)
    assert info is not None
    assert info.name == "server/big"


async def test_a_provider_that_is_configured_keeps_its_address_and_key(tmp_path: Path) -> None:
    text = '[providers.mine]\nbase_url = "https://models.example/v1"\napi_key = "sk-of-mine"\n'
    async with open_client(tmp_path, text=text) as (_, client):
        person = Person("4", "http://127.0.0.1:9/v1", "mine", "", "big", "y")
        info = await set_up(client, person)
    assert info is not None
    assert info.name == "mine-2/big"
    assert text in (tmp_path / "config.toml").read_text("utf-8")


@pytest.mark.parametrize("answers", [("",), ("99",), ("x",), ("1", ""), ("4", "")])
async def test_leaving_changes_nothing(tmp_path: Path, answers: tuple[str, ...]) -> None:
    async with open_client(tmp_path) as (_, client):
        before = (tmp_path / "config.toml").read_text("utf-8")
        assert await set_up(client, Person(*answers)) is None
    assert (tmp_path / "config.toml").read_text("utf-8") == before


def test_clew_setup_in_a_terminal_offers_what_was_found(home: Home, tmp_path: Path) -> None:
    home.path.mkdir(exist_ok=True)
    (home.path / "config.toml").write_text("[models]\nservers = []\n")
    terminal = Terminal(home, "setup", cwd=tmp_path)
    terminal.wait_for("Enter for none:")
    assert "[1] Anthropic" in terminal.text
    terminal.type("1\n")
    terminal.wait_for("The key (not shown):")
    terminal.type("sk-typed-here\n")
    terminal.wait_for("Which model?")
    terminal.wait_for("Enter for none:")
    terminal.type("\n")
    terminal.wait_for("Nothing was changed.")
    assert terminal.finish() == 0
    assert "sk-typed-here" not in terminal.output
    assert not list(home.path.glob("keys/*"))


def test_clew_setup_without_a_person_says_what_scripts_use(home: Home) -> None:
    result = home.clew("setup")
    assert result.exit_code == 2
    assert "clew model set" in result.stderr
