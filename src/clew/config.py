"""Configuration: one frozen tree, made of defaults, the file, the environment and the flags.

Each wins over the one before it, and every value remembers where it came from. Those who build
(`wiring`) and those who show (`cli`) read it. This is the only module that looks at the
environment; it opens no store and prints nothing.
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
"""Variables that other programs know too. What they say is read when a model is used."""

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
    """Everything that can be configured. `home` is set where all state was moved there.

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
        """The value of a dotted key as it may be shown: lists are lists, secrets are hidden."""
        path = split_key(key)
        if path is None:
            raise unknown_key(key, "config")
        found: Any = self
        for part in path:
            found = found.get(part) if isinstance(found, dict) else getattr(found, part, None)
        return plain(found)


# The short name of the store comes last, so it wins over the regular one.
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
        *([check(Setting("store.url", store, "--store"))] if store is not None else []),
    ):
        settings[setting.key] = setting
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
    environ: Mapping[str, str] | None = None,
) -> Places:
    """Where things are: under the home that was given, else where the platform keeps them."""
    environ = os.environ if environ is None else environ
    given = home or environ.get("CLEW_HOME") or None
    if given is not None:
        base = _absolute(given)
        return Places(
            home=base,
            data_dir=base,
            state_dir=base,
            cache_dir=base / "cache",
            file=_absolute(file) if file else base / "config.toml",
        )
    import platformdirs  # noqa: PLC0415  # not needed where a home is given

    config_dir = platformdirs.user_config_path("clew", appauthor=False, roaming=True)
    return Places(
        home=None,
        data_dir=platformdirs.user_data_path("clew", appauthor=False, roaming=True),
        state_dir=platformdirs.user_state_path("clew", appauthor=False),
        cache_dir=platformdirs.user_cache_path("clew", appauthor=False),
        file=_absolute(file) if file else config_dir / "config.toml",
    )


def shared_cache_dir() -> Path:
    """The platform's cache directory, even where a home is given: what is there may be used."""
    import platformdirs  # noqa: PLC0415  # not needed where a home is given

    return platformdirs.user_cache_path("clew", appauthor=False)


def reveal(secret: Secret, environ: Mapping[str, str] | None = None) -> str:
    """What a secret says. `InvalidConfig` if it is not where it is said to be."""
    environ = os.environ if environ is None else environ
    where, colon, name = secret.text.partition(":")
    if not colon or where not in ("env", "file"):
        return secret.text
    if where == "env":
        if not environ.get(name):
            raise InvalidConfig(f"The variable {name} is not set, and the key should be in it.")
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


def terminal_variables(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the environment says about which terminal this is."""
    environ = os.environ if environ is None else environ
    return {name: environ[name] for name in TERMINALS if environ.get(name)}


def find_gateway_url(environ: Mapping[str, str] | None = None) -> str | None:
    """The gateway that the environment names, whatever the rest of the configuration is like."""
    environ = os.environ if environ is None else environ
    return environ.get("CLEW_URL") or None


def host_timezone(environ: Mapping[str, str] | None = None) -> str:
    """The name of the host's time zone; where the system tells none, its offset of now."""
    from datetime import datetime  # noqa: PLC0415  # seldom needed
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # seldom needed

    environ = os.environ if environ is None else environ
    name = environ.get("TZ", "").removeprefix(":")
    with contextlib.suppress(OSError, ValueError, KeyError):
        name = (name or str(Path("/etc/localtime").readlink())).rpartition("zoneinfo/")[2]
        return str(ZoneInfo(name))
    return datetime.now().astimezone().strftime("%z")


def wants_colour(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the person lets terminals be coloured (no-color.org)."""
    environ = os.environ if environ is None else environ
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def can_draw(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the terminal, as the environment names it, can do more than lines."""
    environ = os.environ if environ is None else environ
    return environ.get("TERM", "") not in ("", "dumb")


def has_light_background(environ: Mapping[str, str] | None = None) -> bool:
    """Whether the terminal says that it is light: `COLORFGBG` ends with its background's number."""
    environ = os.environ if environ is None else environ
    return environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15")


def _environment_settings(environ: Mapping[str, str]) -> Iterator[Setting]:
    """Variables that name a key; an empty one counts as absent, other ones are not for us."""
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
    """The whole environment of this process, for those who start others with a part of it."""
    return dict(os.environ)
