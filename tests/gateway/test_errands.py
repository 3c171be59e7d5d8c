"""What goes on beside the turns of a gateway, as its parts are wired."""

from __future__ import annotations

from pathlib import Path

from clew.client.parts import Caller
from clew.config import load
from clew.gateway.auth import Setup
from clew.wiring import open_gateway
from tests.runtime.conftest import soon

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
        status = await gateway.calls.call("status", {}, Caller())
        assert status.cron.jobs == 0
        assert "can't be read" in status.cron.problems["cron.json"]
