from pathlib import Path
from typing import Any

import pytest

import clew
from clew.errors import InvalidInput


def test_every_public_name_can_be_had() -> None:
    for name in clew.__all__:
        assert getattr(clew, name) is not None


def test_what_a_bot_needs_is_public() -> None:
    assert {"TextDelta", "TurnEnded", "StartTurn", "AddMessage", "new_id"} <= set(clew.__all__)


@pytest.mark.parametrize(
    "url", [":memory:", "sqlite://:memory:", "sqlite:///:memory:", "file::memory:?cache=shared"]
)
async def test_a_store_in_memory_is_refused_and_no_file_is_made(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="in memory"):
        await clew.open_store(url)
    assert not list(tmp_path.iterdir())  # noqa: ASYNC240  # a test


async def test_text_instead_of_a_draft_is_refused_in_words(tmp_path: Path) -> None:
    async with await clew.open_store(str(tmp_path / "s.db")) as store:
        session, _ = await store.open_session(clew.NewSession(key="k"))
        lease = await store.acquire_lease(session.id, "me")
        with pytest.raises(InvalidInput, match="given as a Draft"):
            await store.append(session.id, lease.epoch, "hi")  # type: ignore[arg-type]
        assert await store.get_messages(session.id) == ()


def test_the_suite_says_at_once_what_a_store_lacks() -> None:
    from clew.ports import Store, list_missing

    class Half:
        async def get_session(self) -> None: ...

    missing = list_missing(Half())
    assert "get_session" not in missing
    assert {"record", "append", "search", "close"} <= set(missing)
    assert all(hasattr(Store, each) for each in missing)


@pytest.mark.parametrize("parts", [("text",), ({"type": 5},), ({"blob": None},), "text", (None,)])
async def test_parts_of_an_unknown_shape_are_refused_in_words(parts: Any, tmp_path: Path) -> None:
    async with await clew.open_store(str(tmp_path / "s.db")) as store:
        session, _ = await store.open_session(clew.NewSession(key="k"))
        with pytest.raises(InvalidInput, match=r"[Pp]art"):
            await store.append(session.id, None, clew.Draft(role="user", parts=parts))
        own = ({"type": "my-program", "anything": [1]},)
        await store.append(session.id, None, clew.Draft(role="user", parts=own))
        assert [each.parts for each in await store.get_messages(session.id)] == [own]
