"""Personalities in files, those of clew and the person's own; and which one a session uses.

`<directory>/<id>/` holds `SOUL.md` (the beginning of the system prompt) and `config.toml`. Both are
read each time. Whether the tools and the model that a personality names exist is not checked
here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET

from clew.core.channels.routing import AgentEntry, find_agent, normalise_agent
from clew.core.models import (
    DEFAULT_PERSONALITY,
    MAX_SOUL,
    AgentPersonality,
    MemoryScope,
    ModelInfo,
    Personality,
    PersonalityEdit,
    Thinking,
)
from clew.core.session import Session
from clew.errors import InvalidConfig, InvalidInput, ModelNotFound, PersonalityNotFound
from clew.files.durable import put_bytes
from clew.ports import Personalities

if TYPE_CHECKING:
    from clew.agent.requests import Catalogue

BUILT_IN: Final = Path(__file__).parent / "souls"
SOUL: Final = "SOUL.md"
CONFIG: Final = "config.toml"

_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class PersonalityFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a `config.toml`. Everything may be left out."""

    name: str | None = None
    description: str = ""
    model: str | None = None
    tools: tuple[str, ...] | None = None
    memory_scope: MemoryScope = "global"
    thinking: Thinking | None = None


class FilePersonalities:
    """`ports.Personalities` in files. `directory` has the person's own; it need not exist."""

    def __init__(
        self,
        directory: Path | None = None,
        list_agents: Callable[[], tuple[AgentEntry, ...]] = tuple,
    ) -> None:
        """`list_agents` returns the agents that are configured now."""
        self._directory = directory
        self._list_agents = list_agents

    def list_personalities(self) -> tuple[Personality, ...]:
        """All of them, `default` first, then by id; `InvalidConfig` for one that can't be read."""
        ids = {*_list_ids(BUILT_IN), *_list_ids(self._directory)}
        ordered = sorted(ids, key=lambda each: (each != DEFAULT_PERSONALITY, each))
        return tuple(self.get_personality(each) for each in ordered)

    def get_personality(self, personality_id: str | None = None) -> Personality:
        """One of them, the default if None; `PersonalityNotFound` with the list."""
        wanted = personality_id or DEFAULT_PERSONALITY
        # The id may come from anywhere: only what looks like one ever becomes part of a path.
        if _ID.fullmatch(wanted):
            places = [each for each in (self._directory, BUILT_IN) if each is not None]
            homes = [each / wanted for each in places if _is_personality(each / wanted)]
            if homes:
                return _read(homes, builtin=homes[0].parent == BUILT_IN)
        known = {*_list_ids(BUILT_IN), *_list_ids(self._directory)}
        raise PersonalityNotFound(
            f'There is no personality "{wanted[:64]}". There are: {", ".join(sorted(known))}.'
        )

    def choose_personality(self, session: Session) -> Personality:
        """See `ports.Personalities`."""
        agent = find_agent(self._list_agents(), session.agent)
        wanted = session.personality or (None if agent is None else agent.personality)
        try:
            found = self.get_personality(wanted)
        except PersonalityNotFound:
            found = self.get_personality(None)
        return found if agent is None else _of_agent(found, agent)

    def update_personality(self, personality_id: str, edit: PersonalityEdit) -> Personality:
        """Change or make one, in the person's own directory; a built-in one stays as it is."""
        if self._directory is None or not _ID.fullmatch(personality_id):
            raise InvalidInput(
                f'"{personality_id[:64]}" can\'t be the id of a personality: it has small letters, '
                "digits, - and _, at most 64. Nothing was changed."
            )
        home, builtin = self._directory / personality_id, BUILT_IN / personality_id
        config = next((each for each in (home, builtin) if (each / CONFIG).is_file()), home)
        text = _edit_config(_read_text(config / CONFIG), edit)
        try:
            msgspec.convert(tomllib.loads(text), PersonalityFile)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
            raise InvalidInput(f"{error}. Nothing was changed.") from None
        if edit.soul is not UNSET or not _is_personality(builtin):
            soul = _read_text(home / SOUL) if edit.soul is UNSET else edit.soul
            put_bytes(home / SOUL, f"{soul.strip()}\n".encode("utf-8", "replace"))
        if any(getattr(edit, name) is not UNSET for name in PersonalityFile.__struct_fields__):
            put_bytes(home / CONFIG, text.encode("utf-8", "replace"))
        return self.get_personality(personality_id)


def _edit_config(text: str, edit: PersonalityEdit) -> str:
    """The text of a `config.toml` with other values; its comments stay."""
    import tomlkit  # noqa: PLC0415  # only edits need it

    try:
        document = tomlkit.parse(text)
    except ValueError as error:
        raise InvalidConfig(
            f"{CONFIG} can't be edited: {error}. Repair it by hand first."
        ) from None
    for name in PersonalityFile.__struct_fields__:
        value = getattr(edit, name)
        if value is None:
            document.pop(name, None)
        elif value is not UNSET:
            document[name] = list(value) if isinstance(value, tuple) else value
    return tomlkit.dumps(document)


def _list_ids(directory: Path | None) -> list[str]:
    if directory is None or not directory.is_dir():
        return []
    return [
        each.name
        for each in directory.iterdir()
        if _ID.fullmatch(each.name) and _is_personality(each)
    ]


def _is_personality(directory: Path) -> bool:
    return any((directory / name).is_file() for name in (SOUL, CONFIG))


def _read(homes: list[Path], *, builtin: bool) -> Personality:
    """Read each file from the first directory that has it: a person may change one of the two."""
    soul_file, config_file = (
        next((home / name for home in homes if (home / name).is_file()), homes[0] / name)
        for name in (SOUL, CONFIG)
    )
    config = _read_config(config_file)
    soul = _read_text(soul_file).strip()
    if len(soul) > MAX_SOUL:
        raise InvalidConfig(f"{soul_file} is longer than {MAX_SOUL:,} characters. Shorten it.")
    name = homes[0].name
    return Personality(
        id=name,
        name=config.name or name.replace("_", " ").replace("-", " ").capitalize(),
        description=config.description,
        soul=soul,
        model=config.model,
        tools=config.tools,
        memory_scope=config.memory_scope,
        thinking=config.thinking,
        builtin=builtin,
    )


def _read_config(path: Path) -> PersonalityFile:
    text = _read_text(path)
    try:
        return msgspec.convert(tomllib.loads(text), PersonalityFile)
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfig(f"{path} is not valid TOML: {error}.") from None
    except msgspec.ValidationError as error:
        known = ", ".join(PersonalityFile.__struct_fields__)
        raise InvalidConfig(f"{path}: {error}. The keys are: {known}.") from None


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{path} can't be read: {error}.") from None


def _of_agent(personality: Personality, agent: AgentEntry) -> AgentPersonality:
    """A personality as an agent has it: the agent's model goes before the personality's."""
    given = {name: getattr(personality, name) for name in Personality.__struct_fields__}
    return AgentPersonality(
        **given | {"model": agent.model or personality.model},
        agent=normalise_agent(agent.id),
        agent_tools=agent.tools,
        has_own_memory=agent.memory == "own",
    )


def choose_model(catalogue: Catalogue, personalities: Personalities, session: Session) -> ModelInfo:
    """The session's model, else its agent's, else its personality's, else the default one."""
    wanted = session.model or personalities.choose_personality(session).model
    try:
        return catalogue.get_model(wanted)
    except ModelNotFound:
        return catalogue.get_model(None)
