"""Which directories are clew's own, which one a gateway's agent works in, which are asked about."""

from __future__ import annotations

from pathlib import Path

from clew.config import Config
from clew.core.channels.routing import normalise_agent
from clew.core.keys import Place
from clew.errors import InvalidConfig
from clew.files.durable import make_directory
from clew.files.workspaces import Workspaces
from clew.store import find_file


def open_workspaces(config: Config) -> Workspaces:
    """What is known about directories with this configuration."""
    named = (config.gateway.workspace, *(each.workspace for each in config.agents))
    return Workspaces(
        own=list_own_directories(config),
        opened=get_default_workspace(config),
        named=tuple(expand(each) for each in named if each is not None),
        listed=tuple(map(expand, config.gateway.workspaces)),
        memo=config.state_dir / "workspaces.json",
    )


def list_own_directories(config: Config) -> tuple[Path, ...]:
    """clew's directories: configuration, data, state and cache, wherever they are."""
    own = (config.config_dir, config.data_dir, config.state_dir, config.cache_dir)
    return tuple(dict.fromkeys(own))


def list_sealed(config: Config) -> tuple[Path, ...]:
    """What no tool may open: clew's directories, and its files that are in other places."""
    elsewhere = [config.file]
    if config.file.parent != config.config_dir:
        elsewhere.append(config.file.parent / "personalities")
    store = find_file(config.store.url)
    if store is not None:
        elsewhere += [store, store.with_name("store.lock"), store.with_name("processes")]
    return (*list_own_directories(config), *elsewhere)


def get_default_workspace(config: Config) -> Path:
    """The directory of a gateway's agent, if none is configured: beside the store."""
    store = find_file(config.store.url)
    return config.data_dir / "workspace" if store is None else store.with_name("workspace")


def make_workspace(config: Config) -> Path:
    """The directory that a gateway's agent works in; the default one is made if it is missing.

    `InvalidConfig` for one that can't be used, or that is clew's own.
    """
    default = get_default_workspace(config)
    if config.gateway.workspace is None:
        make_directory(default)
        return default.resolve()
    return _check_workspace(config, "gateway.workspace", config.gateway.workspace)


def find_agent_places(config: Config) -> dict[str, Place]:
    """The directories of the agents that have one of their own, by agent."""
    from clew.client.seats import locate  # only for a gateway

    return {
        normalise_agent(each.id): locate(
            _check_workspace(config, f'the workspace of the agent "{each.id}"', each.workspace),
            scope=config.session.scope,
        )
        for each in config.agents
        if each.workspace is not None
    }


def _check_workspace(config: Config, what: str, typed: str) -> Path:
    """A configured directory; `InvalidConfig` for one that can't be used, or that is clew's own."""
    default = get_default_workspace(config)
    chosen = expand(typed).resolve()
    if not chosen.is_dir():
        raise InvalidConfig(
            f"{what} is {chosen}, which is not a directory. Make it, or choose another."
        )
    own = [each.resolve() for each in list_own_directories(config)]
    if not chosen.is_relative_to(default.resolve()) and any(map(chosen.is_relative_to, own)):
        raise InvalidConfig(
            f"{what} is {chosen}, a directory of clew itself, which no tool opens. "
            "Choose another, or leave it out."
        )
    return chosen


def expand(typed: str) -> Path:
    """A configured directory as a path; `InvalidConfig` if its user is not known."""
    try:
        return Path(typed).expanduser()
    except RuntimeError as error:
        raise InvalidConfig(f"{typed} can't be used as a directory: {error}.") from error
