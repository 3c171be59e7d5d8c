"""The configuration over the operations: shown without secrets, changed where a page may."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clew import config as configuration
from clew.api.handlers.parts import Caller
from clew.api.local import Calls, LocalTransport
from clew.client.client import Client
from clew.core.models import PersonalityEdit
from clew.core.session import OWNER
from clew.errors import Conflict, Forbidden, InvalidConfig, InvalidInput, ModelNotFound
from clew.wiring.house import House, open_house
from clew.wiring.stores import back_up_store

SECRET = "sk-" + "x1" * 20
CONFIG = f"""# mine
model = "other/big"

[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "SCRIPT"
models = ["one"]

[providers.other]
base_url = "https://models.example/v1"
api_key = "{SECRET}"
"""


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    script = tmp_path / "script.json"
    answers = [{"text": "ready ", "echo": "instructions"}]
    script.write_text(json.dumps(answers), encoding="utf-8")
    (tmp_path / "config.toml").write_text(CONFIG.replace("SCRIPT", str(script)), encoding="utf-8")
    config = configuration.load(
        home=str(tmp_path), environ={"CLEW_THINKING": "low", "OPENAI_API_KEY": SECRET}
    )
    async with open_house(config) as house:
        yield house


def client_of(house: House, person: str = OWNER) -> Client:
    return Client(transport=LocalTransport(Calls(house), Caller(person)))


async def test_every_value_is_shown_with_its_source_and_no_secret(house: House) -> None:
    shown = await client_of(house).config.show()
    values = {each.key: (each.value, each.source) for each in shown.settings}
    file = str(house.config.file)
    assert values["model"] == ("other/big", file)
    assert values["thinking"] == ("low", "CLEW_THINKING")
    assert values["session.trash_days"][1] == "default"
    assert values["providers.other.api_key"][1] == file
    assert set(configuration.KEYS) <= set(values)
    assert SECRET not in str(shown)
    with pytest.raises(Forbidden):
        await client_of(house, "telegram:7").config.show()
    with pytest.raises(Forbidden):
        await client_of(house, "telegram:7").config.set("model", "x/y")


async def test_the_default_model_is_changed_in_the_file_and_at_once(house: House) -> None:
    client = client_of(house)
    assert (await client.models.list()).current.name == "other/big"
    changed = await client.config.set("model", "other/small")
    assert (changed.setting.value, changed.setting.source) == (
        "other/small",
        str(house.config.file),
    )
    assert (await client.models.list()).current.name == "other/small"
    text = house.config.file.read_text("utf-8")
    assert text.startswith("# mine")
    assert 'model = "other/small"' in text
    await client.config.set("model", None)
    assert "other/small" not in house.config.file.read_text("utf-8")


async def test_a_new_address_of_a_provider_clears_its_key(house: House) -> None:
    client = client_of(house)
    changed = await client.config.set("providers.other.base_url", "https://thief.example/v1")
    assert changed.cleared == ("providers.other.api_key",)
    text = house.config.file.read_text("utf-8")
    assert SECRET not in text
    assert "thief" in text
    assert house.config.providers["other"].api_key is None
    assert house.models._providers["other"].api_key is None
    again = await client.config.set("providers.other.base_url", "https://thief.example/v1")
    assert again.cleared == ()


async def test_a_key_in_a_variable_is_not_sent_to_a_new_address(house: House) -> None:
    client, before = client_of(house), house.config.file.read_bytes()
    for key, value in (("base_url", "https://thief.example/v1"), ("kind", "anthropic")):
        with pytest.raises(Conflict, match="OPENAI_API_KEY"):
            await client.config.set(f"providers.openai.{key}", value)
    assert house.config.file.read_bytes() == before


async def test_a_key_goes_into_a_file_that_only_its_owner_reads(house: House) -> None:
    client, secret = client_of(house), "sk-" + "new" * 10
    changed = await client.config.set("providers.other.api_key", f" {secret}\n")
    assert secret not in str(changed)
    assert secret not in house.config.file.read_text("utf-8")
    file = house.config.file.parent / "keys" / "other.key"
    assert file.read_text("utf-8") == f"{secret}\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o077 == 0
    key = house.config.providers["other"].api_key
    assert key is not None
    assert configuration.reveal(key) == secret
    loaded = configuration.load(home=str(house.config.file.parent), environ={})
    assert loaded.providers["other"].api_key == key
    # What looks like a place is a key too: no other file can be named.
    await client.config.set("providers.other.api_key", "file:/etc/passwd")
    key = house.config.providers["other"].api_key
    assert key is not None
    assert configuration.reveal(key) == "file:/etc/passwd"
    await client.config.set("providers.other.base_url", "https://new.example/v1")
    assert not file.exists(), "a key that is cleared is gone"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("store.url", "sqlite:////tmp/x.db"),
        ("tools.allow", '["shell"]'),
        ("hooks.turn_started", '["rm"]'),
        ("providers.other.factory", "os:system"),
        ("providers.other", "{}"),
        ("providers.../../x.api_key", "secret-key"),
        ("mcp.x.command", '["sh"]'),
        ("nothing", "1"),
        ("providers.other.api_key", "two\nlines"),
        ("providers.other.api_key", "  "),
        ("providers.other.api_key", "x" * 1001),
        ("providers.other.base_url", "ftp://x"),
        ("providers.other.kind", "nothing"),
        ("thinking", "high"),
    ],
)
async def test_what_a_page_may_not_change_stays(house: House, key: str, value: str) -> None:
    before, config = house.config.file.read_bytes(), house.config
    with pytest.raises((InvalidInput, InvalidConfig, Conflict)):
        await client_of(house).config.set(key, value)
    assert house.config.file.read_bytes() == before
    assert house.config == config
    assert not (house.config.file.parent / "keys").exists() or not list(
        (house.config.file.parent / "keys").iterdir()
    )


async def test_two_changes_at_once_are_both_kept(house: House) -> None:
    client = client_of(house)
    await asyncio.gather(
        *(client.config.set(f"providers.p{number}.models", f'["m{number}"]') for number in range(8))
    )
    assert {f"p{number}" for number in range(8)} <= set(house.config.providers)
    loaded = configuration.load(home=str(house.config.file.parent), environ={})
    assert loaded.providers["p7"].models == ("m7",)


async def test_a_model_that_does_not_answer_says_why(house: House) -> None:
    client = client_of(house)
    await client.config.set("providers.here.base_url", "http://127.0.0.1:9/v1")
    tested = await client.models.test("here/model")
    assert (tested.model, tested.works) == ("here/model", False)
    assert tested.words
    assert tested.ms >= 0
    with pytest.raises(Forbidden):
        await client_of(house, "telegram:7").models.test()


async def test_a_model_that_answers_says_what_it_said_and_how_long_it_took(house: House) -> None:
    tested = await client_of(house).models.test("script/one")
    assert (tested.model, tested.works) == ("script/one", True)
    assert tested.words.startswith("ready")


async def test_a_personality_is_changed_made_and_tried(house: House) -> None:
    client = client_of(house)
    before = await client.personalities.get("default")
    assert before.builtin
    changed = await client.personalities.update("default", PersonalityEdit(description="Mine"))
    assert (changed.description, changed.soul) == ("Mine", before.soul)
    new = PersonalityEdit(
        name="Pirate", soul="Talk like a pirate.", model="script/one", tools=("read_file",)
    )
    made = await client.personalities.update("pirate", new)
    assert (made.name, made.soul, made.tools) == ("Pirate", "Talk like a pirate.", ("read_file",))
    directory = house.config.file.parent / "personalities" / "pirate"
    with (directory / "config.toml").open("a", encoding="utf-8") as file:
        file.write("# a note\n")
    made = await client.personalities.update("pirate", PersonalityEdit(tools=None, thinking="low"))
    assert (made.tools, made.thinking, made.model) == (None, "low", "script/one")
    assert "# a note" in (directory / "config.toml").read_text("utf-8")
    asked = await client.personalities.test("pirate", "Who are you?")
    assert asked.works
    assert "Talk like a pirate." in asked.words
    other = await client.personalities.test("pirate", "Who are you?", soul="Be brief.")
    assert "Be brief." in other.words
    assert (await client.personalities.get("pirate")).soul == "Talk like a pirate."


@pytest.mark.parametrize("wrong", ["../x", "Big", "", "a/b", "x" * 65, ".", "\0"])
async def test_a_personality_has_a_plain_id(house: House, wrong: str) -> None:
    with pytest.raises(InvalidInput):
        await client_of(house).personalities.update(wrong, PersonalityEdit(soul="x"))
    assert not (house.config.file.parent / "personalities").exists()


async def test_a_personality_names_a_model_that_is_known(house: House) -> None:
    client = client_of(house)
    with pytest.raises(ModelNotFound):
        await client.personalities.update("default", PersonalityEdit(model="no/such/model"))
    with pytest.raises(InvalidInput):
        await client.personalities.update("default", PersonalityEdit(soul="x" * 20_001))
    with pytest.raises(Forbidden):
        await client_of(house, "telegram:7").personalities.update("default", PersonalityEdit())
    assert (await client.personalities.get("default")).builtin


async def test_the_status_has_what_can_be_seen_of_the_store_and_the_last_backup(
    house: House, tmp_path: Path
) -> None:
    client = client_of(house)
    status = await client.status()
    assert {each.name for each in status.findings} == {
        "file system",
        "permissions",
        "disk space",
        "write-ahead log",
    }
    assert (status.backed_up_at, status.inbox, status.outbox) == (None, {}, {})
    back_up_store(
        house.config, tmp_path / "copy.db", now=123_456, force=False, progress=lambda *_: None
    )
    assert (await client.status()).backed_up_at == 123_456
    guest = await client_of(house, "telegram:7").status()
    assert (guest.findings, guest.backed_up_at) == ((), None)
