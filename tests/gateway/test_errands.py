"""What goes on beside the turns of a gateway, as its parts are wired."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from clew.api.handlers.parts import Caller
from clew.api.table import get_operation
from clew.clock import host_clock
from clew.config import load
from clew.core.delivery import NewInbound
from clew.core.session import NewSession
from clew.errors import InvalidConfig, RecordNotFound
from clew.gateway.auth import Setup
from clew.store import open_store
from clew.testing.clock import DAY
from clew.wiring import open_gateway
from tests.runtime.conftest import soon, until
from tests.transfer.samples.claude_code import CLAUDE_CODE
from tests.transfer.samples.talk import WHOLE

CONFIG = '[webhooks.ci]\nsecret = "a secret that is long enough"\n'


async def test_nothing_new_comes_in_once_it_stops_listening(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(CONFIG, encoding="utf-8")
    config = load(home=str(tmp_path), environ={})
    async with open_gateway(config, Setup()) as gateway:
        await soon(gateway.errands.stop_listening())
        assert all(each.done() for each in gateway.errands.listening)
        (channel,) = gateway.errands.list_channels()
        assert channel.state == "off"


async def test_a_file_of_jobs_that_can_t_be_read_is_told_with_the_status(tmp_path: Path) -> None:
    (tmp_path / "cron.json").write_text("{", encoding="utf-8")
    config = load(home=str(tmp_path), environ={})
    async with open_gateway(config, Setup()) as gateway:
        status = await gateway.calls.call(get_operation("status"), {}, Caller())
        assert status.cron.jobs == 0
        assert "can't be read" in status.cron.problems["cron.json"]


def write_jobs(home: Path, *jobs: dict[str, object]) -> None:
    made = [{"schedule": "every 1d", "text": "x", "due_at": 1} | each for each in jobs]
    (home / "cron.json").write_bytes(msgspec.json.encode({"jobs": made}))


async def test_what_dies_of_a_bug_is_told_and_shown_and_the_rest_goes_on(tmp_path: Path) -> None:
    write_jobs(tmp_path, {"name": "bad", "timezone": "Nowhere/City"}, {"name": "good"})
    config = load(home=str(tmp_path), environ={})
    told: list[str] = []
    async with open_gateway(config, Setup(), tell=told.append) as gateway:
        store = gateway.house.runtime.store

        async def is_down() -> bool:
            return any(each.state == "down" for each in gateway.errands.list_errands())

        async def has_run() -> bool:
            return bool(await store.find_keys("agent:main:cron:good"))

        await until(is_down)
        status = await gateway.calls.call(get_operation("status"), {}, Caller())
        states = {each.name: each.state for each in status.errands}
        assert states == {
            "replies": "up",
            "jobs": "down",
            "channels": "off",
            "signs": "up",
            "others": "up",
            "tidying": "up",
        }
        assert "Nowhere/City" in status.cron.problems["bad"]
        assert "Nowhere/City" in told[0]
        assert told[0].startswith("Jobs are not run: ")

        await until(has_run)
        assert [each.state for each in gateway.errands.list_errands()] == [
            "up", "up", "off", "up", "up", "up",
        ]  # fmt: skip
        assert len(told) == 1


async def test_a_gateway_puts_old_sessions_away_and_removes_what_is_settled(tmp_path: Path) -> None:
    config = load(home=str(tmp_path), environ={})
    now = host_clock()
    async with await open_store(config.store.url, clock=lambda: now - 100 * DAY) as before:
        old = await before.create_session(NewSession(key="old"))
        gone = await before.create_session(NewSession(key="gone"))
        await before.delete_sessions([gone.id])
        await before.accept(NewInbound(id="settled", channel="c", key="k", external_id="1"))
        await before.drop_inbound(["settled"])
    async with await open_store(config.store.url) as lately:
        await lately.create_session(NewSession(key="new"))

    async with open_gateway(config, Setup()) as gateway:
        store = gateway.house.runtime.store

        async def is_tidy() -> bool:
            session = await store.get_session(old.id)
            try:
                await store.get_inbound("settled")
            except RecordNotFound:
                return session.archived_at is not None
            return False

        await until(is_tidy)
        assert await store.restore_last() == ()


async def test_a_gateway_follows_the_histories_that_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "person" / ".claude"))
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text('[import]\nfollow = ["claude-code"]\n', encoding="utf-8")
    CLAUDE_CODE.write(tmp_path / "person", WHOLE)
    async with open_gateway(load(home=str(home), environ={}), Setup()) as gateway:
        store = gateway.house.runtime.store

        async def is_there() -> bool:
            found = await store.find_imports(WHOLE.native)
            return bool(found) and found[0].head == len(CLAUDE_CODE.said(WHOLE))

        await until(is_there)
        assert "histories" in {each.name for each in gateway.errands.list_errands()}


async def test_an_agent_that_nobody_can_follow_is_a_wrong_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[import]\nfollow = ["nobody"]\n', encoding="utf-8")
    with pytest.raises(InvalidConfig, match="nobody"):
        async with open_gateway(load(home=str(tmp_path), environ={}), Setup()):
            pass
