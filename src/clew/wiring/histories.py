"""Other agents' histories on this machine: found, imported, followed.

Files of this machine are read where the store is; no gateway reads them for a caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from clew.clock import host_clock
from clew.config import Config, agent_variables
from clew.core.names import counted
from clew.errors import InvalidConfig, InvalidInput
from clew.store.migrations import Report, quiet
from clew.wiring.stores import open_configured_store

if TYPE_CHECKING:
    from clew.ports import Clock, Store
    from clew.transfer.histories import Brought, Found
    from clew.transfer.readers.reader import Home, Reader, Source

    Chosen = tuple[Reader, list[Source]]

QUICK = ("claude-code", "codex", "pi")
"""Agents whose sessions are counted by looking at directories alone."""

WATCH_S = 3.0
FOLLOW_S = 15.0
"""Seconds between two looks: of a person who watches, and of a gateway."""

Tell = Callable[[str], None]


def find_home() -> Home:
    """Where agents keep their files on this machine."""
    from clew.transfer.readers.reader import Home

    return Home(Path.home(), agent_variables())


def agent_root(agent: str) -> Path:
    """The directory of an agent whose files are written."""
    home = find_home()
    if agent == "claude-code":
        return home.place("CLAUDE_CONFIG_DIR", ".claude")
    return home.place("CODEX_HOME", ".codex")


def guess_agent(path: Path) -> str | None:
    """The agent whose history a path is; None if it is none, or clew's own transcript."""
    from clew.transfer.readers.catalogue import guess_reader, list_readers

    reader = guess_reader(path, list_readers())
    return None if reader is None else reader.name


def check_followed(agents: Sequence[str]) -> None:
    """Raise `InvalidConfig` for an agent that can't be followed."""
    from clew.transfer.readers.catalogue import list_readers

    known = [each.name for each in list_readers()]
    for each in agents:
        if each not in known:
            raise InvalidConfig(
                f'import.follow names "{each}", whose histories clew can\'t read. It knows '
                f"{', '.join(known)}."
            )


def find_untold(config: Config) -> str | None:
    """A line about histories on this machine, for a person who has not been told; told once."""
    mark = config.state_dir / "histories-told"
    if mark.exists():
        return None
    with suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        return _word_histories()
    return None  # where nothing can be noted, a person would be told again and again


def _word_histories() -> str | None:
    from clew.transfer.readers.catalogue import list_readers

    home = find_home()
    for reader in list_readers():
        if reader.name in QUICK:
            count = sum(each.parent is None for each in reader.find(home))
            if count:
                found = counted(count, "session")
                return f"{reader.label} has {found} here: `clew import --scan`"
    return None


async def scan_histories(
    config: Config, *, report: Report = quiet, tell: Tell = lambda _: None
) -> tuple[Found, ...]:
    """The histories that are on this machine, and what of them is new."""
    from clew.transfer.histories import scan
    from clew.transfer.readers.catalogue import list_readers

    store = await open_configured_store(config, report=report)
    try:
        return await scan(store, list_readers(tell), find_home())
    finally:
        await store.close()


def list_sources(
    *, agent: str | None, path: Path | None, since: int | None, tell: Tell = lambda _: None
) -> list[Chosen]:
    """The sessions that are asked for, by reader."""
    from clew.transfer.readers.catalogue import get_reader, guess_reader, list_readers

    readers = list_readers(tell)
    home = find_home()
    if path is not None:
        reader = guess_reader(path, readers) if agent is None else get_reader(agent, readers)
        if reader is None:
            raise InvalidInput(
                f"{path} is no history that clew knows. --from AGENT says whose it is; "
                "`clew import --scan` lists agents. Nothing was imported."
            )
        found = [(reader, list(reader.open(path)))]
    else:
        chosen = readers if agent is None else (get_reader(agent, readers),)
        found = [(each, list(each.find(home))) for each in chosen]
    kept = [
        (reader, [each for each in sources if since is None or each.at >= since])
        for reader, sources in found
    ]
    return [(reader, sources) for reader, sources in kept if sources]


async def import_histories(
    config: Config,
    chosen: Sequence[Chosen],
    take: Callable[[Brought], None],
    *,
    now: int,
    dry_run: bool,
    branches: bool,
    again: bool,
    routes: bool,
    advance: Callable[[int], None],
    report: Report = quiet,
) -> None:
    """Import sessions; `take` is called after each. It can be stopped between two."""
    from clew.transfer.histories import import_sources

    store = await open_configured_store(config, report=report)
    try:
        for reader, sources in chosen:
            async for brought in import_sources(
                store,
                reader,
                sources,
                now=now,
                dry_run=dry_run,
                branches=branches,
                again=again,
                routes=routes,
                advance=advance,
            ):
                take(brought)
    finally:
        await store.close()


async def watch_histories(
    config: Config,
    agents: Sequence[str],
    take: Callable[[Brought], None],
    *,
    report: Report = quiet,
) -> None:
    """Import what other agents write, until it is cancelled; `take` is called for what is new."""
    store = await open_configured_store(config, report=report)
    try:
        await follow_histories(store, agents, take, clock=host_clock, seconds=WATCH_S)
    finally:
        await store.close()


async def follow_histories(
    store: Store,
    agents: Sequence[str],
    take: Callable[[Brought], None] = lambda _: None,
    *,
    clock: Clock,
    seconds: float = FOLLOW_S,
) -> None:
    """Follow the histories of some agents, or of all if none is named."""
    from clew.transfer.histories import follow
    from clew.transfer.readers.catalogue import get_reader, list_readers

    readers = list_readers()
    chosen = [get_reader(each, readers) for each in agents] if agents else list(readers)
    home = find_home()

    async def pause() -> None:
        await asyncio.sleep(seconds)

    await follow(store, chosen, home, take, clock=clock, pause=pause)
