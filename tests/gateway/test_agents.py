"""Agents of one gateway that differ: model, personality, workspace, tools and memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from clew.config import Config, load
from clew.core.cron import FIXED, CronJob
from clew.errors import InvalidConfig
from clew.runtime.cron import begin_run
from clew.testing.channel_contract import until
from clew.testing.telegram import GROUP, TOKEN, TelegramServer, open_telegram
from clew.wiring import House, open_configured_store, run_errands
from clew.wiring.channels import build_channels
from clew.wiring.checks import check_config, list_warnings

REMEMBER = {
    "name": "memory_write",
    "arguments": {"action": "add", "text": "The oven is new."},
}
MAKE = {"name": "shell", "arguments": {"command": "touch made"}}
COOK = {
    "rules": [
        {"when": "remember", "answers": [{"tool_calls": [REMEMBER]}, "Kept."]},
        {"when": "make it", "answers": [{"tool_calls": [MAKE]}, {"text": "", "echo": "results"}]},
    ],
    "answers": [{"text": "Cook: ", "echo": "instructions"}],
}
HOME = {"answers": [{"text": "Home: ", "echo": "instructions"}]}
AGENTS = """
[[agents]]
id = "home"
default = true

[[agents]]
id = "Kitchen"
model = "cook/x"
personality = "chef"
workspace = "{kitchen}"
tools = ["memory_*"]
memory = "own"

[[bindings]]
agent = "kitchen"
match = {{ channel = "telegram", peer = "group:{group}" }}
"""


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with open_telegram() as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, server: TelegramServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("work", "kitchen", "home/personalities/chef"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    home = tmp_path / "home"
    (home / "personalities" / "chef" / "SOUL.md").write_text("You are the chef of this house.")
    for name, script in (("home", HOME), ("cook", COOK)):
        (home / f"{name}.json").write_bytes(msgspec.json.encode(script))
    (home / "token").write_text(TOKEN)
    providers = "".join(
        f'[providers.{name}]\nkind = "python"\nfactory = "clew.testing.scripted:open_model"\n'
        f'base_url = "{home / name}.json"\n'
        for name in ("home", "cook")
    )
    channel = f'[channels.telegram]\ntoken = "file:{home}/token"\napi_url = "{server.base_url}"\n'
    agents = AGENTS.format(kitchen=tmp_path / "kitchen", group=GROUP.id)
    (home / "config.toml").write_text(
        f'model = "home/x"\nowners = ["telegram:7"]\n{agents}{providers}{channel}', encoding="utf-8"
    )
    return home


def read(home: Path) -> Config:
    return load(home=str(home), environ={})


@asynccontextmanager
async def serving(config: Config) -> AsyncIterator[House]:
    async with AsyncExitStack() as open_things:
        store = await open_configured_store(config)
        open_things.push_async_callback(store.close)
        house = House(config, store, settle_s=0.0)
        open_things.push_async_callback(house.close)
        await open_things.enter_async_context(run_errands(house, build_channels(config)))
        yield house


async def ask(server: TelegramServer, text: str, *, in_kitchen: bool) -> str:
    count = len(server.sent)
    if in_kitchen:
        await server.say(f"@clew_test_bot {text}", chat=GROUP)
    else:
        await server.say(text)
    await until(lambda: len(server.sent) > count)
    return server.sent[-1].text


async def test_each_agent_has_its_model_personality_workspace_tools_and_memory(
    home: Path, server: TelegramServer, tmp_path: Path
) -> None:
    async with serving(read(home)) as house:
        assert await ask(server, "remember the oven", in_kitchen=True) == "Kept."
        in_kitchen = await ask(server, "hello", in_kitchen=True)
        at_home = await ask(server, "hello", in_kitchen=False)
        refused = await ask(server, "make it", in_kitchen=True)
        key = f"agent:kitchen:telegram:group:{GROUP.id}"
        session = await house.store.find_route(key)
        assert session is not None
        assert (session.agent, session.cwd) == ("kitchen", str(tmp_path / "kitchen"))

        assert in_kitchen.startswith("Cook: You are the chef of this house.")
        assert "The oven is new." in in_kitchen
        assert f"Working directory: {tmp_path / 'kitchen'}" in in_kitchen
        assert at_home.startswith("Home: ")
        assert "oven" not in at_home
        assert "chef" not in at_home
        assert "The tools are: memory_read, memory_write." in refused
        assert list_memories(home) == ["agents/kitchen/MEMORY.md"]

        job = CronJob(
            name="soup", schedule="every 1h", due_at=0, text="hello", agent="kitchen", session=FIXED
        )
        await begin_run(house.runtime, house.models, job, "soup@1")
        await until(lambda: is_answered(house, job.key))
        cooked = await house.store.find_route(job.key)
        assert cooked is not None
        assert cooked.cwd == str(tmp_path / "kitchen")
        (*_, last) = await house.store.get_messages(cooked.id)
        assert last.content.startswith("Cook: You are the chef")


def list_memories(home: Path) -> list[str]:
    found = [each for each in home.rglob("MEMORY.md") if each.is_file()]
    return ["/".join(each.parts[-3:]) for each in found]


async def is_answered(house: House, key: str) -> bool:
    session = await house.store.find_route(key)
    if session is None:
        return False
    return [each.role for each in await house.store.get_messages(session.id)][-1:] == ["assistant"]


async def test_what_a_person_chooses_goes_before_the_agent(
    home: Path, server: TelegramServer
) -> None:
    async with serving(read(home)):
        await ask(server, "hello", in_kitchen=True)
        assert "Coach" in await ask(server, "/personality coach", in_kitchen=True)
        coached = await ask(server, "hello", in_kitchen=True)
        await ask(server, "/model home/x", in_kitchen=True)
        changed = await ask(server, "hello", in_kitchen=True)

    assert coached.startswith("Cook: ")
    assert "chef" not in coached
    assert changed.startswith("Home: ")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('id = "Kitchen"', 'id = "HOME"', 'two agents "home"'),
        ('agent = "kitchen"', 'agent = "garden"', 'the agent "garden", which is not there'),
        ("/kitchen", "/nowhere", 'workspace of the agent "Kitchen" is'),
        ('memory = "own"', 'memory = "mine"', "agents"),
        ('tools = ["memory_*"]', 'tool = ["memory_*"]', "agents"),
    ],
)
def test_an_agent_that_can_not_be_is_refused(home: Path, old: str, new: str, words: str) -> None:
    file = home / "config.toml"
    file.write_text(file.read_text().replace(old, new))

    with pytest.raises(InvalidConfig) as refused:
        check_config(read(home))

    assert words in str(refused.value)


def test_a_personality_or_a_model_that_is_not_there_is_a_warning(home: Path) -> None:
    file = home / "config.toml"
    text = file.read_text().replace('"chef"', '"cheff"').replace('model = "cook/', 'model = "coke/')
    file.write_text(text)

    told = "\n".join(list_warnings(read(home)))

    assert 'There is no personality "cheff"' in told
    assert 'the model of the agent "Kitchen" is coke/x, but there is no provider coke' in told
