"""Entry points: what installed packages bring to clew, found and loaded without trusting them.

A package that is broken never stops clew: it is left out, and the reason is told. What a group's
entries have to be is decided where they are used; `clew plugins` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS: Final[dict[str, str]] = {
    "clew.tools": "a tool of the agent, or a list of tools",
    "clew.channels": "a function that makes a channel; its name is the channel's type",
    "clew.stores": "a function that opens a store; its name is the scheme of the URL",
    "clew.importers": "a reader of another agent's histories",
    "clew.models": "a function that opens a model; its name is the provider's",
    "clew.hooks": "a function that is told of an event; its name is the event",
}
"""The groups, and what each entry is."""

Tell = Callable[[str], object]


class Plugin(NamedTuple):
    """An entry of a package. `problem` says why it can't be used."""

    group: str
    name: str
    value: str
    package: str
    version: str
    problem: str | None = None


def find_entries(group: str, name: str | None = None) -> tuple[EntryPoint, ...]:
    """The entries of a group, or those of one name, in order; none if they can't be read."""
    from importlib.metadata import entry_points  # noqa: PLC0415  # slow, and seldom needed

    try:
        found = entry_points(group=group) if name is None else entry_points(group=group, name=name)
        return tuple(sorted(found, key=lambda each: (each.name, each.value)))
    except Exception:  # noqa: BLE001  # any package may declare anything about itself
        return ()


def load_entry(entry: EntryPoint) -> Any:
    """The object of an entry; `ImportError` with the reason for anything that goes wrong."""
    try:
        return entry.load()
    except (Exception, SystemExit) as error:
        raise ImportError(
            f"{entry.name} ({entry.value}) can't be loaded: {type(error).__name__}: {error}"
        ) from error


def list_plugins(check: Callable[[str, str, Any], str | None]) -> tuple[Plugin, ...]:
    """All entries of all groups. `check` says of a loaded one what is wrong with it."""
    found = []
    for group in GROUPS:
        for entry in find_entries(group):
            try:
                problem = check(group, entry.name, load_entry(entry))
            except ImportError as error:
                problem = str(error)
            package, version = describe_package(entry)
            found.append(Plugin(group, entry.name, entry.value, package, version, problem))
    return tuple(found)


def describe_package(entry: EntryPoint) -> tuple[str, str]:
    """The name and the version of the package that declares an entry."""
    if entry.dist is None:
        return "", ""
    try:
        return entry.dist.name, entry.dist.version
    except Exception:  # noqa: BLE001  # its metadata may be damaged
        return "", ""
