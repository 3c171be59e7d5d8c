"""Configuration: one frozen tree, made of defaults, the file, the environment and the flags.

Each wins over the one before it, and every value remembers where it came from. Those who build
(`wiring`) and those who show (`cli`) read it. This is the only module that looks at the
environment; it opens no store and prints nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Meta

from clew.core.retention import RetentionAction
from clew.errors import ClewError, InvalidConfig

# The descriptions finish the sentence "<key> must be …", in errors and in a new file, which shows
# the example where there is no default.
Url = Annotated[
    str, Meta(pattern=r"\S", description="a URL", examples=["sqlite:///home/me/sessions.db"])
]
Durability = Annotated[Literal["full", "normal"], Meta(description='"full" or "normal"')]
Days = Annotated[int, Meta(le=1_000_000, description="a whole number of days, 0 for never")]
Bytes = Annotated[int, Meta(le=2**62, description="a whole number of bytes, 0 for no limit")]
Action = Annotated[RetentionAction, Meta(description='"archive" or "delete"')]
Zone = Annotated[str | None, Meta(description="a time zone's name", examples=["Europe/Berlin"])]


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[store]`: where the sessions are, and whether a commit waits for the disk."""

    url: Url
    durability: Durability = "full"


class SessionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[session]`: what becomes of old sessions; the time zone that people read (None: host's)."""

    retention_days: Days = 90
    max_storage_bytes: Bytes = 52_428_800
    retention_action: Action = "archive"
    trash_days: Days = 30
    timezone: Zone = None


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be configured. `home` is set where all state was moved there."""

    home: Path | None
    data_dir: Path
    file: Path
    store: StoreConfig
    session: SessionConfig
    sources: dict[str, str]

    def value(self, key: str) -> object:
        """The value of a dotted key."""
        section, _, name = key.partition(".")
        return getattr(getattr(self, section), name)


SECTIONS: Final[dict[str, type[msgspec.Struct]]] = {"store": StoreConfig, "session": SessionConfig}
KEYS: Final = tuple(
    f"{section}.{name}" for section, kind in SECTIONS.items() for name in kind.__struct_fields__
)

# The short name of the store comes last, so it wins over the regular one.
VARIABLES: Final = {f"CLEW_{key.upper().replace('.', '_')}": key for key in KEYS} | {
    "CLEW_STORE": "store.url"
}


class Places(NamedTuple):
    """Where clew's own files are."""

    home: Path | None
    data_dir: Path
    file: Path


class Setting(NamedTuple):
    """One value that was given, and by whom."""

    key: str
    value: Any
    source: str


def load(
    *,
    home: str | None = None,
    store: str | None = None,
    file: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """The configuration of this start. The arguments are the flags.

    A home that comes as a flag brings its own store: `CLEW_STORE` doesn't lead away from it.
    """
    environ = os.environ if environ is None else environ
    places = locate(home=home, file=file, environ=environ)
    text = read_text(places.file)
    if text is None and file is not None:
        raise InvalidConfig(f"There is no config file {places.file}.")
    database = quote((places.data_dir / "sessions.db").as_posix())
    settings = {"store.url": Setting("store.url", f"sqlite://{database}", "default")}
    for setting in (
        *settings_in(text or "", places.file),
        *(
            each
            for each in _environment_settings(environ)
            if not (home and each.key == "store.url")
        ),
        *([_checked(Setting("store.url", store, "--store"))] if store is not None else []),
    ):
        settings[setting.key] = setting
    given: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for key, setting in settings.items():
        section, _, name = key.partition(".")
        given[section][name] = setting.value
    sources = {key: settings[key].source if key in settings else "default" for key in KEYS}
    return Config(
        home=places.home,
        data_dir=places.data_dir,
        file=places.file,
        store=StoreConfig(**given["store"]),
        session=SessionConfig(**given["session"]),
        sources=sources,
    )


def locate(
    *,
    home: str | None = None,
    file: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Places:
    """Where things are: under the home that was given, else where the platform keeps them."""
    environ = os.environ if environ is None else environ
    given = home or environ.get("CLEW_HOME") or None
    if given is not None:
        base = _absolute(given)
        data_dir, config_dir = base, base
    else:
        base = None
        import platformdirs  # noqa: PLC0415  # not needed where a home is given

        data_dir = platformdirs.user_data_path("clew", appauthor=False, roaming=True)
        config_dir = platformdirs.user_config_path("clew", appauthor=False, roaming=True)
    return Places(base, data_dir, _absolute(file) if file else config_dir / "config.toml")


def read_text(file: Path) -> str | None:
    """What the config file says, None if there is none."""
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
    import tomllib  # noqa: PLC0415  # most starts have no file

    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfig(f"{file} is not valid TOML: {error}.") from error
    for section, table in document.items():
        if not isinstance(table, dict) or section not in SECTIONS:
            inner = next(iter(table), None) if isinstance(table, dict) else None
            raise _unknown(section if inner is None else f"{section}.{inner}", str(file))
        for name, value in table.items():
            key = f"{section}.{name}"
            if key not in KEYS:
                raise _unknown(key, str(file))
            yield _checked(Setting(key, value, str(file)))


def set_value(file: Path, key: str, text: str) -> Setting:
    """Write one value into the file, keeping its comments. Nothing changes on an error."""
    import tomlkit  # noqa: PLC0415  # only this edits

    if key not in KEYS:
        raise _unknown(key, "config set")
    setting = _checked(Setting(key, text, "config set"), spelled=True)
    with _editing(file) as document:
        section, _, name = key.partition(".")
        table = document.setdefault(section, tomlkit.table())
        table[name] = setting.value
    return setting


def unset_value(file: Path, key: str) -> None:
    """Take one value out of the file, if it is there."""
    if key not in KEYS:
        raise _unknown(key, "config unset")
    with _editing(file) as document:
        section, _, name = key.partition(".")
        document.get(section, {}).pop(name, None)


@contextmanager
def _editing(file: Path) -> Iterator[Any]:
    """The file as a document to change; saved at the end if it is valid then."""
    import tomlkit  # noqa: PLC0415  # only this edits

    try:
        document = tomlkit.parse(read_text(file) or "")
        yield document
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidConfig(f"{file} can't be edited: {error}. Mend it by hand first.") from error
    save(file, tomlkit.dumps(document))


def save(file: Path, text: str) -> None:
    """Check a whole config text, then put it in place in one step."""
    for _ in settings_in(text, file):
        pass
    target = file.resolve()  # a link stays a link
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        try:
            draft.touch(mode=0o600)
            with draft.open("w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            draft.chmod(mode)
            draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise ClewError(
            f"{file} can't be written: {error.strerror}. Nothing was changed."
        ) from error


def template() -> str:
    """A config file that changes nothing and shows everything that could be changed."""
    lines = ["# clew's configuration. Take the # away from what you want to change."]
    for section, kind in SECTIONS.items():
        lines += ["", f"[{section}]"]
        for field in msgspec.structs.fields(kind):
            meta = field.type.__metadata__[0]
            value = meta.examples[0] if meta.examples else field.default
            shown = msgspec.json.encode(value).decode()
            lines.append(f"# {field.name} = {shown}  # {meta.description}")
    return "\n".join(lines) + "\n"


def wants_colour(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the person lets terminals be coloured (no-color.org)."""
    environ = os.environ if environ is None else environ
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def _environment_settings(environ: Mapping[str, str]) -> Iterator[Setting]:
    """Variables that name a key; an empty one counts as absent, other ones are not for us."""
    for variable, key in VARIABLES.items():
        if environ.get(variable):
            yield _checked(Setting(key, environ[variable], variable), spelled=True)


def _checked(setting: Setting, *, spelled: bool = False) -> Setting:
    """The setting with its value in the right type; `spelled` where every value is text."""
    field = _field(setting.key)
    try:
        value = msgspec.convert(setting.value, field.type, strict=not spelled)
        str(value).encode()  # what is no UTF-8 can't be written down
        if setting.key == "session.timezone":
            _check_zone(value)
    except ValueError as error:
        found = repr(setting.value) if isinstance(setting.value, str) else str(setting.value)
        raise InvalidConfig(
            f"{setting.key} must be {_expectation(setting.key)}, not {found[:60]} "
            f"({setting.source})."
        ) from error
    return setting._replace(value=value)


def _check_zone(name: str) -> None:
    import zoneinfo  # noqa: PLC0415  # most people live where their computer does

    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(name) from error


def _field(key: str) -> msgspec.structs.FieldInfo:
    section, _, name = key.partition(".")
    return next(field for field in msgspec.structs.fields(SECTIONS[section]) if field.name == name)


def _expectation(key: str) -> str:
    return str(_field(key).type.__metadata__[0].description)


def _unknown(key: str, source: str) -> InvalidConfig:
    import difflib  # noqa: PLC0415  # only to be helpful

    names = {name.rpartition(".")[2]: name for name in KEYS} | {name: name for name in KEYS}
    near = difflib.get_close_matches(key, names, 1) or difflib.get_close_matches(
        key.rpartition(".")[2], names, 1
    )
    advice = f'Did you mean "{names[near[0]]}"?' if near else f"Known are {', '.join(KEYS)}."
    return InvalidConfig(f'Unknown key "{key}" ({source}). {advice}')


def _absolute(path: str) -> Path:
    try:
        path.encode()
        return Path(path).expanduser().absolute()
    except (RuntimeError, ValueError) as error:
        raise InvalidConfig(f"{path!r} can't be used as a path: {error}.") from error
