"""Configuration: one frozen tree, made of defaults, the file, the environment and the flags.

Each wins over the one before it, and every value has its source. Only `wiring` and `cli` read the
configuration. This is the only module that reads the environment; it opens no store and prints
nothing.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping
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
from clew.core.redaction import hide_password
from clew.core.settings import (
    FAMILIES,
    FAMILY_KEYS,
    KEYS,
    SECTIONS,
    ChannelConfig,
    ContextConfig,
    GatewayConfig,
    GeneralConfig,
    HooksConfig,
    ImportConfig,
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
    "check",
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

_taken: Final[dict[str, str]] = {}
ENVIRONMENT: Final[Mapping[str, str]] = ChainMap(_taken, os.environ)
"""The variables of this process, with those that were taken out (`process_environment`)."""

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


AGENTS: Final = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "HERMES_HOME",
    "LLM_USER_PATH",
    "OPENCLAW_STATE_DIR",
    "PI_CODING_AGENT_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)
"""Variables that say where other agents keep their files."""


class Config(GeneralConfig, frozen=True, kw_only=True):
    """Everything that can be configured. `home` is set if all files are in one directory.

    `credentials` are the well-known variables that are set; `session_key` is `CLEW_SESSION_KEY`.
    """

    home: Path | None
    config_dir: Path
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
    gateway: GatewayConfig
    terminal: TerminalConfig
    hooks: HooksConfig
    imports: ImportConfig
    providers: dict[str, ProviderConfig]
    mcp: dict[str, McpConfig]
    webhooks: dict[str, WebhookConfig]
    channels: dict[str, ChannelConfig]
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
        for part in ("imports", *path[1:]) if path[0] == "import" else path:
            found = found.get(part) if isinstance(found, dict) else getattr(found, part, None)
        return plain(found)


# CLEW_STORE is last, so it wins over CLEW_STORE_URL.
VARIABLES: Final = {f"CLEW_{key.upper().replace('.', '_')}": key for key in KEYS} | {
    "CLEW_STORE": "store.url"
}


class Places(NamedTuple):
    """Where clew's own files are. `file` is in `config_dir`, unless another one was named."""

    home: Path | None
    config_dir: Path
    data_dir: Path
    state_dir: Path
    cache_dir: Path
    file: Path


def load(
    *,
    home: str | None = None,
    store: str | None = None,
    file: str | None = None,
    environ: Mapping[str, str] = ENVIRONMENT,
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
        gateway=GatewayConfig(**given["gateway"]),
        terminal=TerminalConfig(**given["terminal"]),
        hooks=HooksConfig(**given["hooks"]),
        imports=ImportConfig(**given["import"]),
        providers={name: ProviderConfig(**each) for name, each in given["providers"].items()},
        mcp={name: McpConfig(**each) for name, each in given["mcp"].items()},
        webhooks={name: WebhookConfig(**each) for name, each in given["webhooks"].items()},
        channels={name: ChannelConfig(**each) for name, each in given["channels"].items()},
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
    environ: Mapping[str, str] = ENVIRONMENT,
) -> Places:
    """Where files are: in the home that was given, else in the platform's directories."""
    given = home or environ.get("CLEW_HOME") or None
    if given is not None:
        base = _absolute(given)
        config_file = _absolute(file) if file else base / "config.toml"
        return Places(base, base, base, base, base / "cache", config_file)
    import platformdirs  # noqa: PLC0415  # imported late: not needed with a home

    config_dir = platformdirs.user_config_path("clew", appauthor=False, roaming=True)
    return Places(
        home=None,
        config_dir=config_dir,
        data_dir=platformdirs.user_data_path("clew", appauthor=False, roaming=True),
        state_dir=platformdirs.user_state_path("clew", appauthor=False),
        cache_dir=platformdirs.user_cache_path("clew", appauthor=False),
        file=_absolute(file) if file else config_dir / "config.toml",
    )


def shared_cache_dir() -> Path:
    """The platform's cache directory, also with a home: weights that are there can be used."""
    import platformdirs  # noqa: PLC0415  # imported late: not needed with a home

    return platformdirs.user_cache_path("clew", appauthor=False)


def reveal(secret: Secret, environ: Mapping[str, str] = ENVIRONMENT) -> str:
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


def terminal_variables(environ: Mapping[str, str] = ENVIRONMENT) -> dict[str, str]:
    """The variables that identify this terminal."""
    return {name: environ[name] for name in TERMINALS if environ.get(name)}


def editor_variables(environ: Mapping[str, str] = ENVIRONMENT) -> dict[str, str]:
    """The variables that name the person's editor."""
    return {name: environ[name] for name in ("VISUAL", "EDITOR") if environ.get(name)}


def agent_variables(environ: Mapping[str, str] = ENVIRONMENT) -> dict[str, str]:
    """The variables that say where other agents keep their histories."""
    return {name: environ[name] for name in AGENTS if environ.get(name)}


def find_gateway_url(environ: Mapping[str, str] = ENVIRONMENT) -> str | None:
    """The gateway in CLEW_URL; can be read with a broken config file too."""
    return environ.get("CLEW_URL") or None


def host_timezone(environ: Mapping[str, str] = ENVIRONMENT) -> str:
    """The name of the host's time zone; if it is unknown, the present offset from UTC."""
    from datetime import datetime  # noqa: PLC0415  # imported late: seldom needed
    from zoneinfo import ZoneInfo  # noqa: PLC0415  # imported late: seldom needed

    name = environ.get("TZ", "").removeprefix(":")
    with contextlib.suppress(OSError, ValueError, KeyError):
        name = (name or str(Path("/etc/localtime").readlink())).rpartition("zoneinfo/")[2]
        return str(ZoneInfo(name))
    return datetime.now().astimezone().strftime("%z")


def wants_colour(environ: Mapping[str, str] = ENVIRONMENT) -> bool:
    """Whether colours are allowed (no-color.org)."""
    return not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def can_draw(environ: Mapping[str, str] = ENVIRONMENT) -> bool:
    """Whether the terminal can show a full screen, according to TERM."""
    return environ.get("TERM", "") not in ("", "dumb")


def has_light_background(environ: Mapping[str, str] = ENVIRONMENT) -> bool:
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


# --- keys that other processes must not find ----------------------------------------------------

_PR_SET_DUMPABLE: Final = 4

_is_own = False


def own_environment() -> None:
    """Say that this process is clew's own, so that its keys may be taken out of the environment.

    Where clew is a library, they belong to the program that uses it.
    """
    global _is_own  # noqa: PLW0603  # a fact about the whole process
    _is_own = True


def process_environment(config: Config) -> dict[str, str]:
    """A copy of the environment, for code that starts processes with a part of it.

    From then on no such process can read keys from this one: they are kept here, and taken out of
    the environment and of the memory that the system shows as such.
    """
    if _is_own:
        taken = {name: os.environ[name] for name in _list_secrets(config) if name in os.environ}
        _taken.update(taken)
        for name in taken:
            del os.environ[name]
        _hide(taken.keys())
    return dict(os.environ)


def _list_secrets(config: Config) -> Iterator[str]:
    """The variables with keys that clew reads."""
    yield from (name for name in CREDENTIALS if name.endswith("_KEY"))
    yield "CLEW_TOKEN"
    yield from (
        name
        for name in ("CLEW_STORE", "CLEW_STORE_URL")
        if hide_password(os.environ.get(name, "")) != os.environ.get(name, "")
    )
    secrets: list[Secret | None] = [config.gateway_token]
    secrets += [each.api_key for each in config.providers.values()]
    for hook in config.webhooks.values():
        secrets += [hook.secret, hook.callback_secret]
    for channel in config.channels.values():
        fields = (getattr(channel, name) for name in channel.__struct_fields__)
        secrets += [each for each in fields if isinstance(each, Secret)]
        secrets += channel.options.values()
    for server in config.mcp.values():
        secrets += server.env.values()
    for each in secrets:
        if each is not None and each.text.startswith("env:"):
            yield each.text.removeprefix("env:")


def _hide(names: Collection[str]) -> None:
    """Overwrite variables where the process began with them, and let no other process look.

    Linux shows that memory in `/proc`, to every process of the same user.
    """
    if sys.platform != "linux":
        return
    import ctypes  # noqa: PLC0415  # only where tools run

    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    place = start
    for each in ctypes.string_at(start, end - start).split(b"\0") if end > start > 0 else ():
        name, _, value = each.partition(b"=")
        if os.fsdecode(name) in names:
            ctypes.memset(place + len(name) + 1, ord("*"), len(value))
        place += len(each) + 1
