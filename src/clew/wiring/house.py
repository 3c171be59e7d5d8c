"""The house: agent, runtime and all that the handlers work with, over a store.

Parts are imported and built when they are first asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from clew.clock import host_clock
from clew.config import (
    Config,
    load,
    process_environment,
    reveal,
    set_value,
)
from clew.store import is_postgres, sqlite_path
from clew.wiring.models import open_catalogue
from clew.wiring.stores import describe_store, retention_policy

if TYPE_CHECKING:
    from clew.agent.models.catalogue import Catalogue
    from clew.agent.system_prompt import SystemPrompt
    from clew.agent.tools import MCPServer, Policy, Tools
    from clew.api.handlers.parts import Format
    from clew.api.sessions import Imported, MessageHtml
    from clew.api.status import ChannelView, ErrandView, StoreView
    from clew.core.channels.session_choice import Judge, ReceptionRules
    from clew.core.context.thread import Pruning
    from clew.core.keys import Place
    from clew.core.message import Message
    from clew.core.session import Retention, Session
    from clew.ports import Agent, Clock, Context, Memory, Personalities, Store
    from clew.runtime.cron import CronFile
    from clew.runtime.inbound.reception import Reception
    from clew.runtime.place.attachment import Attachments
    from clew.runtime.runtime import Runtime
    from clew.transfer.message_html import Typesetter
    from clew.wiring.errands import Errands


class House:
    """What a conversation and the handlers of the API work with, over an open store.

    Each part is built when it is first asked for: a list of sessions builds no runtime. Close it
    before the store. Without a store it has the parts that need none: memory, personalities, jobs.
    `agent` takes the place of the one that the configuration names; `settle_s` is another pause
    than the usual one before what was said meanwhile is answered.
    """

    def __init__(
        self,
        config: Config,
        store: Store | None,
        *,
        clock: Clock | None = None,
        agent: Agent | None = None,
        settle_s: float | None = None,
    ) -> None:
        self.config = config
        self._store = store
        self.clock: Clock = clock or host_clock
        self.started_at: int | None = None
        """When the gateway of this process was started."""
        self.errands: Errands | None = None
        """What a gateway does beside the turns; it is set when that has begun."""
        self.attachments: Attachments | None = None
        """What the terminal of this process holds."""
        self.is_terminal = False
        """Whether this process is a terminal: its messages wait for their person after a crash."""
        self._agent = agent
        self._settle_s = settle_s

    @property
    def store(self) -> Store:
        """The open store."""
        if self._store is None:
            raise TypeError("this house was built without a store")
        return self._store

    async def close(self) -> None:
        """Abort what runs, and let go of what was built."""
        built = self.__dict__
        if self.attachments is not None:
            self.attachments.close()
        if "runtime" in built:
            await self.runtime.close()
        if "tools" in built:
            await self.tools.aclose()
        if "models" in built:
            await self.models.close()
        if "_typesetter" in built:
            await self._typesetter.close()

    # --- the agent ------------------------------------------------------------------------------

    @cached_property
    def models(self) -> Catalogue:
        """The models of this configuration."""
        return open_catalogue(self.config)

    @cached_property
    def personalities(self) -> Personalities:
        """The built-in personalities, and the person's own."""
        return open_personalities(self.config)

    @cached_property
    def memory(self) -> Memory:
        """The memory files."""
        return open_memory(self.config)

    @cached_property
    def tools(self) -> Tools:
        """The tools of the agent."""
        from clew.agent.tools import Tools  # noqa: PLC0415  # loaded when it is first asked for

        servers = _tool_servers(self.config)
        return Tools(self.store, self.memory, _tool_policy(self.config), servers=servers)

    @cached_property
    def _prompt(self) -> SystemPrompt:
        from clew.agent.system_prompt import SystemPrompt  # noqa: PLC0415  # see above

        return SystemPrompt(
            self.memory,
            self.store,
            self.clock,
            tz=_time_zone(self.config),
            guests=self.config.memory.guests,
        )

    @cached_property
    def _pruning(self) -> Pruning:
        from clew.core.context.thread import Pruning  # noqa: PLC0415  # a list needs no agent

        return Pruning(**msgspec.structs.asdict(self.config.context.pruning))

    @cached_property
    def context(self) -> Context:
        """What a request to the model consists of, for people who ask."""
        from clew.agent.system_prompt import ContextParts  # noqa: PLC0415  # see above

        return ContextParts(
            catalogue=self.models,
            personalities=self.personalities,
            toolbox=self.tools,
            prompt=self._prompt,
        )

    @cached_property
    def agent(self) -> Agent:
        """Who runs a turn. Nothing heavy is loaded before there is one."""
        from clew.agent.agent import PydanticAgent  # noqa: PLC0415  # see above

        if self._agent is not None:
            return self._agent
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

    # --- sessions in time -----------------------------------------------------------------------

    @cached_property
    def runtime(self) -> Runtime:
        """The runtime, over the agent."""
        from clew.agent.compaction import ModelSummariser  # noqa: PLC0415  # see above
        from clew.agent.memory_flush import MemoryFlusher  # noqa: PLC0415  # see above
        from clew.runtime.hooks import Hooks  # noqa: PLC0415  # see above
        from clew.runtime.runtime import Runtime  # noqa: PLC0415  # see above
        from clew.runtime.upkeep.compaction import CompactingRules  # noqa: PLC0415  # see above

        config = self.config
        return Runtime(
            self.store,
            self.agent,
            hooks=Hooks(msgspec.structs.asdict(config.hooks), clock=self.clock),
            clock=self.clock,
            remember_rule=partial(_remember_rule, config),
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
        """What the configuration says about messages on channels."""
        from clew.core.channels.session_choice import ReceptionRules  # noqa: PLC0415  # see above
        from clew.wiring.rules import (  # noqa: PLC0415  # see above
            model_names,
            reset_rules,
            routing_rules,
        )

        config = self.config
        return ReceptionRules(
            owners=config.owners,
            guests=config.guests,
            routing=routing_rules(config),
            resets=reset_rules(config),
            triggers=config.session.reset_triggers,
            models=model_names(config),
            sending=config.session.send_policy,
            zone=self.zone,
        )

    @cached_property
    def reception(self) -> Reception:
        """Where messages of channels, and those under a key, come in: opened with the rules."""
        from clew.runtime.inbound.commands import ChannelCommands  # noqa: PLC0415  # see above
        from clew.runtime.inbound.reception import SETTLE_S  # noqa: PLC0415  # see above

        commands = ChannelCommands(
            runtime=self.runtime,
            models=self.models,
            personalities=self.personalities,
            memory=self.memory,
            context=self.context,
            place=self.place,
            zone=self.zone,
        )
        pause = SETTLE_S if self._settle_s is None else self._settle_s
        reception = self.runtime.reception
        reception.open(self.rules, commands, settle_s=pause)
        return reception

    @cached_property
    def jobs(self) -> CronFile:
        """The jobs that run by the clock."""
        return open_cron_file(self.config)

    @cached_property
    def place(self) -> Place:
        """The directory of this process, for callers that have none of their own."""
        from clew.client.place import locate  # noqa: PLC0415  # see above

        return locate(scope=self.config.session.scope)

    @cached_property
    def judge(self) -> Judge | None:
        """Whether a terminal's session goes on; None where all of them do."""
        from clew.wiring.rules import terminal_judge  # noqa: PLC0415  # see above

        return terminal_judge(self.config)

    # --- what else the handlers ask -------------------------------------------------------------

    @cached_property
    def zone(self) -> tzinfo:
        """The time zone in which days are cut."""
        from clew.runtime.zones import find_zone  # noqa: PLC0415  # see above

        return find_zone(self.config.session.timezone)

    @property
    def config_file(self) -> Path:
        """The config file, there or not."""
        return self.config.file

    @property
    def timezone(self) -> str | None:
        """Its name, if the configuration says one."""
        return self.config.session.timezone

    def export(
        self, session: Session, kind: Format, masked: bool | None, thinking: bool
    ) -> AsyncIterator[str]:
        """A session as a file of that kind."""
        from clew.transfer import export_session  # noqa: PLC0415  # see above

        return export_session(self.store, session, kind, masked=masked, thinking=thinking)

    async def import_transcript(
        self, lines: Iterable[bytes], *, as_new: bool, dry_run: bool
    ) -> Imported:
        """Make a session of a transcript; one that is there already is left alone."""
        from clew.transfer import import_transcript  # noqa: PLC0415  # see above

        return await import_transcript(
            self.store, lines, as_new=as_new, dry_run=dry_run, extends=False
        )

    @property
    def retention(self) -> Retention:
        """What is done with old sessions."""
        return retention_policy(self.config)

    @cached_property
    def _typesetter(self) -> Typesetter:
        from clew.transfer.message_html import Typesetter  # noqa: PLC0415  # see above

        return Typesetter()

    async def render(self, messages: Sequence[Message]) -> tuple[MessageHtml, ...]:
        """The HTML of messages, one for each."""
        return await self._typesetter.render(messages)

    async def describe(self) -> StoreView:
        """What kind of store it is."""
        from clew.api.status import StoreView  # noqa: PLC0415  # see above
        from clew.core.redaction import hide_password  # noqa: PLC0415  # see above

        facts = await describe_store(self.config)
        return StoreView(
            url=hide_password(self.config.store.url),
            engine=facts.engine,
            schema=facts.schema,
            path=facts.path,
            durability=self.config.store.durability,
        )

    def is_running(self, session_id: str) -> bool:
        """Whether this process has something to do in the session."""
        return "runtime" in self.__dict__ and self.runtime.is_running(session_id)

    def list_channels(self) -> tuple[ChannelView, ...]:
        """The channels of a gateway, as they are shown."""
        return () if self.errands is None else self.errands.list_channels()

    def list_errands(self) -> tuple[ErrandView, ...]:
        """What a gateway does beside the turns, as it is shown."""
        return () if self.errands is None else self.errands.list_errands()

    def list_job_problems(self) -> dict[str, str]:
        """What went wrong with which job."""
        return {} if self.errands is None else self.errands.list_problems()


def open_cron_file(config: Config) -> CronFile:
    """The jobs that run by the clock."""
    from clew.runtime.cron import CronFile  # noqa: PLC0415  # see above

    return CronFile(config.data_dir / "cron.json")


def open_memory(config: Config) -> Memory:
    """The memory files of this configuration."""
    from clew.memory import MarkdownMemory  # noqa: PLC0415  # only who remembers pays for it

    return MarkdownMemory(config.data_dir)


def open_personalities(config: Config) -> Personalities:
    """The built-in personalities, and those beside the config file."""
    from clew.agent.personalities import FilePersonalities  # noqa: PLC0415  # only who talks pays for it

    return FilePersonalities(config.file.parent / "personalities")


def _tool_policy(config: Config) -> Policy:
    from clew.agent.tools import Policy  # noqa: PLC0415  # only who talks pays for it

    return Policy(
        allow=config.tools.allow,
        deny=config.tools.deny,
        timeout=config.tools.timeout,
        max_output=config.tools.max_output,
        memory_guests=config.memory.guests,
        environment=process_environment(),
        sealed=tuple(map(str, (*_store_files(config), config.file))),
    )


def _store_files(config: Config) -> tuple[Path, ...]:
    """What no tool may touch: the file of the store and its directory, or clew's own directory."""
    if is_postgres(config.store.url):
        return (config.data_dir,)
    path = sqlite_path(config.store.url)
    return (path, path.parent)


def _tool_servers(config: Config) -> tuple[MCPServer, ...]:
    from clew.agent.tools import MCPServer  # noqa: PLC0415  # only who talks pays for it

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
        import zoneinfo  # noqa: PLC0415  # most people live where their computer does

        return zoneinfo.ZoneInfo(config.session.timezone)
    return datetime.now(UTC).astimezone().tzinfo or UTC


async def _remember_rule(config: Config, rule: str) -> None:
    """An answer of "always" goes where people can see it, and take it back."""
    known = load(file=str(config.file)).tools.allow if config.file.exists() else ()
    if rule not in known:
        text = msgspec.json.encode([*known, rule]).decode()
        await asyncio.to_thread(set_value, config.file, "tools.allow", text)
