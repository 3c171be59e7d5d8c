# ruff: noqa: RUF001  # texts in many scripts are the point
"""`ports.Search`: the query language, the scripts, the filters, the pages, and who finds what."""

from __future__ import annotations

from typing import Any

import pytest

from clew.core.changes import AddMessage, UndoTurn
from clew.core.message import Author, Draft
from clew.core.search.hits import SearchFilter, SearchHit
from clew.core.session import Session, SessionEdit
from clew.errors import InvalidCursor, SessionNotFound
from clew.ports import Store
from clew.testing.clock import SECOND, FakeClock
from clew.testing.contract.case import (
    UNKNOWN,
    Contract,
    OpenStore,
    find,
    found,
    list_pages,
    make,
    purge,
    read,
    record,
    say,
    take_turn,
)

GUEST = "telegram:7"
BY_OWNER = SearchFilter(viewer="owner")

SCRIPTS = {
    "latin": "Der Kaffee im CAFÉ Zürich war naïve Überraschung",
    "vietnamese": "Tiếng Việt có nhiều dấu",
    "cyrillic": "Съешь ещё этих мягких французских булок",
    "greek": "Η γρήγορη αλεπού πηδάει",
    "arabic": "الثعلب البني السريع يقفز",
    "hebrew": "דג סקרן שט בים מאוכזב",
    "devanagari": "तेज भूरी लोमड़ी कूदती है",
    "han": "敏捷的棕色狐狸跳过了懒狗",
    "kana": "Pythonを使うと速いです、カタカナも",
    "hangul": "빠른 갈색 여우가 뜁니다",
    "thai": "สุนัขจิ้งจอกสีน้ำตาลกระโดด",
    "emoji": "deploy 🚀 done",
}

STRANGE = [
    '"', '""', "'", "''", "`", "(", ")", "((", "*", "**", "-", "--", "- -", "+", "^", "^word", ":",
    "content:", "content: word", "{content} : word", "NEAR", "NEAR(", "NEAR(a b, 5)", "AND", "OR",
    "NOT", "a AND", "OR b", "a AND NOT", 'a "b', '"a" "', "a*b", "*a", '"a*"', "a:b", "a.b", "a/b",
    "%", "_", "?", "?1", ":name", "@x", "$x", ";", "; DROP TABLE sessions; --", "\\", "\\0", "\0",
    "a\0b", "\ud800", "a\udfffb", "\ufffe", "\uffff", "\ufff9", "﷽", "\u0301", "🚀", "\u200d",
    "\n\t", "-word", '-"a b"', "-", "«»", "’", "x" * 10_000, '"' * 999, "a " * 3_000, "(" * 500,
    "İ", "ß", "ﬁ", "１２３", "ｶﾀｶﾅ",
]  # fmt: skip


async def ordered(store: Store, query: str, **options: Any) -> list[SearchHit]:
    """The hits of all pages."""
    pages = await list_pages(lambda cursor: store.search(query, BY_OWNER, cursor=cursor, **options))
    return [hit for page in pages for hit in page.hits]


class SearchContract(Contract):
    """Full text search."""

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("fox", "12"),
            ("FOX", "12"),
            ("quick fox", "1"),
            ("fox quick", "1"),
            ('"quick brown"', "1"),
            ('"brown quick"', ""),
            ("“quick brown”", "1"),
            ("fox -quick", "2"),
            ('fox -"quick brown"', "2"),
            ("-quick", ""),
            ("jum*", "12"),
            ("qui*", "1"),
            ("jumping", "12"),
            ("run", "3"),
            ("running", "3"),
            ("running dogs", "3"),
            ("absent", ""),
            ("fox absent", ""),
            ("AND", "3"),
            ("NOT and OR", ""),
            ("x-ray", "4"),
            ("user@example.com", "4"),
            ("3.14", "4"),
            ("don't", "4"),
            ("it's", ""),
        ],
    )
    async def test_a_query_finds_what_it_says(
        self, store: Store, session: Session, query: str, expected: str
    ) -> None:
        await say(
            store,
            session.id,
            "The quick brown fox jumps",
            "A lazy fox jumped over",
            "Dogs and cats run",
            "x-ray of user@example.com is 3.14, don't ask",
        )

        assert {seq for _, seq in await found(store, query)} == {int(each) for each in expected}

    @pytest.mark.parametrize("query", ["", " ", "\n", ".", "!?", '"', '""', "-", "*", "()", "🚀"])
    async def test_a_query_without_a_word_finds_nothing(
        self, store: Store, session: Session, query: str
    ) -> None:
        await say(store, session.id, "words. And! (more)", "")

        page = await store.search(query, BY_OWNER)

        assert (page.hits, page.cursor) == ((), None)

    async def test_any_text_is_a_query(self, store: Store, session: Session) -> None:
        await say(store, session.id, *(text[:100] for text in STRANGE), "word a b")

        for query in STRANGE:
            await store.search(query, BY_OWNER)
            await store.search(query, BY_OWNER, typing=True)

    @pytest.mark.parametrize(
        ("script", "query"),
        [
            ("latin", "cafe"),
            ("latin", "ZURICH"),
            ("latin", "café"),
            ("latin", "naive uberraschung"),
            ("vietnamese", "tieng viet"),
            ("cyrillic", "булок"),
            ("cyrillic", "ФРАНЦУЗСКИХ"),
            ("greek", "αλεπού"),
            ("greek", "ΑΛΕΠΟΎ"),
            ("arabic", "السريع"),
            ("hebrew", "סקרן"),
            ("devanagari", "लोमड़ी"),
            ("han", "狐狸"),
            ("han", "狐"),
            ("han", "狗"),
            ("han", "棕色狐狸"),
            ("han", "的棕 懒狗"),
            ("kana", "python"),
            ("kana", "使う"),
            ("kana", "を"),
            ("kana", "Pythonを使う"),
            ("kana", "カタカナ"),
            ("kana", "ｶﾀｶﾅ"),
            ("hangul", "여우"),
            ("hangul", "갈색 여우"),
            ("hangul", "색"),
            ("thai", "จิ้งจอก"),
            ("thai", "น้ำตาล"),
            ("emoji", "deploy done"),
        ],
    )
    async def test_every_script_is_found(
        self, store: Store, session: Session, script: str, query: str
    ) -> None:
        await say(store, session.id, *SCRIPTS.values())

        (hit,) = await find(store, query)

        assert hit.seq == list(SCRIPTS).index(script) + 1
        assert hit.snippet.start < hit.snippet.end <= len(hit.snippet.text)

    @pytest.mark.parametrize(
        "query", ["狐狗", "狸狐", "を速", "여갈", "ขจ้", "-狐狸 棕色", "булоки", "αλεπο"]
    )
    async def test_what_was_not_said_is_not_found(
        self, store: Store, session: Session, query: str
    ) -> None:
        await say(store, session.id, *SCRIPTS.values())

        assert await found(store, query) == set()

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("pyt", {1}),
            ("py", {1}),
            ("p", set()),
            ("learning pyt", {1}),
            ("pyt learning", set()),
            ("learn", {1}),
            ("狐", {2}),
            ("棕色狐", {2}),
            ("color", {3}),
            ("the col", {3}),
        ],
    )
    async def test_the_last_word_may_be_a_beginning_while_typing(
        self, store: Store, session: Session, query: str, expected: set[int]
    ) -> None:
        await say(store, session.id, "Learning Python", "棕色狐狸", "The colorful bird")

        page = await store.search(query, BY_OWNER, typing=True)

        assert {hit.seq for hit in page.hits} == expected

    @pytest.mark.parametrize(
        ("query", "marked"),
        [("needle", "needle"), ("NEEDLES", "needle"), ("spots", "Spotted"), ("éte", "ÉTÉ")],
    )
    async def test_a_snippet_marks_the_match(
        self, store: Store, session: Session, query: str, marked: str
    ) -> None:
        await say(store, session.id, "hay " * 500 + "needle Spotted in ÉTÉ " + "hay " * 500)

        (hit,) = await find(store, query)

        text, start, end = hit.snippet.text, hit.snippet.start, hit.snippet.end
        assert text[start:end] == marked
        assert len(text) < 500
        assert "\n" not in text

    async def test_a_hit_tells_what_to_open(self, store: Store, clock: FakeClock) -> None:
        session = await make(store, title="Title", platform="telegram", cwd="/here")
        await say(store, session.id, "first words")
        now = clock.advance(SECOND)
        await say(store, session.id, "an apple", role="assistant")

        (hit,) = await find(store, "apple")

        assert (hit.session_id, hit.seq, hit.role, hit.at) == (session.id, 2, "assistant", now)
        assert (hit.title, hit.preview, hit.platform, hit.cwd) == (
            "Title", "first words", "telegram", "/here",
        )  # fmt: skip
        assert not hit.archived

    async def test_better_matches_come_first(self, store: Store, session: Session) -> None:
        await say(store, session.id, "hay " * 200 + "apple", "apple apple", "nothing")

        hits = await find(store, "apple")

        assert [hit.seq for hit in hits] == [2, 1]
        assert hits[0].score > hits[1].score

    async def test_of_equal_matches_the_newer_comes_first(
        self, store: Store, session: Session, clock: FakeClock
    ) -> None:
        for _ in range(5):
            await say(store, session.id, "apple pie")
            clock.advance(30 * 86_400 * SECOND)

        hits = await find(store, "apple")

        assert [hit.seq for hit in hits] == [5, 4, 3, 2, 1]
        assert sorted((hit.score for hit in hits), reverse=True) == [hit.score for hit in hits]

    @pytest.mark.parametrize(
        ("where", "expected"),
        [
            ({"platform": "cli"}, {"a1", "a2", "c1"}),
            ({"platform": "telegram"}, {"b1"}),
            ({"agent": "research"}, {"c1"}),
            ({"cwd": "/one"}, {"a1", "a2"}),
            ({"project": "/p"}, {"b1"}),
            ({"role": "assistant"}, {"a2"}),
            ({"role": "tool"}, set()),
            ({"platform": "none"}, set()),
            ({"cwd": "/one", "role": "user"}, {"a1"}),
        ],
    )
    async def test_a_filter_narrows_the_search(
        self, store: Store, where: dict[str, Any], expected: set[str]
    ) -> None:
        made = {
            "a": await make(store, cwd="/one"),
            "b": await make(store, platform="telegram", project="/p"),
            "c": await make(store, agent="research"),
        }
        for session in made.values():
            await say(store, session.id, "apple")
        await say(store, made["a"].id, "apple", role="assistant")

        hits = await found(store, "apple", **where)

        assert hits == {(made[name[0]].id, int(name[1])) for name in expected}

    async def test_times_are_inclusive(self, store: Store, session: Session) -> None:
        for number in range(5):
            await record(
                store, session.id, AddMessage(Draft(role="user", content="apple", at=number))
            )

        async def seqs(**where: Any) -> set[int]:
            return {seq for _, seq in await found(store, "apple", **where)}

        assert await seqs(since=2) == {3, 4, 5}
        assert await seqs(until=2) == {1, 2, 3}
        assert await seqs(since=1, until=3) == {2, 3, 4}
        assert await seqs(since=9) == set()

    async def test_a_filter_reaches_old_messages_behind_many_new_ones(self, store: Store) -> None:
        old = await make(store)
        await say(store, old.id, "apple of old")
        new = await make(store)
        for _ in range(4):
            await say(store, new.id, *["apple again"] * 1_000)

        assert await found(store, "apple", session=old.id) == {(old.id, 1)}
        assert await found(store, "apple old") == {(old.id, 1)}
        page = await store.search("apple", BY_OWNER, limit=10)
        assert len(page.hits) == 10

    async def test_a_session_that_is_unknown_can_not_be_searched(self, store: Store) -> None:
        with pytest.raises(SessionNotFound):
            await store.search("apple", SearchFilter(viewer="owner", session=UNKNOWN))

    async def test_a_guest_finds_only_what_it_may_see(self, store: Store) -> None:
        owners, guests = await make(store), await make(store, person=GUEST)
        for session in (owners, guests):
            await say(store, session.id, "apple 狐狸")

        assert await found(store, "apple", viewer=GUEST) == {(guests.id, 1)}
        assert await found(store, "狐狸", viewer=GUEST) == {(guests.id, 1)}
        assert await found(store, "apple", viewer="nobody") == set()
        with pytest.raises(SessionNotFound):  # as if it were not there at all
            await found(store, "apple", viewer=GUEST, session=owners.id)
        assert len(await found(store, "apple")) == 2

    async def test_a_deleted_session_is_not_found(self, store: Store, other: Store) -> None:
        gone, stays = await make(store), await make(store)
        for session in (gone, stays):
            await say(store, session.id, "apple 狐狸")

        await store.delete_sessions([gone.id])
        for query in ("apple", "狐"):
            assert await found(other, query) == {(stays.id, 1)}
        assert await found(store, "apple", session=gone.id) == set()

        await store.restore_sessions([gone.id])
        for query in ("apple", "狐"):
            assert await found(other, query) == {(gone.id, 1), (stays.id, 1)}

        await purge(store, gone.id)
        for query in ("apple", "狐"):
            assert await found(other, query) == {(stays.id, 1)}

    async def test_an_archived_session_is_found_and_marked(
        self, store: Store, session: Session
    ) -> None:
        await say(store, session.id, "apple")
        await store.edit_session(session.id, SessionEdit(archived=True))

        (hit,) = await find(store, "apple")

        assert hit.archived

    async def test_an_undone_turn_is_still_found(self, store: Store, session: Session) -> None:
        turn = await take_turn(store, session.id, "apple")
        await record(store, session.id, UndoTurn(turn))

        assert await found(store, "apple") == {(session.id, 1)}
        assert await read(store, session.id) == []

    async def test_a_message_is_found_once_it_is_acknowledged(
        self, store: Store, session: Session, other: Store
    ) -> None:
        for number in range(5):
            await say(store, session.id, f"word{number} 字{number}")
            assert await found(other, f"word{number}") == {(session.id, number + 1)}
            assert len(await found(other, "字")) == number + 1

    @pytest.mark.parametrize("size", [1, 3, 7, 30])
    async def test_pages_add_up_to_all_hits(
        self, store: Store, session: Session, size: int
    ) -> None:
        await say(store, session.id, *(f"apple {'pie ' * (number % 4)}" for number in range(21)))

        hits = await ordered(store, "apple", limit=size)

        assert sorted(hit.seq for hit in hits) == list(range(1, 22))
        assert [hit.score for hit in hits] == sorted((h.score for h in hits), reverse=True)

    async def test_a_cursor_stays_within_what_there_was(
        self, store: Store, session: Session
    ) -> None:
        await say(store, session.id, *["apple pie"] * 6)
        first = await store.search("apple", BY_OWNER, limit=4)

        await say(store, session.id, *["apple apple"] * 6)
        assert first.cursor is not None
        rest = await store.search("apple", BY_OWNER, limit=10, cursor=first.cursor)

        seqs = [hit.seq for hit in (*first.hits, *rest.hits)]
        assert sorted(seqs) == [1, 2, 3, 4, 5, 6]

    @pytest.mark.parametrize("cursor", ["", "x", "!!!!", "bnVsbA", "WzEsMl0", "é", "\ud800", "\0"])
    async def test_a_foreign_search_cursor_is_refused(self, store: Store, cursor: str) -> None:
        with pytest.raises(InvalidCursor):
            await store.search("apple", BY_OWNER, cursor=cursor)

    async def test_per_session_keeps_the_best_hit_of_each(self, store: Store) -> None:
        one, two = await make(store), await make(store)
        await say(store, one.id, "an apple among many other words", "apple apple")
        await say(store, two.id, "apple", "an apple among many other words")

        page = await store.search("apple", BY_OWNER, per_session=True)

        assert {(hit.session_id, hit.seq) for hit in page.hits} == {(one.id, 2), (two.id, 1)}
        pages = await ordered(store, "apple", per_session=True, limit=1)
        assert {hit.session_id for hit in pages} == {one.id, two.id}
        assert len(pages) == 2

    async def test_a_search_survives_a_second_opening(
        self, store: Store, session: Session, open_store: OpenStore, clock: FakeClock
    ) -> None:
        await say(store, session.id, "apple 狐狸")
        other = await open_store(clock)

        assert await found(other, "apple 狐") == {(session.id, 1)}
        await other.close()

    async def test_a_hit_says_who_said_it(self, store: Store, session: Session) -> None:
        ann = Author("telegram:7", "Ann", among=True)
        await record(
            store, session.id, AddMessage(Draft(role="user", content="a walrus", author=ann))
        )
        await say(store, session.id, "a walrus too")

        hits = await find(store, "walrus")

        assert {hit.seq: hit.author for hit in hits} == {1: ann, 2: None}
