"""What installed packages bring: tools for the agent, and the list of `clew plugins`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from clew.plugins import GROUPS, Plugin, find_entries, list_plugins, load_entry

if TYPE_CHECKING:
    from clew.agent.tools.tool import Tool

log = logging.getLogger(__name__)


def list_installed() -> tuple[Plugin, ...]:
    """All plugins that are installed, with what is wrong with those that can't be used."""
    return list_plugins(_check)


def list_plugin_tools() -> tuple[Tool, ...]:
    """The tools that packages bring. One that can't be used is left out, and logged."""
    found: list[Tool] = []
    for entry in find_entries("clew.tools"):
        try:
            loaded = load_entry(entry)
        except ImportError as error:
            log.warning("A plugin is left out: %s", error)
            continue
        problem = _check_tools(loaded, {each.name for each in found})
        if problem is not None:
            log.warning("The plugin %s (%s) is left out: %s", entry.name, entry.value, problem)
            continue
        found += _tools_of(loaded)
    return tuple(found)


def _check(group: str, name: str, loaded: Any) -> str | None:
    """What is wrong with an entry; None if nothing is."""
    match group:
        case "clew.tools":
            return _check_tools(loaded, set())
        case "clew.importers":
            reader = loaded() if isinstance(loaded, type) else loaded
            is_one = isinstance(getattr(reader, "name", None), str) and hasattr(reader, "read")
            return None if is_one else "It is no reader: it has to have a `name` and `read`."
        case "clew.hooks":
            from clew.runtime.hooks import HOOK_EVENTS

            if name not in HOOK_EVENTS:
                return f'There is no event "{name}". There are {", ".join(HOOK_EVENTS)}.'
    return None if callable(loaded) else f"It has to be {GROUPS[group]}."


def _check_tools(loaded: Any, taken: set[str]) -> str | None:
    from clew.agent.tools.tool import Tool
    from clew.agent.tools.toolbox import TOOLS

    tools = _tools_of(loaded)
    if not tools or not all(isinstance(each, Tool) for each in tools):
        return "It has to be a `Tool` of `clew.agent.tools`, or a list of them."
    for each in tools:
        if each.name in TOOLS or each.name in taken:
            return f"There is a tool {each.name} already."
        try:
            _ = each.spec
        except Exception as error:  # noqa: BLE001  # the border to a package of somebody else
            return f"The tool {each.name} can't be described to a model: {error}"
    return None


def _tools_of(loaded: Any) -> tuple[Any, ...]:
    return tuple(loaded) if isinstance(loaded, Iterable) else (loaded,)
