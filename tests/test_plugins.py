"""The package of the examples, installed: each of the six ways to extend clew does its work."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import clew
from clew.config import load
from clew.errors import InvalidInput, StoreUnavailable
from clew.wiring.channels import build_channels
from clew.wiring.gateway import run_errands
from clew.wiring.house import House
from clew.wiring.plugins import list_installed, list_plugin_tools
from clew.wiring.stores import open_configured_store
from tests.runtime.conftest import until

EXAMPLE = Path(__file__).parents[1] / "examples" / "plugin"
MODULE = "clew_example"


def install(site: Path, name: str, entries: dict[str, dict[str, str]]) -> None:
    """Declare entry points, as an installer does."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in each.items())
        for group, each in entries.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where packages are installed; the example is."""
    site = tmp_path / "site"
    declared = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    install(site, declared["name"], declared["entry-points"])
    (site / f"{MODULE}.py").write_text((EXAMPLE / f"{MODULE}.py").read_text())
    monkeypatch.syspath_prepend(str(site))
    yield site
    sys.modules.pop(MODULE, None)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "in").mkdir()
    monkeypatch.chdir(home)
    (home / "config.toml").write_text(
        f"""model = "parrot/polly"
owners = ["drop:me"]
[store]
url = "counted://{home}/sessions.db"
[channels.drop]
options = {{ directory = "{home}/in" }}
"""
    )
    return home


def run(site: Path, home: Path, *arguments: str, **environment: str) -> str:
    """Run clew as a process, with the packages of the site."""
    ended = subprocess.run(
        [sys.executable, "-m", "clew", "--home", str(home), *arguments],
        env=os.environ | {"PYTHONPATH": str(site)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


async def test_the_example_is_a_tool_a_model_a_store_a_channel_and_a_hook(
    site: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_EXAMPLE_LOG", str(home / "log"))
    (home / "in" / "me.txt").write_text("Hello")
    config = load(home=str(home), environ={})
    store = await open_configured_store(config)
    house = House(config, store, settle_s=0.0)
    try:
        assert [each.name for each in list_plugin_tools()] == ["roll_dice"]
        async with run_errands(house, build_channels(config)):
            answer, log = home / "in" / "me.answer", home / "log"

            async def is_done() -> bool:
                return answer.exists() and bool(answer.read_text()) and log.exists()

            await until(is_done)
        assert (home / "in" / "me.answer").read_text() == "polly says: Hello"
        assert (home / "log").read_text().startswith("turn_end ")
        assert (home / "sessions.count").read_text() == "1"
    finally:
        await house.close()
        await store.close()


def test_the_agent_uses_the_tool_where_a_rule_allows_it(site: Path, home: Path) -> None:
    script = [
        {"tool_calls": [{"name": "roll_dice", "arguments": {"sides": 6}}]},
        {"text": "So: ", "echo": "results"},
    ]
    (home / "script.json").write_bytes(msgspec.json.encode(script))
    (home / "config.toml").write_text(
        f"""model = "script/x"
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{home}/script.json"
"""
    )
    assert "can't be asked" in run(site, home, "ask", "roll")
    said = run(site, home, "ask", "--key", "again", "roll", CLEW_TOOLS_ALLOW="roll_dice")
    assert "It shows " in said


def test_the_importer_brings_a_session_and_all_are_listed(site: Path, home: Path) -> None:
    (home / "config.toml").write_text("")
    (home / "monday.diary").write_text("me: what day is it?\nit: Monday\nnonsense\n")
    run(site, home, "import", str(home / "monday.diary"))
    found = json.loads(run(site, home, "list", "--all", "--json"))
    assert "what day is it?" in json.dumps(found)
    listed = json.loads(run(site, home, "plugins", "--json"))
    assert {each["group"] for each in listed} == {
        "clew.tools", "clew.channels", "clew.stores", "clew.importers", "clew.models", "clew.hooks",
    }  # fmt: skip
    assert {each["problem"] for each in listed} == {None}
    assert {each["package"] for each in listed} == {"clew-example"}


def test_a_broken_plugin_stops_nothing_and_is_listed_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, home = tmp_path / "site", tmp_path / "home"
    home.mkdir()
    broken = {
        "leaves": "import sys\nsys.exit(3)\n",
        "fails": "1 / 0\n",
        "wrong": "tool = 5\ndef reader(): ...\n",
        "halves": "class Half: ...\nasync def open(url, **_):\n    return Half()\n",
    }
    for name, text in broken.items():
        site.mkdir(exist_ok=True)
        (site / f"broken_{name}.py").write_text(text)
    install(
        site,
        "broken",
        {
            "clew.tools": {
                "a": "broken_leaves:x",
                "b": "broken_fails:x",
                "c": "broken_wrong:tool",
                "d": "nothing:x",
                "e": "broken_wrong:missing",
                "f": "clew.agent.tools.toolbox:TOOLS",
            },
            "clew.importers": {"g": "broken_wrong:reader"},
            "clew.hooks": {"no_such_event": "broken_wrong:reader"},
            "clew.models": {"h": "broken_wrong:tool"},
            "clew.stores": {"half": "broken_halves:open"},
        },
    )
    listed: list[dict[str, Any]] = json.loads(run(site, home, "plugins", "--json"))
    problems = {each["name"]: each["problem"] for each in listed}
    assert {name for name, problem in problems.items() if problem} == set(problems) - {"half"}
    assert "SystemExit" in problems["a"]
    assert "ZeroDivisionError" in problems["b"]
    (home / "script.json").write_text('["hello"]')
    (home / "config.toml").write_text(
        f"""model = "script/{home}/script.json"
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
"""
    )
    assert "hello" in run(site, home, "ask", "are you there?")
    monkeypatch.syspath_prepend(str(site))
    assert list_plugin_tools() == ()
    assert len(list_installed()) == len(listed)


async def test_a_store_of_a_package_that_can_not_be_used_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    install(
        site,
        "broken",
        {
            "clew.stores": {
                "half": "broken_store:open",
                "gone": "nothing:x",
                "bad": "broken_store:bad",
            }
        },
    )
    (site / "broken_store.py").write_text(
        "class Half: ...\nasync def open(url, **_):\n    return Half()\n"
        "async def bad(url, **_):\n    1 / 0\n"
    )
    monkeypatch.syspath_prepend(str(site))
    for url, words in (
        ("half://x", "it lacks "),
        ("gone://x", "nothing"),
        ("bad://x", "ZeroDivisionError"),
    ):
        with pytest.raises(StoreUnavailable, match=words):
            await clew.open_store(url)
    with pytest.raises(InvalidInput, match="not a kind of store"):
        await clew.open_store("unknown://x")
    sys.modules.pop("broken_store", None)


def test_the_guide_shows_the_example_as_it_is() -> None:
    guide = (EXAMPLE.parents[1] / "docs" / "guides" / "extending.md").read_text("utf-8")
    example = (EXAMPLE / f"{MODULE}.py").read_text("utf-8")
    shown = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    assert len(shown) >= 6
    for each in shown:
        assert each.strip() in example
    declared = (EXAMPLE / "pyproject.toml").read_text("utf-8")
    for each in re.findall(r"```toml\n(\[project.*?)```", guide, re.DOTALL):
        assert each.strip() in declared
