"""Keys, `--resume VALUE` and `--continue`, over a real store and real directories."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.api.handlers.parts import Caller
from clew.api.local import Calls, LocalTransport
from clew.client.client import Client
from clew.client.seats import find_file, find_question, locate
from clew.config import load
from clew.core.changes import AddMessage
from clew.core.keys import Place, Purpose, qualified_key
from clew.core.message import Draft
from clew.core.resume import PURPOSES, Breadcrumb, Resolution, check_value
from clew.core.session import OWNER, NewSession, Session, SessionEdit
from clew.errors import AmbiguousId, InvalidInput, SessionNotFound
from clew.ports import Store
from clew.runtime.place.directories import (
    directory_facts,
    find_cli_key,
    find_identity,
    fork_here,
    move_here,
)
from clew.runtime.place.resume import (
    find_continue,
    get_meant,
    get_resumed,
    get_trashed,
    look_up,
)
from clew.store import open_store
from clew.testing.clock import FakeClock
from clew.wiring import House

ONE = "550e8400-e29b-41d4-a716-446655440000"
TWO = "550e8401-e29b-41d4-a716-44665544abcd"
THREE = "aaaa8401-e29b-41d4-a716-446655442222"


async def resolve_resume(
    store: Store, value: str, place: Place | None, *, viewer: str = OWNER
) -> Resolution:
    """What `--resume VALUE` means: a file of this machine, or a session, as a terminal asks."""
    path, is_meant = None, False
    if place is not None and viewer == OWNER:
        config = load(home=place.cwd, environ={})
        client = Client(transport=LocalTransport(Calls(House(config, store)), Caller()))
        path, is_meant = await find_file(client, check_value(value), place)
    if is_meant:
        return Resolution(value, step="path", path=str(path))
    resolution = await look_up(store, value, place, viewer=viewer)
    if path is not None and resolution.step is None:
        return msgspec.structs.replace(resolution, step="path", path=str(path))
    return resolution


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    clock = FakeClock()
    url = f"sqlite://{tmp_path}/store/sessions.db"
    # Time passes whenever it is looked at: no two sessions are equally new.
    async with await open_store(
        url, durability="normal", clock=partial(clock.advance, 1)
    ) as opened:
        yield opened


@pytest.fixture
def api(tmp_path: Path) -> Path:
    return make_directory(tmp_path / "one" / "api")


def make_directory(path: Path) -> Path:
    path.mkdir(parents=True)
    return path.resolve()


def rename(path: Path, target: Path) -> Path:
    return path.rename(target)


def remove(path: Path) -> None:
    path.rmdir()


async def talk(store: Store, session: Session, text: str = "hello") -> Session:
    lease = await store.acquire_lease(session.id, "test")
    await store.record(session.id, lease.epoch, AddMessage(Draft(role="user", content=text)))
    await store.release_lease(lease)
    return await store.get_session(session.id)


async def begin(store: Store, directory: Path | Place, **fields: Any) -> Session:
    """A session as a chat in that directory makes it, with a message in it."""
    place = directory if isinstance(directory, Place) else locate(directory)
    key = (await find_cli_key(store, place)).key
    given: dict[str, Any] = {
        "key": key,
        "cwd": place.cwd,
        "project": place.project,
        "metadata": {"directory": directory_facts(place.project)},
    }
    return await talk(store, await store.create_session(NewSession(**(given | fields))))


# --- places -----------------------------------------------------------------------------------


def test_a_place_is_the_directory_after_resolving(api: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(api)
    assert locate(link) == locate(api)
    assert locate(api).cwd == locate(api).project == str(api)
    assert locate(api).basename == "api"


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_with_scope_git_the_root_of_the_repository_is_the_project(api: Path, kind: str) -> None:
    inner = make_directory(api / "src" / "deep")
    if kind == "directory":
        (api / ".git").mkdir()
    else:
        (api / ".git").write_text("gitdir: elsewhere\n")
    place = locate(inner, "git")
    assert (place.cwd, place.project, place.basename) == (str(inner), str(api), "api")
    assert place.identity == find_identity(str(api))
    assert locate(inner).project == str(inner)


def test_outside_of_a_repository_the_directory_is_the_project(api: Path) -> None:
    assert locate(api, "git").project == str(api)


def test_a_directory_that_is_gone_is_no_place(api: Path) -> None:
    api.rmdir()
    with pytest.raises(InvalidInput, match="gone"):
        locate(api)


def test_what_a_session_keeps_of_its_directory(api: Path) -> None:
    status = api.stat()
    facts = directory_facts(api)
    assert (facts["device"], facts["inode"]) == (status.st_dev, status.st_ino)
    assert facts == locate(api).facts
    assert directory_facts(api / "missing") == {}


# --- keys -------------------------------------------------------------------------------------


async def test_a_directory_without_a_session_gets_its_name(store: Store, api: Path) -> None:
    choice = await find_cli_key(store, locate(api))
    assert (choice.key, choice.session, choice.rule) == ("cli:api", None, "free")


async def test_a_directory_finds_its_session_again(store: Store, api: Path) -> None:
    session = await begin(store, api)
    choice = await find_cli_key(store, locate(api))
    assert (choice.key, choice.session, choice.rule) == ("cli:api", session, "ours")


async def test_two_directories_named_alike_don_t_share(
    store: Store, api: Path, tmp_path: Path
) -> None:
    other = make_directory(tmp_path / "two" / "api")
    session = await begin(store, api)
    choice = await find_cli_key(store, locate(other))
    assert choice.key == qualified_key("api", str(other))
    assert choice.session is None
    theirs = await begin(store, other)
    assert (await find_cli_key(store, locate(other))).session == theirs
    assert (await find_cli_key(store, locate(api))).session == session


async def test_a_qualified_key_stays_when_the_name_is_free_again(
    store: Store, api: Path, tmp_path: Path
) -> None:
    other = make_directory(tmp_path / "two" / "api")
    session = await begin(store, api)
    theirs = await begin(store, other)
    await store.delete_sessions([session.id])
    assert (await find_cli_key(store, locate(other))).session == theirs


async def test_the_name_is_kept_for_a_directory_that_began_anew(
    store: Store, api: Path, tmp_path: Path
) -> None:
    other = make_directory(tmp_path / "two" / "api")
    await begin(store, api)
    await store.clear_route("cli:api")
    assert (await find_cli_key(store, locate(other))).key != "cli:api"
    choice = await find_cli_key(store, locate(api))
    assert (choice.key, choice.session) == ("cli:api", None)


async def test_a_session_follows_its_moved_directory(
    store: Store, api: Path, tmp_path: Path
) -> None:
    session = await begin(store, api)
    older = await begin(store, api, key="cli:api:1")
    await store.set_route("cli:api", session.id)
    new = tmp_path / "elsewhere"
    new.mkdir()
    moved = rename(api, new / "api")
    choice = await find_cli_key(store, locate(moved))
    assert (choice.key, choice.rule, choice.moved_from) == ("cli:api", "moved", str(api))
    assert choice.session is not None
    assert (choice.session.id, choice.session.cwd) == (session.id, str(moved))
    assert choice.session.project == str(moved)
    assert choice.session.updated_at == session.updated_at
    assert (await store.get_session(older.id)).cwd == str(moved)
    again = await find_cli_key(store, locate(moved))
    assert (again.rule, again.moved_from) == ("ours", None)


async def test_a_session_follows_its_renamed_directory(store: Store, api: Path) -> None:
    session = await begin(store, api)
    renamed = rename(api, api.with_name("service"))
    choice = await find_cli_key(store, locate(renamed))
    assert (choice.key, choice.moved_from) == ("cli:service", str(api))
    assert choice.session is not None
    assert choice.session.id == session.id
    assert (await find_cli_key(store, locate(renamed))).rule == "ours"
    remade = make_directory(api)
    assert (await find_cli_key(store, locate(remade))).session is None


async def test_a_session_with_a_qualified_key_follows_too(
    store: Store, api: Path, tmp_path: Path
) -> None:
    await begin(store, api)
    other = make_directory(tmp_path / "two" / "api")
    theirs = await begin(store, other)
    moved = rename(other, make_directory(tmp_path / "three") / "api")
    choice = await find_cli_key(store, locate(moved))
    assert choice.key == qualified_key("api", str(moved))
    assert choice.session is not None
    assert choice.session.id == theirs.id
    # What comes to the old place later is another directory, and the old key is not its own.
    remade = make_directory(other)
    assert (await find_cli_key(store, locate(remade))).session is None
    stranger = await begin(store, remade)
    assert stranger.key == qualified_key("api", str(remade), 12)


async def test_after_new_a_moved_directory_still_begins_fresh(store: Store, api: Path) -> None:
    session = await begin(store, api)
    await store.clear_route("cli:api")
    renamed = rename(api, api.with_name("service"))
    choice = await find_cli_key(store, locate(renamed))
    assert (choice.session, choice.rule) == (None, "moved")
    assert (await store.get_session(session.id)).cwd == str(renamed)


async def test_another_directory_in_the_place_of_a_gone_one_shares_nothing(
    store: Store, api: Path, tmp_path: Path
) -> None:
    session = await begin(store, api, metadata={"directory": {"device": 1, "inode": 1}})
    remove(api)
    other = make_directory(tmp_path / "two" / "api")
    choice = await find_cli_key(store, locate(other))
    assert (choice.session, choice.moved_from) == (None, None)
    assert choice.key != "cli:api"
    assert (await store.get_session(session.id)).cwd == str(api)


async def test_a_copy_is_not_a_move(store: Store, api: Path) -> None:
    await begin(store, api)
    copy = make_directory(api.with_name("copy"))
    assert (await find_cli_key(store, locate(copy))).session is None


async def test_looking_alone_moves_nothing(store: Store, api: Path) -> None:
    session = await begin(store, api)
    renamed = rename(api, api.with_name("service"))
    choice = await find_cli_key(store, locate(renamed), follow=False)
    assert (choice.session, choice.moved_from) == (session, str(api))
    assert await store.get_session(session.id) == session
    assert await store.find_route("cli:service") is None


async def test_inside_a_repository_everything_moves_with_its_root(store: Store, api: Path) -> None:
    (api / ".git").mkdir()
    inner = make_directory(api / "src")
    session = await begin(store, locate(inner, "git"))
    assert session.key == "cli:api"
    renamed = rename(api, api.with_name("service"))
    choice = await find_cli_key(store, locate(renamed, "git"))
    assert choice.session is not None
    assert (choice.session.id, choice.session.cwd) == (session.id, str(renamed / "src"))
    assert choice.session.project == str(renamed)


async def test_an_explicit_key_is_taken_as_it_is(store: Store, api: Path) -> None:
    session = await begin(store, api, key="work")
    choice = await find_cli_key(store, locate("/"), "work")
    assert (choice.key, choice.session, choice.rule) == ("work", session, "explicit")


async def test_the_root_has_a_key(store: Store) -> None:
    assert (await find_cli_key(store, locate("/"))).key == "cli:/"


# --- --resume VALUE ---------------------------------------------------------------------------


@pytest.fixture
async def three(store: Store, api: Path, tmp_path: Path) -> dict[str, Session]:
    """Two sessions here, one elsewhere."""
    web = make_directory(tmp_path / "web")
    return {
        "one": await begin(store, api, id=ONE, key="cli:api:1", title="Fix the login"),
        "two": await begin(store, api, id=TWO, key="cli:api:2", title="Plan the trip"),
        "three": await begin(store, web, id=THREE, key="cli:web", title="Plan the budget"),
    }


@pytest.mark.parametrize(
    ("value", "step", "name"),
    [
        (ONE, "id", "one"),
        (ONE.upper().replace("-", ""), "id", "one"),
        ("fix THE login", "title", "one"),
        ("  Fix the login ", "title", "one"),
        ("550e8401", "id_part", "two"),
        ("550E8401E29B", "id_part", "two"),
        ("abcd", "id_part", "two"),
        ("4466-5544-ABCD", "id_part", "two"),
        ("2222", "id_part", "three"),
        (f"session-{TWO}.md", "id_part", "two"),
        (f"SESSION-{TWO}.html", "id_part", "two"),
        (f"session-{TWO}.jsonl", "id_part", "two"),
        (f"exports/session-{TWO}.md", "id_part", "two"),
        (f"session-{TWO.replace('-', '')}", "id_part", "two"),
        ("cli:api:1", "key", "one"),
        ("cli:web", "key", "three"),
        ("login", "fragment", "one"),
        ("BUDGET", "fragment", "three"),
        ("plan", "fragment", "two"),
    ],
)
async def test_what_a_value_means(
    store: Store, api: Path, three: dict[str, Session], *, value: str, step: str, name: str
) -> None:
    resolution = await resolve_resume(store, value, locate(api))
    assert (resolution.step, resolution.session) == (step, three[name])


@pytest.mark.parametrize(
    ("value", "purposes"),
    [
        (TWO, {"resume", "read", "change"}),
        ("plan the TRIP", {"resume", "read", "change"}),
        ("550e8401", {"resume", "read", "change"}),
        ("abcd", {"resume", "read", "change"}),
        ("550e8401-e", {"resume", "read", "change"}),
        ("98", {"read", "change"}),
        (f"session-{TWO}.md", {"resume", "read"}),
        ("trip.jsonl", {"resume", "read"}),
        ("agent:main:hook:deploys", {"resume", "read"}),
        ("the trip", {"resume"}),
    ],
)
async def test_how_far_is_guessed_depends_on_what_the_session_is_for(
    store: Store, api: Path, *, value: str, purposes: set[Purpose]
) -> None:
    await begin(store, api, id=ONE, title="Fix the login")
    facts = {"key": "agent:main:hook:deploys", "transcript_path": "/srv/trip.jsonl"}
    session = await begin(store, api, id=TWO, title="Plan the trip", **facts)
    if value == "98":
        session = await begin(store, api, id=f"98{ONE[2:]}")
    for purpose in PURPOSES:
        if purpose in purposes:
            assert await get_meant(store, value, purpose=purpose) == session
        else:
            with pytest.raises(SessionNotFound):
                await get_meant(store, value, purpose=purpose)


async def test_what_is_in_the_trash_is_found_by_the_beginning_of_its_id_or_its_title(
    store: Store, api: Path, three: dict[str, Session]
) -> None:
    with pytest.raises(SessionNotFound, match="clew trash list"):
        await get_trashed(store, "Fix the login")
    await store.delete_sessions([each.id for each in three.values()])
    assert (await get_trashed(store, "fix the login")).id == ONE
    assert (await get_trashed(store, "550e8401")).id == TWO
    with pytest.raises(AmbiguousId, match="fits 2 sessions"):
        await get_trashed(store, "550e")
    with pytest.raises(SessionNotFound):
        await get_trashed(store, "login")


async def test_an_exact_title_wins_over_an_id_and_a_key(store: Store, api: Path) -> None:
    await begin(store, api, id=ONE, title="Other")
    titled = await begin(store, api, title="550e8400")
    keyed = await begin(store, api, title="cli:api")
    assert (await resolve_resume(store, "550e8400", locate(api))).session == titled
    assert (await resolve_resume(store, "cli:api", locate(api))).session == keyed


async def test_an_exact_id_wins_over_a_title_that_is_one(store: Store, api: Path) -> None:
    session = await begin(store, api, id=ONE)
    await begin(store, api, title=ONE)
    assert (await resolve_resume(store, ONE, locate(api))).session == session


async def test_three_characters_are_no_part_of_an_id(
    store: Store, api: Path, three: dict[str, Session]
) -> None:
    assert (await resolve_resume(store, "550", locate(api))).step is None


async def test_this_directory_wins_at_each_step_and_the_other_is_rejected(
    store: Store, api: Path, tmp_path: Path
) -> None:
    web = make_directory(tmp_path / "web")
    here = await begin(store, api, title="Same")
    there = await begin(store, web, title="same")
    resolution = await resolve_resume(store, "SAME", locate(api))
    assert resolution.session == here
    assert [each.session_id for each in resolution.rejected] == [there.id]


async def test_an_earlier_step_elsewhere_wins_over_a_later_one_here(
    store: Store, api: Path, tmp_path: Path
) -> None:
    web = make_directory(tmp_path / "web")
    await begin(store, api, title="Login again")
    there = await begin(store, web, title="Login")
    assert (await resolve_resume(store, "login", locate(api))).session == there


async def test_several_at_one_step_are_candidates_newest_first(
    store: Store, api: Path, three: dict[str, Session]
) -> None:
    await talk(store, three["one"])
    resolution = await resolve_resume(store, "550e", locate(api))
    assert [each.id for each in resolution.matches] == [ONE, TWO]
    with pytest.raises(AmbiguousId, match='"550e" fits 2 sessions') as caught:
        await get_resumed(store, resolution)
    assert caught.value.exit_code == 2
    assert [each.id for each in caught.value.sessions] == [ONE, TWO]
    assert [each.short_id for each in caught.value.sessions] == ["550e8400", "550e8401"]


async def test_a_key_leads_where_its_route_does(store: Store, api: Path) -> None:
    old = await begin(store, api)
    new = await store.create_session(NewSession(key="cli:api:5"), route="cli:api")
    resolution = await resolve_resume(store, "cli:api", locate(api))
    assert resolution.session == new
    assert [each.session_id for each in resolution.rejected] == [old.id]
    await store.clear_route("cli:api")
    assert (await resolve_resume(store, "cli:api", locate(api))).session == old


async def test_words_of_the_first_prompt_are_not_a_title(store: Store, api: Path) -> None:
    session = await begin(store, api, title="Other")
    resolution = await resolve_resume(store, "hello", locate(api))
    assert resolution.matches == ()
    assert [each.session_id for each in resolution.rejected] == [session.id]


async def test_a_session_is_found_by_the_file_that_it_is_written_to(
    store: Store, api: Path
) -> None:
    session = await begin(store, api, transcript_path="/tmp/talks/Notes.jsonl")
    assert (await resolve_resume(store, "notes", locate(api))).session == session


async def test_archived_sessions_are_found_and_trashed_ones_are_not(
    store: Store, api: Path, three: dict[str, Session]
) -> None:
    await store.edit_session(ONE, SessionEdit(archived=True))
    assert (await resolve_resume(store, "login", locate(api))).matches[0].id == ONE
    await store.delete_sessions([ONE])
    for value in (ONE, "Fix the login", "550e8400", "cli:api:1", "login"):
        resolution = await resolve_resume(store, value, locate(api))
        assert resolution.step is None, value
    resolution = await resolve_resume(store, ONE, locate(api))
    assert [each.why for each in resolution.rejected] == ["it is in the trash"]
    with pytest.raises(SessionNotFound, match=f"clew trash restore {ONE}"):
        await get_resumed(store, resolution)


async def test_a_guest_finds_only_its_own(store: Store, api: Path) -> None:
    (api / "file.jsonl").write_text("")
    mine = await begin(store, api, title="Mine", key="cli:mine")
    trashed = await begin(store, api, title="Gone")
    await store.delete_sessions([trashed.id])
    guest = await begin(store, api, title="Theirs", person="telegram:5")
    for value in ("mine", "min", "hello", mine.id, mine.id[:8], "cli:mine", "Gone", "file.jsonl"):
        resolution = await resolve_resume(store, value, locate(api), viewer="telegram:5")
        assert (resolution.step, resolution.matches, resolution.rejected) == (None, (), ())
        with pytest.raises(SessionNotFound) as caught:
            await get_resumed(store, resolution, viewer="telegram:5")
        assert str(caught.value).endswith('not found. Nearest titles: "Theirs".')
    assert (await resolve_resume(store, "the", None, viewer="telegram:5")).session == guest


async def test_nothing_found_names_the_three_nearest_titles(
    store: Store, api: Path, three: dict[str, Session]
) -> None:
    await begin(store, api, title="xyz")
    resolution = await resolve_resume(store, "plan a trip", locate(api))
    with pytest.raises(SessionNotFound) as caught:
        await get_resumed(store, resolution)
    assert caught.value.exit_code == 1
    assert str(caught.value) == (
        'Session "plan a trip" not found. '
        'Nearest titles: "Plan the trip", "Plan the budget", "Fix the login".'
    )


async def test_an_empty_value_is_refused(store: Store, api: Path) -> None:
    with pytest.raises(InvalidInput):
        await resolve_resume(store, " ", locate(api))


async def test_a_part_of_many_titles_is_enough_to_choose_from(store: Store, api: Path) -> None:
    for number in range(30):
        await store.create_session(NewSession(key=f"k{number}", title=f"Session {number}"))
    resolution = await resolve_resume(store, "session", locate(api))
    assert len(resolution.matches) == 11
    with pytest.raises(AmbiguousId, match="more than 10 sessions"):
        await get_resumed(store, resolution)


# --- paths ------------------------------------------------------------------------------------


async def test_a_file_that_is_there_is_meant(store: Store, api: Path) -> None:
    (api / "notes.txt").write_text("hello")
    resolution = await resolve_resume(store, "./notes.txt", locate(api))
    assert (resolution.step, resolution.path) == ("path", str(api / "notes.txt"))


async def test_a_transcript_that_is_missing_is_meant_too(store: Store, api: Path) -> None:
    for value in ("talk.jsonl", "new/talk.jsonl", f"session-{ONE}.jsonl"):
        resolution = await resolve_resume(store, value, locate(api))
        assert (resolution.step, resolution.path) == ("path", str(api / value))


async def test_a_path_without_a_file_goes_on_to_the_other_steps(store: Store, api: Path) -> None:
    session = await begin(store, api, title="client/server split")
    for value in ("client/server split", "server/..", "client/server"):
        resolution = await resolve_resume(store, value, locate(api))
        assert resolution.path is None
        assert resolution.session == (None if ".." in value else session)


async def test_a_directory_is_opened_only_if_nothing_else_is_meant(store: Store, api: Path) -> None:
    make_directory(api / "docs" / "plan")
    assert (await resolve_resume(store, "docs/plan", locate(api))).step == "path"
    session = await begin(store, api, title="docs/plan")
    assert (await resolve_resume(store, "docs/plan", locate(api))).session == session


@pytest.mark.parametrize("value", ["a/" + "x" * 5_000, "a/\0b", "/" * 3, "~nobody-here/x"])
async def test_odd_paths_are_no_crash(store: Store, api: Path, value: str) -> None:
    resolution = await resolve_resume(store, value, locate(api))
    assert resolution.matches == ()


# --- another project --------------------------------------------------------------------------


async def test_a_session_of_another_directory_asks(store: Store, api: Path, tmp_path: Path) -> None:
    web = make_directory(tmp_path / "web")
    session = await begin(store, web)
    assert find_question(session, locate(web)) is None
    assert find_question(session, locate(api)) == "other_project"
    remove(web)
    assert find_question(session, locate(api)) == "directory_gone"


async def test_a_channel_s_session_opens_without_a_question(store: Store, api: Path) -> None:
    new = NewSession(key="agent:main:telegram:dm:5", platform="telegram", kind="dm", title="Chat")
    session = await store.create_session(new)
    resolution = await resolve_resume(store, "chat", locate(api))
    assert resolution.session == session
    assert find_question(session, locate(api)) is None


async def test_a_session_is_moved_here(store: Store, api: Path, tmp_path: Path) -> None:
    web = make_directory(tmp_path / "web")
    session = await begin(store, web, metadata={"kept": 1})
    remove(web)
    moved = await move_here(store, session, locate(api))
    assert (moved.cwd, moved.project) == (str(api), str(api))
    assert moved.metadata == {"kept": 1, "directory": locate(api).facts}
    assert (moved.revision, moved.updated_at) == (session.revision, session.updated_at)
    assert find_question(moved, locate(api)) is None


async def test_a_fork_of_another_directory_s_session_belongs_here(
    store: Store, api: Path, tmp_path: Path
) -> None:
    session = await begin(store, make_directory(tmp_path / "web"))
    fork = await fork_here(store, session, locate(api), person=OWNER)
    assert (fork.parent_id, fork.cwd) == (session.id, str(api))
    assert await store.get_session(session.id) == session


# --- --continue -------------------------------------------------------------------------------


def crumb(directory: Path | str, session: Session | None, *, fresh: bool = False) -> Breadcrumb:
    return Breadcrumb(str(directory), None if session is None else session.id, fresh)


async def test_continue_takes_this_terminal_s_last_session(
    store: Store, api: Path, tmp_path: Path
) -> None:
    older = await begin(store, api)
    await begin(store, api)
    found = await find_continue(store, locate(api), crumb(api, older))
    assert (found.session, found.why, found.note) == (older, "breadcrumb", None)
    link = tmp_path / "link"
    link.symlink_to(api)
    assert (await find_continue(store, locate(api), crumb(link, older))).why == "breadcrumb"


async def test_continue_ignores_a_breadcrumb_of_another_directory(
    store: Store, api: Path, tmp_path: Path
) -> None:
    older = await begin(store, api)
    newer = await begin(store, api)
    found = await find_continue(store, locate(api), crumb(tmp_path, older))
    assert (found.session, found.why) == (newer, "directory")
    assert (await find_continue(store, locate(api), crumb("a\0b", older))).why == "directory"


async def test_continue_ignores_a_breadcrumb_whose_session_is_gone(store: Store, api: Path) -> None:
    gone = await begin(store, api)
    left = await begin(store, api)
    await store.delete_sessions([gone.id])
    assert (await find_continue(store, locate(api), crumb(api, gone))).session == left
    await store.purge_sessions([gone.id])
    assert (await find_continue(store, locate(api), crumb(api, gone))).session == left
    assert (await find_continue(store, locate(api), crumb(api, None))).session == left


async def test_continue_after_new_begins_fresh(store: Store, api: Path) -> None:
    session = await begin(store, api)
    found = await find_continue(store, locate(api), crumb(api, session, fresh=True))
    assert (found.session, found.why) == (None, "fresh")
    assert found.note is not None


async def test_continue_takes_the_newest_of_this_directory_even_if_another_is_pinned(
    store: Store, api: Path, tmp_path: Path
) -> None:
    pinned = await begin(store, api)
    newest = await begin(store, api)
    await begin(store, make_directory(tmp_path / "web"))
    await store.edit_session(pinned.id, SessionEdit(pinned=True))
    assert (await find_continue(store, locate(api), None)).session == newest
    pinned = await talk(store, pinned)
    assert (await find_continue(store, locate(api), None)).session == pinned


async def test_continue_takes_only_cli_sessions_with_messages(store: Store, api: Path) -> None:
    session = await begin(store, api)
    for fields in ({"platform": "telegram"}, {"kind": "subagent"}):
        other = await begin(store, api, **fields)
        assert (await find_continue(store, locate(api), None)).session == session
        if other.platform != "cli":
            assert (await find_continue(store, locate(api), crumb(api, other))).session == session
    await store.create_session(NewSession(key="cli:empty", cwd=str(api)))
    assert (await find_continue(store, locate(api), None)).session == session


async def test_continue_finds_an_archived_session(store: Store, api: Path) -> None:
    session = await begin(store, api)
    await store.edit_session(session.id, SessionEdit(archived=True))
    found = await find_continue(store, locate(api), None)
    assert found.session is not None
    assert found.session.id == session.id


async def test_continue_elsewhere_says_where_it_is_from(
    store: Store, api: Path, tmp_path: Path
) -> None:
    web = make_directory(tmp_path / "web")
    session = await begin(store, web, title="Plan the trip")
    await begin(store, web, platform="telegram", title="Chat")
    found = await find_continue(store, locate(api), None)
    assert (found.session, found.why) == (session, "anywhere")
    assert found.note == (
        f'There is no session in this directory: continuing "Plan the trip" from {web}.'
    )


async def test_continue_with_nothing_to_continue_says_so(store: Store, api: Path) -> None:
    found = await find_continue(store, locate(api), None)
    assert (found.session, found.why) == (None, "none")
    assert found.note == "There is no session to continue: a new one begins."


async def test_a_guest_continues_only_its_own(store: Store, api: Path) -> None:
    owner = await begin(store, api)
    found = await find_continue(store, locate(api), crumb(api, owner), "telegram:5")
    assert (found.session, found.why) == (None, "none")
