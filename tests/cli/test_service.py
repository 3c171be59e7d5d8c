"""`clew service`: the unit that it writes, read by systemd's own checker; systemctl is a stand-in.

No systemd runs where tests do, so starting and stopping is only shown as far as the calls.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Home
from tests.cli.gateways import run_gateway


@pytest.fixture
def calls(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A systemctl and a loginctl that write down how they were called; a config directory."""
    programs, told = tmp_path / "programs", tmp_path / "calls"
    programs.mkdir()
    for name in ("systemctl", "loginctl"):
        program = programs / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {shlex.quote(str(told))}\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config with 100% $HOME"))
    told.touch()
    return told


def find_unit(tmp_path: Path) -> Path:
    (unit,) = (tmp_path / "config with 100% $HOME" / "systemd" / "user").glob("clew-*.service")
    return unit


def test_the_service_is_installed_started_and_removed(
    home: Home, calls: Path, tmp_path: Path
) -> None:
    workspace = tmp_path / 'a "strange" %n $dir'
    workspace.mkdir()
    done = home.clew("service", "install", "--workspace", str(workspace), "--linger")
    assert done.exit_code == 0, done.stderr
    unit = find_unit(tmp_path)
    assert calls.read_text().splitlines() == [
        "systemctl --user daemon-reload",
        f"systemctl --user enable --now {unit.name}",
        "loginctl enable-linger",
    ]
    assert f'"{home.path}"' in unit.read_text()
    assert "service.env" in unit.read_text()

    assert home.clew("service", "stop").exit_code == 0
    assert home.clew("service", "start").exit_code == 0
    assert calls.read_text().splitlines()[-2:] == [
        f"systemctl --user stop {unit.name}",
        f"systemctl --user start {unit.name}",
    ]
    assert "is installed" in home.clew("service", "status").stdout

    assert home.clew("service", "uninstall").exit_code == 0
    assert not unit.exists()
    assert "is not installed" in home.clew("service", "status").stdout


def test_systemd_s_own_checker_finds_nothing_wrong(home: Home, calls: Path, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    assert program is not None, "systemd-analyze is not here; `make test` installs it"
    home.clew("service", "install", "--no-linger", "--workspace", str(tmp_path))
    unit = find_unit(tmp_path)
    run = [program, "verify", "--user", "--man=no", str(unit)]
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(run, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 0, done.stderr
    assert unit.name not in done.stderr, done.stderr
    # It does notice what is wrong.
    unit.write_text(unit.read_text().replace("ExecStart=", "ExecStart=nowhere/"))
    wrong = subprocess.run(run, capture_output=True, text=True, env=env, check=False)
    assert unit.name in wrong.stderr


def test_what_is_not_installed_is_not_started(home: Home, calls: Path) -> None:
    for verb in ("start", "stop", "uninstall", "logs"):
        result = home.clew("service", verb)
        assert result.exit_code == 1
        assert "clew service install" in result.stderr
    assert calls.read_text() == ""


def test_a_failure_of_the_system_is_told_in_its_words(
    home: Home, calls: Path, tmp_path: Path
) -> None:
    (tmp_path / "programs" / "systemctl").write_text("#!/bin/sh\necho no bus >&2\nexit 1\n")
    result = home.clew("service", "install", "--no-linger")
    assert result.exit_code == 1
    assert "failed: no bus" in result.stderr


def test_a_user_without_a_session_is_told_how_to_get_one(
    home: Home, calls: Path, tmp_path: Path
) -> None:
    words = "Failed to connect to bus: No medium found"
    (tmp_path / "programs" / "systemctl").write_text(f"#!/bin/sh\necho {words} >&2\nexit 1\n")
    result = home.clew("service", "install", "--no-linger")
    assert result.exit_code == 1
    assert "loginctl enable-linger NAME" in result.stderr


def test_a_store_from_the_environment_would_not_be_seen(
    home: Home, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_STORE", "postgresql://me:secret@localhost/clew")
    result = home.clew("service", "install", "--no-linger")
    assert result.exit_code == 1
    assert "clew config set store.url" in result.stderr
    assert "secret" not in result.stderr
    assert calls.read_text() == ""


def test_status_says_where_the_gateway_answers(home: Home, calls: Path) -> None:
    home.script("hello")
    with run_gateway(home) as gateway:
        assert gateway.url in home.clew("service", "status").stdout
