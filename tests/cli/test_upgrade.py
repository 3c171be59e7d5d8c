"""`clew upgrade`: what it says for each way in which clew is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.cli import upgrade
from clew.version import __version__
from tests.cli.conftest import Home
from tests.cli.gateways import run_gateway


def test_it_says_what_to_do_and_changes_nothing(home: Home) -> None:
    home.script("hello")
    before = sorted(home.path.rglob("*"))

    shown = home.clew("upgrade", "--check")

    assert shown.exit_code == 0
    assert f"This is clew {__version__}" in shown.stdout
    assert "clew gateway drain" not in shown.stdout
    assert sorted(home.path.rglob("*")) == before


def test_a_gateway_that_runs_is_drained_first_and_started_again(home: Home) -> None:
    home.script("hello")
    with run_gateway(home):
        told = home.json("upgrade", "--check")

    assert told["gateway_running"]
    assert told["steps"][0] == "clew gateway drain"
    assert told["steps"][-1] == "clew serve"


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("pipx_metadata.json", "pipx upgrade clew"),
        ("uv-receipt.toml", "uv tool upgrade clew"),
        ("pyvenv.cfg", "-m pip install --upgrade clew"),
    ],
)
def test_each_installer_is_known_by_what_it_leaves(
    file: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site" / f"clew-{__version__}.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text(f"Name: clew\nVersion: {__version__}\n")
    (installed / "INSTALLER").write_text("pip\n")
    (tmp_path / file).touch()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    found = upgrade.find_installation(tmp_path)

    assert [each.endswith(command) for each in found.commands] == [True]


def test_an_environment_of_uv_is_upgraded_by_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site" / f"clew-{__version__}.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text(f"Name: clew\nVersion: {__version__}\n")
    (installed / "INSTALLER").write_text("uv")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    (command,) = upgrade.find_installation(tmp_path).commands

    assert command == f"uv pip install --python {tmp_path}/bin/python --upgrade clew"
