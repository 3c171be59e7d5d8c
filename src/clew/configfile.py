"""The config file: reading and checking it, and changing it without losing its comments.

`clew.config` decides which file it is, and what wins over it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from clew.core.redaction import HIDDEN
from clew.core.settings import (
    FAMILIES,
    KEYS,
    SECTIONS,
    SHORTEST_SECRET,
    Secret,
    decode_secret,
    get_meta,
    get_type,
    is_name,
    keys_beside,
    nearest_key,
    split_key,
)
from clew.errors import ClewError, InvalidConfig, InvalidInput
from clew.files.durable import make_directory, put_bytes
from clew.files.locks import held

LOCK_S: Final = 10.0
"""Seconds to wait for another edit, which takes milliseconds unless its process has stopped."""
_STORE: Final = re.compile(r"sqlite:///|postgres(ql)?://\S|(?!\w+://)\S")


class Setting(NamedTuple):
    """One value, and its source: a file, a variable or a flag."""

    key: str
    value: Any
    source: str


def read_text(file: Path) -> str | None:
    """The text of the config file, None if there is none."""
    try:
        return file.read_bytes().decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InvalidConfig(f"{file} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"{file} is not UTF-8 text.") from error


def settings_in(text: str, file: Path) -> Iterator[Setting]:
    """The settings of a config file, checked."""
    if not text.strip():
        return
    import tomllib  # noqa: PLC0415  # imported late: most starts have no file

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfig(f"{file} is not valid TOML: {error}.") from error
    for section, table in document.items():
        if section in KEYS:
            yield check(Setting(section, table, str(file)))
        elif isinstance(table, dict) and (section in FAMILIES or _is_above(section)):
            for name, inner in table.items():
                yield from _settings_of(f"{section}.{name}", inner, file)
        else:
            yield from _settings_of(section, table, file)


def _settings_of(section: str, table: object, file: Path) -> Iterator[Setting]:
    """The settings of one section."""
    if not isinstance(table, dict) or _split_section(section) is None:
        raise unknown_key(_first_key(section, table), str(file))
    for name, value in table.items():
        key = f"{section}.{name}"
        path = split_key(key)
        if path is None or len(path) == 4:
            raise unknown_key(key, str(file))
        yield check(Setting(key, value, str(file)))


def _first_key(section: str, table: object) -> str:
    """The first whole key below something that is not a section."""
    while isinstance(table, dict) and table:
        name, table = next(iter(table.items()))
        section = f"{section}.{name}"
    return section


def _split_section(section: str) -> tuple[str, ...] | None:
    """The parts of a section's name, None if there is no such section."""
    parts = tuple(section.split("."))
    if section in SECTIONS:
        return parts
    return parts if len(parts) == 2 and parts[0] in FAMILIES and is_name(parts[1]) else None


def _is_above(name: str) -> bool:
    """Whether there are sections below this name, such as `context.pruning`."""
    return any(section.startswith(f"{name}.") for section in SECTIONS)


def set_value(file: Path, key: str, text: str) -> Setting:
    """Write one value into the file, keeping its comments. Nothing changes on an error."""
    import tomlkit  # noqa: PLC0415  # imported late: only edits need it

    path = split_key(key)
    if path is None:
        raise unknown_key(key, "config set")
    setting = check(Setting(key, text, "config set"), spelled=True)
    with _editing(file) as document:
        table = document
        for place, part in enumerate(path[:-1]):
            # `[providers.ollama]` needs no `[providers]` above it.
            bare = place == 0 and (path[0] in FAMILIES or _is_above(path[0]))
            table = table.setdefault(part, tomlkit.table(is_super_table=bare or None))
        table[path[-1]] = _written(setting.value)
    return setting


def unset_value(file: Path, key: str) -> None:
    """Remove one value from the file, if it is there, and a named section that becomes empty."""
    path = split_key(key)
    if path is None:
        raise unknown_key(key, "config unset")
    with _editing(file) as document:
        tables = [document]
        for part in path[:-1]:
            tables.append(tables[-1].get(part, {}))
        tables[-1].pop(path[-1], None)
        if path[0] in FAMILIES:
            for place in range(len(path) - 2, -1, -1):
                if not tables[place + 1]:
                    tables[place].pop(path[place], None)


def _written(value: object) -> object:
    """A value as it is written to the file."""
    match value:
        case Secret():
            return value.text
        case tuple():
            return list(value)
        case dict():
            return {name: _written(each) for name, each in value.items()}
        case msgspec.Struct():
            return msgspec.to_builtins(value)
    return value


@contextmanager
def _editing(file: Path) -> Iterator[Any]:
    """The file as a document to change; saved at the end if it is valid then."""
    import tomlkit  # noqa: PLC0415  # imported late: only edits need it

    with _alone(file):
        try:
            document = tomlkit.parse(read_text(file) or "")
            yield document
        except (ValueError, TypeError, AttributeError) as error:
            raise InvalidConfig(
                f"{file} can't be edited: {error}. Repair it by hand first."
            ) from error
        _put(file, tomlkit.dumps(document))


def save(file: Path, text: str) -> None:
    """Check a whole config text, then put it in place in one step."""
    with _alone(file):
        _put(file, text)


def _put(file: Path, text: str) -> None:
    for setting in settings_in(text, file):
        _check_use(setting)
    put_bytes(file, text.encode())


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Lock the file: two edits at the same time would lose one of them."""
    try:
        make_directory(file.parent)
        with held(file.with_name(".config.lock"), patience=LOCK_S):
            yield
    except OSError as error:
        raise ClewError(
            f"{file} can't be written: {error.strerror}. Nothing was changed."
        ) from error


def check(setting: Setting, *, spelled: bool = False) -> Setting:
    """The setting with its value in the right type; `spelled`: the value was typed as text."""
    path = split_key(setting.key)
    assert path is not None  # noqa: S101  # only known keys get here
    kind = get_type(path)
    try:
        given = _unspelled(setting.value, kind) if spelled else setting.value
        value = msgspec.convert(given, kind, strict=not spelled, dec_hook=decode_secret)
        str(_written(value)).encode()  # text that is not UTF-8 can't be written
        if value is None:  # the word "null", where the type also allows nothing at all
            raise ValueError(setting.value)  # noqa: TRY301  # reported like every other wrong value
        if setting.key == "session.timezone":
            _check_zone(value)
    except ValueError as error:
        found = repr(setting.value) if isinstance(setting.value, str) else str(setting.value)
        if "Secret" in str(kind):
            found = "that"  # it may be a secret: don't show it
        raise InvalidConfig(
            f"{setting.key} must be {get_meta(kind).description}, not {found[:60]} "
            f"({setting.source})."
        ) from error
    if setting.key in ("tools.allow", "tools.deny"):
        _check_rules(setting, value)
    if setting.key == "owners":
        _check_owners(setting, value)
    return setting._replace(value=value)


def _unspelled(text: str, kind: Any) -> object:
    """A list or table that was typed: in TOML, or separated by commas."""
    if text.lstrip().startswith(("[", "{")):
        import tomllib  # noqa: PLC0415  # imported late: seldom needed

        return tomllib.loads(f"value = {text}")["value"]  # its errors are ValueErrors
    if "tuple[" not in str(kind) and "dict[" not in str(kind):
        return text
    return [word.strip() for word in text.split(",") if word.strip()]


def _check_zone(name: str) -> None:
    import zoneinfo  # noqa: PLC0415  # imported late: seldom configured

    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(name) from error


def _check_rules(setting: Setting, rules: tuple[str, ...]) -> None:
    from clew.core.tool_rules import parse_rule  # noqa: PLC0415  # seldom configured

    for rule in rules:
        try:
            parse_rule(rule)
        except InvalidInput as error:
            raise InvalidConfig(f"{setting.key}: {error} ({setting.source})") from error


def _check_owners(setting: Setting, owners: tuple[str, ...]) -> None:
    for each in owners:
        channel, colon, who = each.strip().partition(":")
        if not (colon and channel.strip() and who.strip()):
            raise InvalidConfig(
                f'owners must say on which channel: "telegram:{each.strip(" :") or 123}", not '
                f'"{each}" ({setting.source}).'
            )


def _check_use(setting: Setting) -> None:
    """`InvalidConfig` for a value that the command that needs it would refuse.

    It is refused before it is written. Other commands work with a file that has it.
    """
    section, *_, name = setting.key.split(".") if "." in setting.key else ("", setting.key)
    problem = None
    try:
        match section, name:
            case "store", "url" if not _STORE.match(setting.value):
                problem = "A store is sqlite:///absolute/path/sessions.db, a path or postgresql://…"
            case "webhooks", "secret" if _is_short(setting.value):
                problem = f"A secret has at least {SHORTEST_SECRET} characters."
            case "webhooks", "deliver_to" if setting.value is not None:
                _check_place(setting.value)
            case "hooks", _:
                _check_commands(setting.value)
    except (InvalidInput, ValueError) as error:
        problem = str(error)
    if problem is not None:
        raise InvalidConfig(f"{setting.key}: {problem} Nothing was changed.")


def _check_place(text: str) -> None:
    from clew.core.channels.replies import parse_reply_to  # noqa: PLC0415  # seldom configured

    parse_reply_to(text)


def _check_commands(lines: tuple[str, ...]) -> None:
    import shlex  # noqa: PLC0415  # seldom configured

    for each in lines:
        shlex.split(each)


def _is_short(secret: Secret | None) -> bool:
    """Whether a secret that is written in the file itself could be guessed."""
    return secret is not None and str(secret) == HIDDEN and len(secret.text) < SHORTEST_SECRET


def unknown_key(key: str, source: str) -> InvalidConfig:
    """The error for a key that clew does not know, with the most similar one."""
    near = nearest_key(key)
    advice = f'Did you mean "{near}"?' if near else f"Known are {', '.join(keys_beside(key))}."
    return InvalidConfig(f'Unknown key "{key}" ({source}). {advice}')
