"""A house: the runtime with its agent, models, tools, memory and personalities, over a store."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from clew.config import (
    Config,
    ProviderConfig,
    load,
    process_environment,
    reveal,
    set_value,
    shared_cache_dir,
)
from clew.core.pruning import Pruning
from clew.store import is_postgres, sqlite_path

if TYPE_CHECKING:
    from clew.agent.models.catalogue import Catalogue
    from clew.agent.models.setup import ProviderSetup
    from clew.agent.tools import MCPServer, Policy, Tools
    from clew.ports import Clock, Context, Memory, Personalities, Store
    from clew.runtime.runtime import Runtime
    from clew.store.findings import Diagnosis as Diagnosis  # noqa: PLC0414  # given on
    from clew.store.findings import Finding as Finding  # noqa: PLC0414  # likewise
    from clew.store.findings import Mended as Mended  # noqa: PLC0414  # likewise


class House(NamedTuple):
    """What a conversation needs, built. Close it before the store."""

    runtime: Runtime
    models: Catalogue
    personalities: Personalities
    memory: Memory
    tools: Tools
    context: Context

    async def close(self) -> None:
        """Abort what runs, and let go of models and tools."""
        await self.runtime.close()
        await self.tools.aclose()
        await self.models.close()


def open_house(config: Config, store: Store, *, clock: Clock | None = None) -> House:
    """The agent and its runtime, over an open store. Nothing heavy is loaded before a turn."""
    from clew.agent.agent import PydanticAgent  # noqa: PLC0415  # only who talks pays for it
    from clew.agent.compaction import ModelSummariser  # noqa: PLC0415  # likewise
    from clew.agent.context import SystemPrompt  # noqa: PLC0415  # likewise
    from clew.agent.flushing import MemoryFlusher  # noqa: PLC0415  # likewise
    from clew.agent.parts import ContextParts  # noqa: PLC0415  # likewise
    from clew.agent.tools import Tools  # noqa: PLC0415  # likewise
    from clew.runtime.compacting import CompactingRules  # noqa: PLC0415  # likewise
    from clew.runtime.hooks import Hooks  # noqa: PLC0415  # likewise
    from clew.runtime.runtime import Runtime, host_clock  # noqa: PLC0415  # likewise

    clock = clock or host_clock
    models, personalities, memory = (
        open_catalogue(config),
        open_personalities(config),
        open_memory(config),
    )
    tools = Tools(store, memory, _tool_policy(config), servers=_tool_servers(config))
    prompt = SystemPrompt(memory, store, clock, tz=_time_zone(config), guests=config.memory.guests)
    pruning = Pruning(**msgspec.structs.asdict(config.context.pruning))
    agent = PydanticAgent(
        catalogue=models,
        personalities=personalities,
        toolbox=tools,
        build_prompt=prompt.build_prompt,
        get_blob=store.get_blob,
        put_blob=store.put_blob,
        find_compaction=store.find_compaction,
        pruning=pruning,
        context_messages=config.session.context_messages,
    )
    flusher = MemoryFlusher(
        catalogue=models,
        personalities=personalities,
        toolbox=tools,
        build_prompt=prompt.build_prompt,
        get_blob=store.get_blob,
    )
    runtime = Runtime(
        store,
        agent,
        hooks=Hooks(msgspec.structs.asdict(config.hooks), clock=clock),
        clock=clock,
        remember_rule=partial(_remember_rule, config),
        summariser=ModelSummariser(catalogue=models, personalities=personalities),
        flusher=flusher,
        compacting=CompactingRules(
            auto=config.session.auto_compact,
            flush=config.memory.flush,
            context_messages=config.session.context_messages,
            pruning=pruning,
        ),
        sending=config.session.send_policy,
    )
    parts = ContextParts(
        catalogue=models, personalities=personalities, toolbox=tools, prompt=prompt
    )
    return House(runtime, models, personalities, memory, tools, parts)


def open_memory(config: Config) -> Memory:
    """The memory files of this configuration."""
    from clew.memory import MarkdownMemory  # noqa: PLC0415  # only who remembers pays for it

    return MarkdownMemory(config.data_dir)


def open_catalogue(config: Config) -> Catalogue:
    """The models of this configuration: the three that everybody knows, and the configured ones.

    Nothing is reached or read yet; keys are looked up when a model is used.
    """
    from clew.agent.models.catalogue import Catalogue  # noqa: PLC0415  # only who talks needs it
    from clew.agent.models.setup import KEY_VARIABLES, ModelsSetup  # noqa: PLC0415  # likewise

    names = dict.fromkeys((*KEY_VARIABLES, *config.providers))
    return Catalogue(
        ModelsSetup(
            providers=tuple(_provider_setup(config, name) for name in names),
            weights_dirs=(config.cache_dir / "models", shared_cache_dir() / "models"),
            cache_dir=config.cache_dir,
            model=config.model,
            model_source=config.sources["model"],
            thinking=config.thinking,
            service_tier=config.service_tier,
            context_window=config.session.context_window,
            aliases=config.models.aliases,
        )
    )


def _provider_setup(config: Config, name: str) -> ProviderSetup:
    """A provider: what its section says, else the variables that other programs know too."""
    from clew.agent.models.setup import KINDS, ProviderSetup  # noqa: PLC0415  # only who talks

    given = config.providers.get(name, ProviderConfig())
    key, source = given.api_key, f"providers.{name}.api_key"
    if key is None:
        variables = [f"{name.upper()}_API_KEY", *(["GEMINI_API_KEY"] if name == "google" else [])]
        source = next((each for each in variables if each in config.credentials), "")
        key = config.credentials.get(source)
    address = config.credentials.get(f"{name.upper()}_BASE_URL")
    return ProviderSetup(
        name=name,
        kind=given.kind or KINDS.get(name, "openai"),
        base_url=given.base_url or (reveal(address) if address is not None else None),
        api_key=None if key is None else partial(reveal, key),
        key_source=source or None,
        models=given.models,
        factory=given.factory,
        context_window=given.context_window,
    )


def open_personalities(config: Config) -> Personalities:
    """The built-in personalities, and those beside the config file."""
    from clew.agent.personalities import Wardrobe  # noqa: PLC0415  # only who talks pays for it

    return Wardrobe(config.file.parent / "personalities")


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
