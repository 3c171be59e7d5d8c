"""The public operations over a real store and runtime; an actor stands for the model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from clew import config as configuration
from clew.agent.personalities import FilePersonalities
from clew.api.handlers.parts import (
    AskModel,
    ConfigReloader,
    Exporter,
    Importer,
    Renderer,
    SettingsFile,
)
from clew.api.local import Calls
from clew.api.sessions import Imported
from clew.api.status import ChannelView, ErrandView, FindingView, StoreView
from clew.client.seats import locate
from clew.clock import host_clock
from clew.core.channels.session_choice import Judge, ReceptionRules
from clew.core.keys import Place
from clew.core.rules import HeldRule, hold
from clew.core.session import Retention
from clew.files.workspaces import Workspaces
from clew.memory import MarkdownMemory
from clew.memory.recall import FileRecall
from clew.ports import Clock, Context, Memory, Models, Personalities, Recall, Store
from clew.runtime.cron import CronFile
from clew.runtime.hooks import Hooks
from clew.runtime.inbound.reception import Reception
from clew.runtime.place.attachment import Attachments
from clew.runtime.runtime import Runtime
from clew.store import open_store
from clew.transfer import export_session, import_transcript
from clew.transfer.message_html import MessageRenderer
from clew.wiring import open_catalogue
from clew.wiring.settings import ConfigSettings
from tests.runtime.conftest import CONFIG, Actor
from tests.runtime.receiving import RULES, make_commands
from tests.stores import lay_store


class FixedParts(NamedTuple):
    """`Parts` that are all built already."""

    runtime: Runtime
    models: Models
    personalities: Personalities
    memory: Memory
    recall: Recall
    rules: ReceptionRules
    export: Exporter | None = None
    import_transcript: Importer | None = None
    retention: Retention = Retention()
    render: Renderer | None = None
    describe: Callable[[], Awaitable[StoreView]] | None = None
    zone: tzinfo = UTC
    timezone: str | None = None
    jobs: CronFile | None = None
    context: Context | None = None
    reception: Reception | None = None
    judge: Judge | None = None
    attachments: Attachments | None = None
    is_terminal: bool = False
    config_file: Path | None = None
    workspaces: Workspaces = Workspaces()
    started_at: int | None = None
    reloader: ConfigReloader | None = None
    settings: SettingsFile | None = None
    examine: Callable[[], Awaitable[tuple[FindingView, ...]]] | None = None
    ask_model: AskModel | None = None

    @property
    def store(self) -> Store:
        return self.runtime.store

    @property
    def place(self) -> Place:
        return locate()

    @property
    def clock(self) -> Clock:
        return self.runtime.clock

    def is_running(self, session_id: str) -> bool:
        return self.runtime.is_running(session_id)

    def list_channels(self) -> tuple[ChannelView, ...]:
        return ()

    async def check_channel(self, name: str, account: str) -> tuple[str, tuple[str, ...]] | None:
        return None

    def list_errands(self) -> tuple[ErrandView, ...]:
        return ()

    def list_tool_rules(self) -> tuple[HeldRule, ...]:
        return hold("deny", ["shell:rm"], "CLEW_TOOLS_DENY")

    def find_backup_time(self) -> int | None:
        return None

    def list_job_problems(self) -> dict[str, str]:
        return {}


async def import_into(
    store: Store, lines: Iterable[bytes], *, as_new: bool, dry_run: bool, cwd: str | None
) -> Imported:
    """`Importer`, as the wiring makes it."""
    place = None if cwd is None else locate(cwd)
    return await import_transcript(
        store, lines, as_new=as_new, dry_run=dry_run, extends=False, place=place
    )


@asynccontextmanager
async def open_calls(path: Path) -> AsyncIterator[Calls]:
    """The calls inside the block; everything is below the path."""
    home = path / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(CONFIG, encoding="utf-8")
    config = configuration.load(home=str(home), environ={})
    async with AsyncExitStack() as stack:
        lay_store(path / "store" / "sessions.db")
        url = f"sqlite://{path}/store/sessions.db"
        store: Store = await open_store(url, durability="normal")
        stack.push_async_callback(store.close)

        async def remember(_rule: str) -> None:
            """Nobody says "always" here."""

        runtime = Runtime(store, Actor(), hooks=Hooks({}, clock=host_clock), remember_rule=remember)
        stack.push_async_callback(runtime.close)
        models = open_catalogue(config)
        commands = make_commands(runtime, models, home, home)
        runtime.reception.open(RULES, commands, settle_s=0.0)
        renderer = MessageRenderer()
        stack.push_async_callback(renderer.close)
        yield Calls(
            FixedParts(
                runtime=runtime,
                models=models,
                personalities=FilePersonalities(home / "personalities"),
                memory=MarkdownMemory(home),
                recall=FileRecall(MarkdownMemory(home)),
                export=lambda session, kind, masked, thinking: export_session(
                    store, session, kind, masked=masked, thinking=thinking
                ),
                import_transcript=partial(import_into, store),
                rules=RULES,
                settings=ConfigSettings(cast(Any, SimpleNamespace(config=config))),
                config_file=config.file,
                render=renderer.render,
                zone=UTC,
                timezone="UTC",
                jobs=CronFile(home / "cron.json"),
                context=commands.context,
                reception=runtime.reception,
                workspaces=Workspaces(
                    own=(home,),
                    listed=(Path("/nowhere"), path / "shared"),
                    memo=home / "workspaces.json",
                ),
            )
        )
