"""A summary by a model: asked for in pieces that fit, tried again like a turn, never half."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew.agent.compaction import ModelSummariser, Writer, cut_pieces, get_budget
from clew.agent.memory_flush import MemoryFlusher, SilentTurn, is_writable
from clew.agent.models.catalogue import Catalogue
from clew.agent.models.providers import ModelsSetup
from clew.agent.personalities import FilePersonalities
from clew.agent.tools import Tools
from clew.core.context.compaction import Digest, parse_sections
from clew.core.context.size import estimate_text
from clew.core.live_events import Retrying, Signal
from clew.core.message import Message
from clew.core.models import EMBEDDED, ModelInfo
from clew.core.session import NewSession, Session
from clew.core.usage import Usage
from clew.errors import ContextTooLong, InvalidInput, ModelRefused, ModelUnavailable, TurnFailed
from clew.memory import MarkdownMemory
from clew.ports import Store
from clew.testing.scripted import ScriptedModel
from tests.agent.conftest import SCRIPTED, Naps, begin_turn, build_prompt
from tests.core.test_compaction import WHOLE, exchanges
from tests.patience import PATIENCE
from tests.weights import have_weights

SMALL = ModelInfo(name="script/one", provider="script", context_window=8_000)


async def write(
    script: Any, messages: list[Message], *, log: Path | None = None, **more: Any
) -> Digest:
    given: dict[str, Any] = {"sleep": Naps(), "info": SMALL} | more
    previous = given.pop("previous", None)
    instructions = given.pop("instructions", None)
    writer = Writer(ScriptedModel(script, log=log), given.pop("info"), {}, **given)
    return await writer.write(messages, previous=previous, instructions=instructions)


def ignore(_: object) -> None:
    """For what a test does not look at."""


def sent(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def asked(request: dict[str, Any]) -> str:
    text: str = request["messages"][0]["parts"][0]["content"]
    return text


async def test_the_model_is_shown_the_conversation_the_summary_so_far_and_the_instructions(
    tmp_path: Path,
) -> None:
    log, spent = tmp_path / "log", list[Usage]()
    digest = await write(
        [WHOLE],
        exchanges(3, 100),
        log=log,
        previous="## Goal\nold",
        instructions="keep numbers",
        spend=spent.append,
    )
    (request,) = sent(log)
    assert "User: 0 qqq" in asked(request)
    assert "## Goal\nold" in asked(request)
    assert "keep numbers" in asked(request)
    assert "## Errors and fixes" in request["instructions"]
    assert request["tools"] == []
    assert parse_sections(digest.summary)["Goal"] == "Users can log in again."
    assert digest.short == "Fixing the login of the shop"
    (usage,) = spent
    assert usage.api_calls == 1
    assert usage.input_tokens > 0


async def test_what_does_not_fit_one_request_is_summarised_piece_by_piece(tmp_path: Path) -> None:
    log, spent = tmp_path / "log", list[Usage]()
    # Some 20,000 tokens.
    await write([WHOLE], exchanges(40, 1_000), log=log, spend=spent.append)
    requests = sent(log)
    assert len(requests) > 3
    assert len(spent) == len(requests)
    for request in requests:
        assert estimate_text(asked(request) + request["instructions"]) < 8_000
    assert "summary-so-far" not in asked(requests[0])
    assert all("Users can log in again." in asked(each) for each in requests[1:])


async def test_even_a_huge_history_takes_a_bounded_number_of_requests(tmp_path: Path) -> None:
    log = tmp_path / "log"
    await write([WHOLE], exchanges(600, 4_000), log=log)
    assert len(sent(log)) <= 8


async def test_pieces_that_turn_out_too_long_are_made_smaller(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = {
        "rules": [{"when": "(?s)0 qqq.*5 qqq", "answers": [{"error": {"status": 413}}]}],
        "answers": [WHOLE],
    }
    digest = await write(script, exchanges(6, 1_000), log=log)
    sizes = [len(asked(each)) for each in sent(log)]
    assert len(sizes) > 1
    assert sizes[1] < sizes[0] * 0.7
    assert digest.short == "Fixing the login of the shop"


async def test_what_a_summary_took_before_it_failed_is_told() -> None:
    spent: list[Usage] = []
    script = {
        "rules": [{"when": "summary-so-far", "answers": [{"error": {"status": 401}}]}],
        "answers": [{"text": WHOLE, "usage": {"input": 70, "output": 7}}],
    }
    with pytest.raises(ModelRefused):
        await write(script, exchanges(40, 1_000), spend=spent.append)
    assert [(each.input_tokens, each.output_tokens) for each in spent] == [(70, 7)]


async def test_a_summary_that_says_nothing_fails_and_is_paid_for() -> None:
    spent: list[Usage] = []
    with pytest.raises(TurnFailed):
        await write([{"text": " "}], exchanges(3), spend=spent.append)
    assert len(spent) == 1


async def test_a_model_that_can_read_nothing_at_all_fails() -> None:
    with pytest.raises(ContextTooLong):
        await write([{"error": {"status": 413}}], exchanges(6, 1_000))


async def test_a_failure_that_may_pass_is_tried_again_with_a_countdown_and_no_deltas() -> None:
    signals: list[Signal] = []
    naps = Naps()
    script = [{"errors": [{"status": 529}, "connection"], "text": WHOLE}]
    spent: list[Usage] = []
    await write(script, exchanges(3), sleep=naps, signal=signals.append, spend=spent.append)
    assert len(spent) == 1
    assert naps.taken
    assert {type(each) for each in signals} == {Retrying}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"error": {"status": 401}}, ModelRefused),
        ({"error": "connection"}, ModelUnavailable),
        ({"text": ""}, TurnFailed),
        ({"text": "", "finish": "content_filter"}, TurnFailed),
    ],
)
async def test_what_does_not_pass_is_raised(answer: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        await write([answer], exchanges(3))


async def test_it_can_be_cancelled(tmp_path: Path) -> None:
    began = tmp_path / "began"
    script = [{"text": WHOLE, "touch": str(began), "hold": str(tmp_path / "never")}]
    task = asyncio.create_task(write(script, exchanges(3)))
    async with asyncio.timeout(PATIENCE):
        while not began.exists():  # noqa: ASYNC110  # the script makes it
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_pieces_lose_their_middle_last_of_all() -> None:
    pieces = cut_pieces(exchanges(400, 400), 300, 3)
    assert len(pieces) == 3
    assert "parts of the conversation are left out" in pieces[0]
    assert "0 qq" in pieces[0]
    assert pieces[-1].rstrip().endswith("a")
    assert all(estimate_text(piece) <= 340 for piece in pieces)


def test_a_budget_leaves_room_for_the_answer() -> None:
    for size in (4_000, 16_000, 200_000, None):
        budget = get_budget(ModelInfo(name="x/y", provider="x", context_window=size))
        assert budget.room + budget.summary < (size or 100_000)


# --- the memory flush -----------------------------------------------------------------------------


class OneModel:
    """A catalogue of one model, which is a script."""

    def __init__(self, model: ScriptedModel, info: ModelInfo = SCRIPTED) -> None:
        self._model, self._info = model, info

    def get_model(self, name: str | None = None) -> ModelInfo:
        return self._info

    async def open_model(self, info: ModelInfo) -> ScriptedModel:
        return self._model

    def get_settings(self, info: ModelInfo, **_: Any) -> dict[str, Any]:
        return {}


async def opened(store: Store, **more: Any) -> Session:
    session, _ = await store.open_session(NewSession(key="cli:test", **more))
    return session


def make_flusher(
    store: Store, memory: MarkdownMemory, script: Any, log: Path, info: ModelInfo = SCRIPTED
) -> MemoryFlusher:
    return MemoryFlusher(
        catalogue=OneModel(ScriptedModel(script, log=log), info),
        personalities=FilePersonalities(),
        toolbox=Tools(store, memory),
        build_prompt=build_prompt,
        get_blob=store.get_blob,
        sleep=Naps(),
    )


def remembering(line: str, *others: dict[str, Any]) -> list[Any]:
    arguments = {"action": "add", "text": line}
    call = {"name": "memory_write", "arguments": arguments}
    return [{"tool_calls": [call, *others]}, "done"]


async def test_the_silent_turn_writes_memory_and_leaves_no_trace_in_the_thread(
    store: Store, tmp_path: Path
) -> None:
    memory, log = MarkdownMemory(tmp_path), tmp_path / "log"
    turn = await begin_turn(store, "I like tea")
    before = await store.get_session(turn.session.id)
    script = {"rules": [{"when": "This is clew", "answers": remembering("likes tea")}]}
    flusher = make_flusher(store, memory, script, log)
    spent: list[Usage] = []
    await flusher.flush(before, await turn.thread(), spend=spent.append)
    assert "likes tea" in (await memory.read("memory")).text
    assert [usage.api_calls for usage in spent] == [1, 1]
    assert await store.get_session(before.id) == before
    assert len(await turn.thread()) == 1
    first = sent(log)[0]
    assert {tool[0] for tool in first["tools"]} == {"memory_read", "memory_write"}
    assert "I like tea" in json.dumps(first["messages"])


async def test_other_tools_are_refused_in_a_silent_turn(store: Store, tmp_path: Path) -> None:
    memory, log = MarkdownMemory(tmp_path), tmp_path / "log"
    target = tmp_path / "made"
    other = {"name": "write_file", "arguments": {"path": str(target), "content": "x"}}
    script = {"rules": [{"when": "This is clew", "answers": remembering("a fact", other)}]}
    session = await opened(store, cwd=str(tmp_path))
    await make_flusher(store, memory, script, log).flush(session, exchanges(2, 10), spend=ignore)
    assert not target.exists()
    assert "There is no tool" in json.dumps(sent(log)[1]["messages"])


async def test_there_is_no_silent_turn_where_it_could_not_write(
    store: Store, tmp_path: Path
) -> None:
    memory, log = MarkdownMemory(tmp_path), tmp_path / "log"
    guest = await opened(store, person="telegram:1")
    await make_flusher(store, memory, ["x"], log).flush(guest, exchanges(1), spend=ignore)
    plain = ModelInfo(name="a/b", provider="a", tools=False)
    owner = (await store.open_session(NewSession(key="cli:two")))[0]
    flusher = make_flusher(store, memory, ["x"], log, plain)
    await flusher.flush(owner, exchanges(1), spend=ignore)
    assert not log.exists()


async def test_a_workspace_is_writable_for_the_owner_where_the_directory_is(
    store: Store, tmp_path: Path
) -> None:
    assert is_writable(await opened(store, cwd=str(tmp_path)))
    gone = (await store.open_session(NewSession(key="k2", cwd=str(tmp_path / "gone"))))[0]
    assert not is_writable(gone)
    planning = (await store.open_session(NewSession(key="k3", mode="plan")))[0]
    assert not is_writable(planning)


async def test_a_silent_turn_asks_and_changes_nothing(store: Store) -> None:
    turn = SilentTurn(await opened(store), exchanges(1))
    with pytest.raises(InvalidInput, match="silent turn"):
        await turn.spawn("x")
    with pytest.raises(InvalidInput, match="silent turn"):
        await turn.set_mode("plan")
    with pytest.raises(InvalidInput, match="silent turn"):
        await turn.allow("shell", always=True)


# --- the embedded model ---------------------------------------------------------------------------


async def test_the_embedded_model_summarises_a_real_conversation(
    store: Store, tmp_path: Path
) -> None:
    weights = have_weights()
    setup = ModelsSetup(
        providers=(), weights_dirs=(weights.parent,), cache_dir=tmp_path, model=EMBEDDED
    )
    catalogue = Catalogue(setup)
    try:
        summariser = ModelSummariser(catalogue=catalogue, personalities=FilePersonalities())
        session = await opened(store, model=EMBEDDED)
        texts = [
            "My cat is called Felix and he likes fish.",
            "Felix sounds like a lovely cat!",
            "Please help me to write a poem about him.",
            "Felix the cat, he likes to eat, a plate of fish is what he calls a treat.",
        ]
        told = [
            msgspec.structs.replace(row, content=text)
            for row, text in zip(exchanges(2, 1), texts, strict=True)
        ]
        spent: list[Usage] = []
        digest = await summariser.summarise(
            session, told, previous=None, instructions=None, signal=ignore, spend=spent.append
        )
    finally:
        await catalogue.close()
    sections = parse_sections(digest.summary)
    assert sections["Goal"] == texts[0]
    assert len(sections["Open work"]) > 20
    usage = sum(spent, Usage())
    assert usage.cost == 0
    assert usage.output_tokens > 0
