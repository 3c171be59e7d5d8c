"""The example of a channel of one's own: built from a config file, and answered through it."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from clew.config import load
from clew.testing.channel_contract import until
from clew.wiring import House, open_configured_store, run_errands
from clew.wiring.channels import build_channels

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "script.json"
    script.write_bytes(msgspec.json.encode(["Hello yourself."]))
    (tmp_path / "config.toml").write_text(
        f"""model = "script/x"
owners = ["drop:me"]
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{script}"
[channels.drop]
factory = "own_channel:build"
options = {{ directory = "{tmp_path / "drop"}" }}
"""
    )
    return tmp_path


async def test_a_file_is_a_message_and_its_answer_is_a_file(home: Path) -> None:
    config = load(home=str(home), environ={})
    (home / "drop" / "in").mkdir(parents=True)
    (home / "drop" / "in" / "me-1.txt").write_text("Hello")
    store = await open_configured_store(config)
    house = House(config, store, settle_s=0.0)
    try:
        async with run_errands(house, build_channels(config)):
            out = home / "drop" / "out"
            await until(lambda: any(each.read_text() for each in out.glob("*.txt")))
            answers = [each.read_text() for each in out.glob("*.txt")]
    finally:
        await house.close()
        await store.close()

    assert answers == ["Hello yourself."]
    assert list((home / "drop" / "in").iterdir()) == []
    sys.modules.pop("own_channel", None)
