"""The house: agent, runtime and all other parts that the handlers work with, over a store.

A part is imported and built when it is first used, so that `clew list` starts fast.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clew.clock import host_clock
from clew.config import Config, load, process_environment, reveal, set_value
from clew.core.rules import HeldRule, hold
from clew.store import find_file, is_foreign, is_postgres, sqlite_path
from clew.store.migrations import Report, quiet
from clew.wiring.models import open_catalogue
from clew.wiring.stores import (
    find_backup_time,
    find_import_place,
    open_configured_store,
    retention_policy,
)
from clew.wiring.workspaces import get_default_workspace, list_sealed, open_workspaces

if TYPE_CHECKING:
    from clew.agent.models.catalogue import Catalogue
    from clew.agent.models.providers import ModelsSetup
    from clew.agent.system_prompt import SystemPrompt
    from clew.agent.tools import MCPServer, Policy, Tools
    from clew.api.handlers.parts import Format
    from clew.api.sessions import Imported, MessageHtml
    from clew.api.status import ChannelView, ErrandView, FindingView, StoreView
    from clew.core.channels.session_choice import Judge, ReceptionRules
    from clew.core.context.thread import Pruning
    from clew.core.keys import Place
    from clew.core.message import Message
    from clew.core.models import ModelInfo
    from clew.core.session import Retention, Session
    from clew.files.workspaces import Workspaces
    from clew.memory.recall import FileRecall
    from clew.ports import Agent, Clock, Context, Memory, Personalities, Store
    from clew.runtime.cron import CronFile
    from clew.runtime.inbound.reception import Reception
    from clew.runtime.place.attachment import Attachments
    from clew.runtime.runtime import Runtime
    from clew.transfer.message_html import MessageRenderer
    from clew.wiring.gateway import Errands
    from clew.wiring.reload import Reloader
    from clew.wiring.settings import ConfigSettings


class House:
    """The parts that a conversation and the handlers of the API work with, over an open store.

    Each part is built when it is first used: a list of sessions builds no runtime. Close it before
    the store. Without a store it has the parts that need none: memory, personalities, jobs. `agent`
    replaces the configured one; `settle_s` replaces the usual pause for further messages before an
    answer begins. `workspace` is the directory of a gateway's agent, for all that has none.
    """

    def __init__(
        self,
        config: Config,
        store: Store | None,
        *,
        clock: Clock | None = None,
        agent: Agent | None = None,
        settle_s: float | None = None,
        workspace: Path | None = None,
    ) -> None:
        self.config = config
        self._workspace = workspace
        self._store = store
        self.clock: Clock = clock or host_clock
        self._always: list[str] = []
        self.started_at: int | None = None
        """When the gateway of this process was started."""
        self.errands: Errands | None = None
        """What a gateway does beside the turns, once it runs."""
        self.attachments: Attachments | None = None
        """The sessions that the terminal of this process holds."""
        self.is_terminal = False
        """Whether this process is a terminal: after a crash its messages wait for the person."""
        self.reloader: Reloader | None = None
        """Reads the configuration anew; only a gateway has one."""
        self._agent = agent
        self._settle_s = settle_s

    @property
    def store(self) -> Store:
        """The open store."""
        if self._store is None:
            raise TypeError("this house was built without a store")
        return self._store

    async def close(self) -> None:
        """Abort running turns, and close the parts that were built."""
        built = self.__dict__
        if self.attachments is not None:
            self.attachments.close()
        if "runtime" in built:
            await self.runtime.close()
        if "tools" in built:
            await self.tools.aclose()
        if "recall" in built:
            await self.recall.close()
        if "models" in built:
            await self.models.close()
        if "_renderer" in built:
            await self._renderer.close()

    # --- another configuration --------------------------------------------------------------------

    @property
    def effective_config(self) -> Config:
        """The configuration, with what was answered with "always" since its start."""
        tools = self.config.tools
        more = tuple(each for each in self._always if each not in tools.allow)
        changed = msgspec.structs.replace(tools, allow=(*tools.allow, *more))
        return msgspec.structs.replace(self.config, tools=changed)

    def use_config(self, config: Config, models: ModelsSetup) -> None:
        """Use another configuration from now on; it is checked already (`wiring.reload`).

        Turns that run keep their model.
        """
        built = self.__dict__
        self.config = config
        for name in ("rules", "judge", "workspaces"):
            built.pop(name, None)
        if "models" in built:
            self.models.change(models)
        if "tools" in built:
            self.tools.change(self._tool_policy())
        if "runtime" in built:
            self.runtime.replies.change(config.session.send_policy)
        if built.pop("reception", None) is not None:
            _ = self.reception  # opened again, with the new rules

    # --- the agent ------------------------------------------------------------------------------

    @cached_property
    def models(self) -> Catalogue:
        """The models of this configuration."""
        return open_catalogue(self.config)

    @cached_property
    def personalities(self) -> Personalities:
        """The built-in personalities, and those beside the config file."""
        from clew.agent.personalities import FilePersonalities

        return FilePersonalities(
            self.config.file.parent / "personalities", lambda: self.config.agents
        )

    @cached_property
    def memory(self) -> Memory:
        """The memory files."""
        from clew.memory import MarkdownMemory

        return MarkdownMemory(self.config.data_dir)

    @cached_property
    def recall(self) -> FileRecall:
        """The search of the memory files: by words, in vector mode by meaning too."""
        from clew.memory.recall import FileRecall
        from clew.wiring.embeddings import open_embedder

        if self.config.memory.mode == "markdown":
            return FileRecall(self.memory)
        embedder = open_embedder(self.config)
        return FileRecall(self.memory, vectors=self.store, embedder=embedder)

    def check_memory(self) -> None:
        """Raise an error that says what to install, if the configured memory mode can't work."""
        from clew.wiring.embeddings import check_embedder

        check_embedder(self.config)

    @cached_property
    def tools(self) -> Tools:
        """The tools of the agent."""
        from clew.agent.tools import Tools
        from clew.wiring.plugins import list_plugin_tools

        return Tools(
            self.store,
            self.memory,
            self._tool_policy(),
            servers=_tool_servers(self.config),
            plugins=list_plugin_tools(),
        )

    def _tool_policy(self) -> Policy:
        from clew.agent.tools import Policy

        config = self.config
        return Policy(
            allow=config.tools.allow,
            deny=config.tools.deny,
            timeout=config.tools.timeout,
            max_output=config.tools.max_output,
            memory_guests=config.memory.guests,
            environment=process_environment(config),
            workspace=None if self._workspace is None else str(self._workspace),
            sealed=tuple(map(str, list_sealed(config))),
            opened=str(get_default_workspace(config)),
            find_doubt=self.workspaces.find_doubt,
        )

    @cached_property
    def _prompt(self) -> SystemPrompt:
        from clew.agent.system_prompt import SystemPrompt

        return SystemPrompt(
            self.memory,
            self.store,
            self.clock,
            tz=_time_zone(self.config),
            guests=self.config.memory.guests,
            recall=self.recall if self.config.memory.mode == "vector" else None,
        )

    @cached_property
    def _pruning(self) -> Pruning:
        from clew.core.context.thread import Pruning

        return Pruning(**msgspec.structs.asdict(self.config.context.pruning))

    @cached_property
    def context(self) -> Context:
        """The parts of a request to the model, for `/context`."""
        from clew.agent.system_prompt import ContextParts

        return ContextParts(
            catalogue=self.models,
            personalities=self.personalities,
            toolbox=self.tools,
            prompt=self._prompt,
        )

    @cached_property
    def agent(self) -> Agent:
        """The agent, which runs the turns. Its library is loaded with the first turn."""
        from clew.agent.agent import PydanticAgent

        if self._agent is not None:
            return self._agent
        self.check_memory()
        return PydanticAgent(
            catalogue=self.models,
            personalities=self.personalities,
            toolbox=self.tools,
            build_prompt=self._prompt.build_prompt,
            get_blob=self.store.get_blob,
            put_blob=self.store.put_blob,
            find_compaction=self.store.find_compaction,
            pruning=self._pruning,
            context_messages=self.config.session.context_messages,
            stall_timeout=self.config.models.stall_timeout,
        )

    async def ask_model(self, info: ModelInfo, question: str, soul: str = "") -> str:
        """Ask a model one question, beside all sessions."""
        import time

        from clew.agent.answers import ask_once

        model = await self.models.open_model(info)
        settings = self.models.get_settings(info)
        answer = await ask_once(model, info, settings, question, clock=time.perf_counter, soul=soul)
        return answer.text

    # --- sessions in time -----------------------------------------------------------------------

    @cached_property
    def runtime(self) -> Runtime:
        """The runtime, over the agent."""
        from clew.agent.compaction import ModelSummariser
        from clew.agent.memory_flush import MemoryFlusher
        from clew.runtime.hooks import Hooks
        from clew.runtime.runtime import Runtime
        from clew.runtime.upkeep.compaction import CompactingRules

        config = self.config
        return Runtime(
            self.store,
            self.agent,
            hooks=Hooks(msgspec.structs.asdict(config.hooks), clock=self.clock),
            clock=self.clock,
            remember_rule=self.remember_rule,
            summariser=ModelSummariser(catalogue=self.models, personalities=self.personalities),
            flusher=MemoryFlusher(
                catalogue=self.models,
                personalities=self.personalities,
                toolbox=self.tools,
                build_prompt=self._prompt.build_prompt,
                get_blob=self.store.get_blob,
            ),
            compacting=CompactingRules(
                auto=config.session.auto_compact,
                flush=config.memory.flush,
                context_messages=config.session.context_messages,
                pruning=self._pruning,
            ),
            sending=config.session.send_policy,
        )

    @cached_property
    def rules(self) -> ReceptionRules:
        """The rules for messages on channels."""
        from clew.core.channels.session_choice import ReceptionRules
        from clew.wiring.channels import list_mentioned
        from clew.wiring.rules import (
            model_names,
            reset_rules,
            routing_rules,
        )
        from clew.wiring.workspaces import find_agent_places

        config = self.config
        return ReceptionRules(
            owners=config.owners,
            guests=config.guests,
            routing=routing_rules(config),
            resets=reset_rules(config),
            triggers=config.session.reset_triggers,
            models=model_names(config),
            sending=config.session.send_policy,
            by_mention=list_mentioned(config),
            places=find_agent_places(config),
            zone=self.zone,
        )

    @cached_property
    def reception(self) -> Reception:
        """The entrance for messages from channels and under a key, opened with the rules."""
        from clew.runtime.inbound.commands import ChannelCommands
        from clew.runtime.inbound.reception import SETTLE_S

        commands = ChannelCommands(
            runtime=self.runtime,
            models=self.models,
            personalities=self.personalities,
            memory=self.memory,
            recall=self.recall,
            context=self.context,
            place=self.place,
            zone=self.zone,
            list_tool_rules=self.list_tool_rules,
        )
        pause = SETTLE_S if self._settle_s is None else self._settle_s
        reception = self.runtime.reception
        reception.open(self.rules, commands, settle_s=pause)
        return reception

    @cached_property
    def jobs(self) -> CronFile:
        """The jobs that run on a schedule."""
        from clew.runtime.cron import CronFile

        return CronFile(self.config.data_dir / "cron.json")

    @cached_property
    def place(self) -> Place:
        """The directory for callers that have none of their own: a gateway's, or the process's."""
        from clew.client.seats import locate

        return locate(self._workspace, scope=self.config.session.scope)

    @cached_property
    def workspaces(self) -> Workspaces:
        """What is known about directories that the agent may work in."""
        return open_workspaces(self.config)

    @cached_property
    def judge(self) -> Judge | None:
        """Decides whether a terminal's session goes on; None if all of them do."""
        from clew.wiring.rules import terminal_judge

        return terminal_judge(self.config)

    # --- other things that handlers ask ----------------------------------------------------------

    @cached_property
    def zone(self) -> tzinfo:
        """The time zone that days are counted in."""
        from clew.runtime.zones import find_zone

        return find_zone(self.config.session.timezone)

    @cached_property
    def settings(self) -> ConfigSettings:
        """The configuration as a page shows and changes it."""
        from clew.wiring.settings import ConfigSettings

        return ConfigSettings(self)

    @property
    def config_file(self) -> Path:
        """The path of the config file; it need not exist."""
        return self.config.file

    @property
    def timezone(self) -> str | None:
        """The name of the configured time zone, if there is one."""
        return self.config.session.timezone

    def export(
        self, session: Session, kind: Format, masked: bool | None, thinking: bool
    ) -> AsyncIterator[str]:
        """A session as a file of that kind."""
        from clew.transfer import export_session

        return export_session(self.store, session, kind, masked=masked, thinking=thinking)

    async def import_transcript(
        self, lines: Iterable[bytes], *, as_new: bool, dry_run: bool, cwd: str | None
    ) -> Imported:
        """Import a transcript as a session; a session that is there is not changed.

        The file is never trusted: over the API nobody can be asked whose export it is.
        """
        from clew.transfer import import_transcript

        place = find_import_place(self.config, cwd)
        return await import_transcript(
            self.store, lines, as_new=as_new, dry_run=dry_run, extends=False, place=place
        )

    def list_tool_rules(self) -> tuple[HeldRule, ...]:
        """The rules of the configuration, and what was answered with "always" since its start."""
        config = self.config
        return (
            *hold("deny", config.tools.deny, config.sources["tools.deny"]),
            *hold("allow", config.tools.allow, config.sources["tools.allow"]),
            *hold(
                "allow",
                self.effective_config.tools.allow[len(config.tools.allow) :],
                f'{config.file} (answered with "always")',
            ),
        )

    async def remember_rule(self, rule: str) -> None:
        """Keep an answer of "always", here and in the config file."""
        if rule not in (*self.config.tools.allow, *self._always):
            self._always.append(rule)
        await _write_rule(self.config, rule)

    @property
    def retention(self) -> Retention:
        """The rules for old sessions."""
        return retention_policy(self.config)

    @cached_property
    def _renderer(self) -> MessageRenderer:
        from clew.transfer.message_html import MessageRenderer

        return MessageRenderer()

    async def render(self, messages: Sequence[Message]) -> tuple[MessageHtml, ...]:
        """The HTML of messages, one for each."""
        return await self._renderer.render(messages)

    async def describe(self) -> StoreView:
        """What kind of store it is."""
        from clew.api.status import StoreView
        from clew.core.redaction import hide_password

        url = self.config.store.url
        path, engine, schema = await _describe_database(url)
        return StoreView(
            url=hide_password(url),
            engine=engine,
            schema=schema,
            path=path,
            durability=self.config.store.durability,
        )

    async def examine(self) -> tuple[FindingView, ...]:
        """What can be seen of the store without reading it; of a server's database, nothing."""
        from clew.api.status import FindingView

        path = find_file(self.config.store.url)
        if path is None:
            return ()
        from clew.store.sqlite.doctor import examine_place

        found = await asyncio.to_thread(examine_place, path, self.config.home)
        return tuple(FindingView(each.name, each.level, each.what, each.advice) for each in found)

    def find_backup_time(self) -> int | None:
        """When the store was last backed up, as `clew backup` has written it down."""
        return find_backup_time(self.config)

    def is_running(self, session_id: str) -> bool:
        """Whether this process is working on the session."""
        return "runtime" in self.__dict__ and self.runtime.is_running(session_id)

    def list_channels(self) -> tuple[ChannelView, ...]:
        """The channels of a gateway, as `status` shows them."""
        return () if self.errands is None else self.errands.list_channels()

    async def check_channel(self, name: str, account: str) -> tuple[str, tuple[str, ...]] | None:
        """Ask the platform of a channel of a gateway who it is there, and what it lacks."""
        if self.errands is None:
            return None
        return await self.errands.supervisor.check(name, account)

    def list_errands(self) -> tuple[ErrandView, ...]:
        """The errands of a gateway, as `status` shows them."""
        return () if self.errands is None else self.errands.list_errands()

    def list_job_problems(self) -> dict[str, str]:
        """The last error of each job that failed, by its name."""
        return {} if self.errands is None else self.errands.list_problems()


@asynccontextmanager
async def open_house(
    config: Config,
    clock: Clock | None = None,
    *,
    workspace: Path | None = None,
    report: Report = quiet,
) -> AsyncIterator[House]:
    """A house over the configured store; both are closed at the end.

    `report` is called while an older store is updated.
    """
    async with AsyncExitStack() as open_things:
        store = await open_configured_store(config, clock, report=report)
        open_things.push_async_callback(store.close)
        house = House(config, store, clock=clock, workspace=workspace)
        open_things.push_async_callback(house.close)
        yield house


async def _describe_database(url: str) -> tuple[str, str, int]:
    """The path, the engine and the schema number of a store that this clew has opened."""
    if is_postgres(url):
        from clew.store.postgres.doctor import describe

        return await describe(url)
    if is_foreign(url):
        # Of the rest of a URL it is not known what is a secret.
        scheme = url.partition("://")[0]
        return f"{scheme}://…", scheme, 0
    import apsw

    from clew.store.sqlite.schema import shipped_migrations

    engine = f"SQLite {apsw.sqlite_lib_version()}"
    return str(sqlite_path(url)), engine, shipped_migrations()[-1].number


def _tool_servers(config: Config) -> tuple[MCPServer, ...]:
    from clew.agent.tools import MCPServer

    return tuple(
        MCPServer(
            name=name,
            command=each.command,
            url=each.url,
            env={variable: reveal(secret) for variable, secret in each.env.items()},
            tools=each.tools or None,
        )
        for name, each in config.mcp.items()
    )


def _time_zone(config: Config) -> tzinfo:
    if config.session.timezone is not None:
        import zoneinfo

        return zoneinfo.ZoneInfo(config.session.timezone)
    return datetime.now(UTC).astimezone().tzinfo or UTC


async def _write_rule(config: Config, rule: str) -> None:
    """Write an answer of "always" to the config file, where people can see and remove it."""
    known = load(file=str(config.file)).tools.allow if config.file.exists() else ()
    if rule not in known:
        text = msgspec.json.encode([*known, rule]).decode()
        await asyncio.to_thread(set_value, config.file, "tools.allow", text)
