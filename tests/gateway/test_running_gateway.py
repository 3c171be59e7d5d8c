"""How others find a gateway, and the owner's own token."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clew.core.tokens import digest_of
from clew.errors import ClewError, Locked
from clew.gateway.owner_token import TOKEN, create_exclusively, ensure_own_token, find_own_token
from clew.gateway.running_gateway import FACTS_FILE, Running, claim, digest_url, find_running, tell
from tests.gateway.conftest import House
from tests.patience import PATIENCE

HERE = Running("http://127.0.0.1:7717", os.getpid(), "abcd", digest_url("sqlite:///x"), 1)


def test_nobody_runs_where_nobody_ran(tmp_path: Path) -> None:
    assert find_running(tmp_path / "nothing") is None
    assert not (tmp_path / "nothing").exists()


def test_a_gateway_is_found_while_it_runs(tmp_path: Path) -> None:
    with claim(tmp_path) as facts:
        assert find_running(tmp_path) is None  # it is only starting
        tell(facts, HERE)
        assert find_running(tmp_path) == HERE
        assert find_running(tmp_path, "sqlite:///x") == HERE
        assert find_running(tmp_path, "sqlite:///other") is None
        assert (tmp_path / FACTS_FILE).stat().st_mode & 0o777 == 0o600
    assert find_running(tmp_path) is None


def test_a_second_gateway_is_refused_and_told_where_the_first_is(tmp_path: Path) -> None:
    with claim(tmp_path) as facts:
        tell(facts, HERE)
        told = pytest.raises(Locked, match=r"http://127\.0\.0\.1:7717 \(pid \d+\)")
        with told, claim(tmp_path):
            pass
        assert find_running(tmp_path) == HERE


def test_what_a_killed_gateway_left_behind_is_not_believed(tmp_path: Path) -> None:
    dying = f"""
import os
from pathlib import Path
from clew.gateway.running_gateway import Running, claim, tell
with claim(Path({str(tmp_path)!r})) as facts:
    tell(facts, Running("http://127.0.0.1:1", 1, "x", "y", 1))
    os._exit(9)
"""
    done = subprocess.run([sys.executable, "-c", dying], timeout=PATIENCE, check=False)
    assert done.returncode == 9
    assert (tmp_path / FACTS_FILE).exists()
    assert find_running(tmp_path) is None
    with claim(tmp_path):
        pass


def test_nonsense_in_the_file_is_no_gateway(tmp_path: Path) -> None:
    with claim(tmp_path) as facts:
        facts.write_bytes(b'{"url": 5')
        assert find_running(tmp_path) is None


def test_looking_is_light(tmp_path: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from clew.gateway.owner_token import find_own_token
from clew.gateway.running_gateway import find_running
find_running(Path({str(tmp_path)!r}))
find_own_token(Path({str(tmp_path)!r}))
heavy = {{"starlette", "uvicorn", "httpx", "clew.ports", "clew.api.handlers.parts"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], timeout=PATIENCE, check=True)


# --- the owner's own token ------------------------------------------------------------------------


async def test_the_first_start_makes_a_token_that_only_the_owner_reads(
    house: House, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    path = await ensure_own_token(state, house.store, house.watch())
    assert path.stat().st_mode & 0o777 == 0o600
    secret = find_own_token(state)
    assert secret is not None
    assert len(secret) >= 43  # 256 bits
    assert (await house.ask("GET", "/v1/tokens", token=secret)).status_code == 200


async def test_the_second_start_keeps_it(house: House, tmp_path: Path) -> None:
    await ensure_own_token(tmp_path, house.store, house.watch())
    first = find_own_token(tmp_path)
    await ensure_own_token(tmp_path, house.store, house.watch())
    assert find_own_token(tmp_path) == first
    assert len(await house.store.list_tokens()) == 1


async def test_a_revoked_one_is_replaced(house: House, tmp_path: Path) -> None:
    await ensure_own_token(tmp_path, house.store, house.watch())
    first = find_own_token(tmp_path)
    assert first is not None
    await house.revoke(first)
    await ensure_own_token(tmp_path, house.store, house.watch())
    second = find_own_token(tmp_path)
    assert second not in (None, first)
    assert await house.store.find_token(digest_of(second or "")) is not None


def test_a_file_that_is_there_is_never_written_to(tmp_path: Path) -> None:
    path = tmp_path / TOKEN
    path.write_text("somebody else's\n")
    with pytest.raises(ClewError, match="Another process"):
        create_exclusively(path, "mine")
    assert path.read_text() == "somebody else's\n"


async def test_a_link_that_somebody_laid_there_is_not_followed(
    house: House, tmp_path: Path
) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("mine\n")
    (tmp_path / TOKEN).symlink_to(target)
    path = await ensure_own_token(tmp_path, house.store, house.watch())
    assert target.read_text() == "mine\n"
    assert not path.is_symlink()
