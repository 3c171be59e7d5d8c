"""Configuration: one frozen tree, made of defaults, the file, the environment and the flags.

Each wins over the one before it, and every value has its source. Only `wiring` and `cli` read the
configuration. This is the only module that reads the environment; it opens no store and prints
nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from clew.configfile import (
    Setting,
    check,
    read_text,
    save,
    set_value,
    settings_in,
    unknown_key,
    unset_value,
)
from clew.core.settings import (
    FAMILIES,
    FAMILY_KEYS,
    KEYS,
    SECTIONS,
    ContextConfig,
    GeneralConfig,
    HooksConfig,
    McpConfig,
    MemoryConfig,
    ModelsConfig,
    ProviderConfig,
    PruningConfig,
    Secret,
    SessionConfig,
    StoreConfig,
    TerminalConfig,
    ToolsConfig,
    WebhookConfig,
    plain,
    split_key,
    template,
)
from clew.errors import InvalidConfig

__all__ = [
    "FAMILY_KEYS",
    "KEYS",
    "VARIABLES",
    "Config",
    "McpConfig",
    "Places",
    "ProviderConfig",
    "Secret",
    "SessionConfig",
    "Setting",
    "can_draw",
    "has_light_background",
    "load",
    "locate",
    "read_text",
    "reveal",
    "save",
    "set_value",
    "settings_in",
    "shared_cache_dir",
    "template",
    "terminal_variables",
    "unset_value",
    "wants_colour",
]

CREDENTIALS: Final = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
)
"""Well-known variables of other programs. Their values are read when a model is used."""

TERMINALS: Final = (
    "KITTY_WINDOW_ID",
    "TMUX_PANE",
    "TERM_SESSION_ID",
    "WT_SESSION",
    "ZELLIJ",
    "WEZTERM_PANE",
)
"""Variables that tell one terminal from another."""


class Config(GeneralConfig, frozen=True, kw_only=True):
    """Everything that can be configured. `home` is set if all files are in one directory.

    `credentials` are the well-known variables that are set; `session_key` is `CLEW_SESSION_KEY`.
    """

    home: Path | None
    data_dir: Path
    state_dir: Path
    cache_dir: Path
    file: Path
    models: ModelsConfig
    store: StoreConfig
    session: SessionConfig
    tools: ToolsConfig
    memory: MemoryConfig
    context: ContextConfig
    terminal: TerminalConfig
    hooks: HooksConfig
    providers: dict[str, ProviderConfig]
    mcp: dict[str, McpConfig]
    webhooks: dict[str, WebhookConfig]
    credentials: dict[str, Secret]
    session_key: str | None
    gateway_url: str | None
    gateway_token: Secret | None
    sources: dict[str, str]

    def value(self, key: str) -> object:
        """The value of a dotted key for display: plain lists and dicts, secrets hidden."""
        path = split_key(key)
        if path is None:
            raise unknown_key(key, "config")
        found: Any = self
        for part in path:
            found = found.get(part) if isinstance(found, dict) else getattr(found, part, None)
        return plain(found)


# CLEW_STORE is last, so it wins over CLEW_STORE_URL.
VARIABLES: Final = {f"CLEW_{key.upper().replace('.', '_')}": key for key in KEYS} | {
    "CLEW_STORE": "store.url"
}


class Places(NamedTuple):
    """Where clew's own files are."""

    home: Path | None
    data_dir: Path
    state_dir: Path
    cache_dir: Path
    file: Path


def load(
    *,
    home: str | None = None,
    store: str | None = None,
    file: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Config:
    """Load the configuration. The arguments are the flags.

    With `home` as a flag its own store is used, whatever `CLEW_STORE` says.
    """
    places = locate(home=home, file=file, environ=environ)
    text = read_text(places.file)
    if text is None and file is not None:
        raise InvalidConfig(f"There is no config file {places.file}.")
    database = quote((places.data_dir / "sessions.db").as_posix())
    settings = {"store.url": Setting("store.url", f"sqlite://{database}", "default")}
    settings |= {each.key: each for each in settings_in(text or "", places.file)}
    for each in _environment_settings(environ):
        if not (home and each.key == "store.url"):
            settings[each.key] = each
    if store is not None:
        settings["store.url"] = check(Setting("store.url", store, "--store"))
    return _assemble(places, settings, environ)


def _assemble(places: Places, settings: dict[str, Setting], environ: Mapping[str, str]) -> Config:
    given: dict[str, Any] = {section: {} for section in (*SECTIONS, *FAMILIES)}
    for key, setting in settings.items():
        *above, name = key.split(".")
        section = ".".join(above)
        table = given[section if section in given else above[0]]
        for part in above[1:] if section not in given else ():
            table = table.setdefault(part, {})
        table[name] = setting.value
    sources = dict.fromkeys(KEYS, "default")
    sources |= {key: setting.source for key, setting in settings.items()}
    return Config(
        **places._asdict(),
        **given[""],
        models=ModelsConfig(**given["models"]),
        store=StoreConfig(**given["store"]),
        session=SessionConfig(**given["session"]),
        tools=ToolsConfig(**given["tools"]),
        memory=MemoryConfig(**given["memory"]),
        context=ContextConfig(pruning=PruningConfig(**given["context.pruning"])),
        terminal=TerminalConfig(**given["terminal"]),
        hooks=HooksConfig(**given["hooks"]),
        providers={name: ProviderConfig(**each) for name, each in given["providers"].items()},
        mcp={name: McpConfig(**each) for name, each in given["mcp"].items()},
        webhooks={name: WebhookConfig(**each) for name, each in given["webhooks"].items()},
        credentials={name: Secret(f"env:{name}") for name in CREDENTIALS if environ.get(name)},
        session_key=environ.get("CLEW_SESSION_KEY") or None,
        gateway_url=find_gateway_url(environ),
        gateway_token=Secret(environ["CLEW_TOKEN"]) if environ.get("CLEW_TOKEN") else None,
        sources=sources,
    )


def locate(
    *,
    home: str | None = None,
    file: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Places:
    """Where files are: in the home that was given, else in the platform's directories."""
    given = home or environ.get("CLEW_HOME") or None
    if given is not None:
        base = _absolute(given)
        config_file = _absolute(file) if file else base / "config.toml"
        return Places(base, base, base, base / "cache", config_file)
    import platformdirs  # noqa: PLC0415  # imported late: not needed with a home

    config_dir = platformdirs.user_config_path("clew", appauthor=False, roaming=True)
    return Places(
        home=None,
        data_dir=platformdirs.user_data_path("clew", appauthor=False, roaming=True),
        state_dir=platformdirs.user_state_path("clew", appauthor=False),
        cache_dir=platformdirs.user_cache_path("clew", appauthor=False),
        file=_absolute(file) if file else config_dir / "config.toml",
    )


def shared_cache_dir() -> Path:
    """The platform's cache directory, also with a home: weights that are there can be used."""
    import platformdirs  # noqa: PLC0415  # imported late: not needed with a home

    return platformdirs.user_cache_path("clew", appauthor=False)


def reveal(secret: Secret, environ: Mapping[str, str] = os.environ) -> str:
    """The text of a secret, from its variable or file; `InvalidConfig` if it is not there."""
    where, colon, name = secret.text.partition(":")
    if not colon or where not in ("env", "file"):
        return secret.text
    if where == "env":
        if not environ.get(name):
            raise InvalidConfig(f"The variable {name} is not set, but the key should be in it.")
        return environ[name].strip()
    path = Path(name).expanduser()
    if not path.is_absolute():
        raise InvalidConfig(f"The path of the key, {name}, must begin with / or ~.")
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidConfig(f"The key should be in {path}: {reason}.") from error
    if not text:
        raise InvalidConfig(f"The key should be in {path}, which is empty.")
    return text


def terminal_variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that identify this terminal."""
    return {name: environ[name] for name in TERMINALS if environ.get(name)}


def find_gateway_url(environ: Mapping[str, str] = os.environ) -> str | None:
    """The gateway in CLEW_URL; can be read with a broken config file too."""
    return environ.get("CLEW_URL") or None


def host_timezone(environ: Mapping[str, str] = os.environ) -> str:
    """The name of the host's time zone; if it is unknown, the present offset from UTC."""
    from datetime import datetime  # noqa: PLC0415  # imported late: seldom needed
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # imported late: seldom needed

    name = environ.get("TZ", "").removeprefix(":")
    with contextlib.suppress(OSError, ValueError, KeyError):
        name = (name or str(Path("/etc/localtime").readlink())).rpartition("zoneinfo/")[2]
        return str(ZoneInfo(name))
    return datetime.now().astimezone().strftime("%z")


def wants_colour(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether colours are allowed (no-color.org)."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def can_draw(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal can show a full screen, according to TERM."""
    return environ.get("TERM", "") not in ("", "dumb")


def has_light_background(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal is light: `COLORFGBG` ends with the number of its background."""
    return environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")


def _environment_settings(environ: Mapping[str, str]) -> Iterator[Setting]:
    """Settings from CLEW_… variables; an empty one counts as not set."""
    for variable, key in VARIABLES.items():
        if environ.get(variable):
            yield check(Setting(key, environ[variable], variable), spelled=True)


def _absolute(path: str) -> Path:
    try:
        path.encode()
        return Path(path).expanduser().absolute()
    except (RuntimeError, ValueError) as error:
        raise InvalidConfig(f"{path!r} can't be used as a path: {error}.") from error


def process_environment() -> dict[str, str]:
    """A copy of the whole environment, for code that starts processes with a part of it."""
    return dict(os.environ)
