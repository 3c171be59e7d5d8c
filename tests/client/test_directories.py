"""Which directories a credential may choose, and which ones a person is asked about."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.api.seats import TerminalPlace
from clew.client.client import Client
from clew.core.tokens import Scope
from clew.errors import Forbidden
from tests.client.conftest import Place


def stand(cwd: Path | str, project: Path | str | None = None) -> TerminalPlace:
    return TerminalPlace(cwd=str(cwd), project=str(project or cwd), basename="x", device=1, inode=2)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory below `gateway.workspaces`."""
    made = tmp_path / "shared" / "api"
    made.mkdir(parents=True)
    return made


@pytest.mark.parametrize("scope", ["chat", "write"])
async def test_a_token_chooses_no_directory_beside_those_of_the_configuration(
    place: Place, tmp_path: Path, shared: Path, scope: Scope
) -> None:
    session = await place.session()
    client = await place.client(scope=scope)
    (shared / "out").symlink_to("/")
    for cwd, project in (
        ("/", "/"),
        (tmp_path, tmp_path),
        (shared, "/"),
        ("/", shared),
        (shared / ".." / "..", shared),
        (shared / "out", shared),
        (f"{tmp_path}/sharedx", f"{tmp_path}/sharedx"),
    ):
        where = stand(cwd, project)
        for call in (
            client.seats.locate(where),
            client.seats.begin(where, "cli:x"),
            client.seats.switch(where, "cli:x", session=session.id),
            client.seats.leave(where, session.id),
            client.commands.run("/new", session=session.id, key="cli:x", where=where),
        ):
            with pytest.raises(Forbidden, match=r"gateway\.workspaces"):
                await call
    assert (await place.store.get_session(session.id)).cwd is None


async def test_below_them_it_may_and_what_it_tells_of_the_directory_is_not_believed(
    place: Place, shared: Path
) -> None:
    client = await place.client(scope="chat")
    (shared.parent / "link").symlink_to(shared)
    session = await client.seats.begin(stand(shared.parent / "link"), "cli:x")
    assert (session.cwd, session.project) == (str(shared), str(shared))
    stored = await place.store.get_session(session.id)
    assert stored.metadata["directory"]["inode"] == shared.stat().st_ino  # noqa: ASYNC240  # one look


async def test_an_admin_chooses_any(client: Client, tmp_path: Path) -> None:
    session = await client.seats.begin(stand(tmp_path), "cli:x")
    assert session.cwd == str(tmp_path)


async def test_the_disk_a_home_and_directories_of_clew_are_asked_about(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "people" / "me"))
    for path, doubt in (
        ("/", "the whole disk"),
        (tmp_path / "people" / "me", "a home directory"),
        (tmp_path / "people", "a directory with home directories in it"),
        ("/home/somebody", "a home directory"),
        (tmp_path / "home" / "memory", "a directory of clew itself"),
        (tmp_path / "people" / "me" / "api", None),
        (tmp_path / "shared", None),
    ):
        assert (await client.seats.locate(stand(path))).doubt == doubt


async def test_the_answer_is_remembered_for_that_directory_alone(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "me"
    monkeypatch.setenv("HOME", str(home))
    assert not (await client.seats.locate(stand(home))).refused
    refused = await client.seats.locate(stand(home), allows=False)
    assert (refused.doubt, refused.refused) == ("a home directory", True)
    allowed = await client.seats.locate(stand(home), allows=True)
    assert (allowed.doubt, allowed.refused) == (None, False)
    assert (await client.seats.locate(stand("/"))).doubt == "the whole disk"
    # With a project that is in doubt, the directory is too.
    assert (await client.seats.locate(stand(home / "x", "/"))).doubt == "the whole disk"


async def test_only_an_admin_gives_the_answer(place: Place, shared: Path) -> None:
    client = await place.client(scope="write")
    with pytest.raises(Forbidden, match="scope admin"):
        await client.seats.locate(stand(shared), allows=True)
