"""Personalities in files, those of clew and the person's own; and which one a session uses.

`<directory>/<id>/` holds `SOUL.md` (the beginning of the system prompt) and `config.toml`. Both are
read each time. Whether the tools and the model that a personality names exist is not checked
here.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from clew.core.models import DEFAULT_PERSONALITY, MemoryScope, ModelInfo, Personality, Thinking
from clew.core.session import Session
from clew.errors import InvalidConfig, ModelNotFound, PersonalityNotFound
from clew.ports import Personalities

if TYPE_CHECKING:
    from clew.agent.requests import Catalogue

BUILT_IN: Final = Path(__file__).parent / "souls"
SOUL: Final = "SOUL.md"
CONFIG: Final = "config.toml"
MAX_SOUL: Final = 20_000

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

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory

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


def choose_personality(personalities: Personalities, session: Session) -> Personality:
    """The session's personality, the default one if that is gone."""
    try:
        return personalities.get_personality(session.personality)
    except PersonalityNotFound:
        return personalities.get_personality(None)


def choose_model(catalogue: Catalogue, personalities: Personalities, session: Session) -> ModelInfo:
    """The session's model, else its personality's, else the default one."""
    wanted = session.model or choose_personality(personalities, session).model
    try:
        return catalogue.get_model(wanted)
    except ModelNotFound:
        return catalogue.get_model(None)
