"""The configuration as values: the sections, their keys, and what each value may be.

Where a value comes from, and the checks that need a file or a clock, are in `clew.config`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from clew.core.channels.resets import ResetByType, ResetRule
from clew.core.channels.routing import AgentEntry, Binding, DmScope
from clew.core.channels.send_policy import SendRules
from clew.core.models import Thinking
from clew.core.redaction import HIDDEN, hide_password, redact
from clew.core.session import RetentionAction


class Secret:
    """A key or token: itself, or where it is (`env:NAME`, `file:PATH`).

    It is never printed: text and repr show where it is, or that there is one.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text if self.text.startswith(("env:", "file:")) else HIDDEN

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


SHORTEST_SECRET: Final = 16
"""Characters of a webhook's secret that can't be guessed."""

Word = Annotated[str, Meta(pattern=r"^\S+$")]
Whole = Annotated[int, Meta(ge=1, le=2**40)]
Texts = tuple[str, ...]

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
ModelName = Annotated[
    Word | None, Meta(description="a model: provider/model", examples=["ollama/qwen3"])
]
PersonalityId = Annotated[Word, Meta(description="the id of a personality")]
Level = Annotated[
    Thinking | None, Meta(description='"off", "low", "medium" or "high"', examples=["medium"])
]
Tier = Annotated[Word | None, Meta(description="a service tier of the provider", examples=["flex"])]
Scope = Annotated[Literal["cwd", "git"], Meta(description='"cwd" or "git"')]
Count = Annotated[Whole, Meta(description="a whole number, at least 1")]
Tokens = Annotated[
    Whole | None, Meta(description="a whole number of tokens, at least 1", examples=[200_000])
]
Seconds = Annotated[Whole, Meta(description="a whole number of seconds, at least 1")]
Characters = Annotated[Whole, Meta(description="a whole number of characters, at least 1")]
Rules = Annotated[Texts, Meta(description="a list of rules", examples=[["shell:git status"]])]
Servers = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^http://[^\s/?#@]+(/[^\s?#]*)?$")], ...],
    Meta(max_length=20, description="a list of addresses such as http://127.0.0.1:11434/v1"),
]
Switch = Annotated[bool, Meta(description="true or false")]
PruningMode = Annotated[Literal["auto", "off"], Meta(description='"auto" or "off"')]
Patterns = Annotated[Texts, Meta(description="a list of tools", examples=[["shell", "web_*"]])]
Guests = Annotated[Literal["read", "none"], Meta(description='"read" or "none"')]
MemoryMode = Annotated[Literal["markdown", "vector"], Meta(description='"markdown" or "vector"')]
EmbeddingModel = Annotated[
    str,
    Meta(
        pattern=r"^(all-minilm-l6-v2|.+\.gguf|[^/\s]+/\S+)$",
        description='"all-minilm-l6-v2", a GGUF file, or provider/model',
        examples=["ollama/bge-m3"],
    ),
]
Folder = Annotated[
    Annotated[str, Meta(pattern=r"^(/|~|[A-Za-z]:)")] | None,
    Meta(description="a directory that begins with / or ~", examples=["~/agent"]),
]
Folders = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^(/|~|[A-Za-z]:)")], ...],
    Meta(description="a list of directories that begin with / or ~", examples=[["~/projects"]]),
]
Programs = Annotated[Texts, Meta(description="a list of programs", examples=[["~/bin/notify"]])]
Followed = Annotated[
    Texts, Meta(description="a list of agents to follow", examples=[["claude-code"]])
]
ThemeName = Annotated[
    Literal["auto", "dark", "light"], Meta(description='"auto", "dark" or "light"')
]
Kind = Annotated[
    Literal["openai", "anthropic", "google", "python"] | None,
    Meta(description='"openai", "anthropic", "google" or "python"'),
]
Address = Annotated[
    # Only a Python factory can have a path.
    Annotated[str, Meta(pattern=r"^(https?://\S+|/.+)$")] | None,
    Meta(description="an http:// or https:// address"),
]
Key = Annotated[Secret | None, Meta(description="a key, env:NAME or file:PATH")]
Names = Annotated[Texts, Meta(description="a list of names")]
AgentId = Annotated[Word, Meta(description="the id of an agent")]
HookSession = Annotated[
    Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")] | None,
    Meta(description="a name of letters, digits, -, _ and ."),
]
Place = Annotated[Word | None, Meta(description="a place: channel:id or channel:group:id")]
Factory = Annotated[
    Annotated[str, Meta(pattern=r"^[\w.]+:[\w.]+$")] | None, Meta(description='"module:function"')
]
Command = Annotated[Texts, Meta(description="a list: a program and its arguments")]
Variables = Annotated[dict[str, Secret], Meta(description="a table of texts")]
ChannelKind = Annotated[Word | None, Meta(description="a type of channel, such as telegram")]
AccountName = Annotated[
    Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")] | None,
    Meta(description="a name of small letters, digits, - and _"),
]
MailAddress = Annotated[
    Annotated[str, Meta(pattern=r"^[^\s@<>]+@[^\s@<>]+$")] | None,
    Meta(description="a mail address"),
]
MailServer = Annotated[
    Annotated[str, Meta(pattern=r"^(imaps?|smtps?)://[^\s@/]+$")] | None,
    Meta(description="a mail server: imaps://HOST, smtps://HOST, or smtp://HOST for STARTTLS"),
]
HostName = Annotated[
    Annotated[str, Meta(pattern=r"^[^\s;]+$")] | None, Meta(description="the name of a server")
]
UserName = Annotated[Word | None, Meta(description="the name that you sign in with")]
Groups = Annotated[Literal["mention", "always"], Meta(description='"mention" or "always"')]
Owners = Annotated[
    Texts, Meta(description="a list of people: channel:id", examples=[["telegram:123"]])
]
GuestList = Annotated[
    Texts,
    Meta(
        description="a list of people and groups: channel:id, channel:* for all of them",
        examples=[["telegram:456", "discord:*"]],
    ),
]
Agents = Annotated[
    tuple[AgentEntry, ...], Meta(description="a list of agents", examples=[[{"id": "home"}]])
]
Bindings = Annotated[
    tuple[Binding, ...],
    Meta(
        description="a list of { agent, match = { channel, account, peer, guild, team } }",
        examples=[[{"agent": "home", "match": {"channel": "telegram"}}]],
    ),
]
MainKey = Annotated[Word, Meta(description="a word")]
Direct = Annotated[
    DmScope,
    Meta(description='"main", "per-peer", "per-channel-peer" or "per-account-channel-peer"'),
]
Links = Annotated[
    dict[str, Texts],
    Meta(
        description="a table: a name, and the ids of that person",
        examples=[{"alice": ["telegram:123"]}],
    ),
]
Reset = Annotated[
    ResetRule | None,
    Meta(
        description='a table: mode ("daily", "idle" or "off"), at_hour (0 to 23), '
        "idle_minutes (at least 1)",
        examples=[{"mode": "daily", "at_hour": 4}],
    ),
]
ResetTypes = Annotated[
    ResetByType | None,
    Meta(
        description='a table of dm, group and thread, each with mode ("daily", "idle" or "off"), '
        "at_hour (0 to 23), idle_minutes (at least 1)",
        examples=[{"thread": {"mode": "idle", "idle_minutes": 180}}],
    ),
]
ResetChannels = Annotated[
    dict[str, ResetRule],
    Meta(
        description='a table of channels, each with mode ("daily", "idle" or "off"), '
        "at_hour (0 to 23), idle_minutes (at least 1)",
        examples=[{"discord": {"mode": "idle", "idle_minutes": 10080}}],
    ),
]
Minutes = Annotated[
    Annotated[int, Meta(ge=1, le=100_000_000)] | None,
    Meta(description="a whole number of minutes, at least 1", examples=[60]),
]
Triggers = Annotated[Texts, Meta(description="a list of words", examples=[["/fresh"]])]
Sending = Annotated[
    SendRules,
    Meta(
        description='a table: default ("allow" or "deny") and rules, each { action, match = '
        "{ channel, chat_type, key_prefix } }",
        examples=[{"default": "allow"}],
    ),
]
Aliases = Annotated[
    dict[str, str],
    Meta(
        description="a table: a name, and the model",
        examples=[{"opus": "anthropic/claude-opus-4-5"}],
    ),
]


class GeneralConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Keys without a section: the defaults that a session or a flag can override."""

    model: ModelName = None
    personality: PersonalityId = "default"
    thinking: Level = None
    service_tier: Tier = None
    owners: Owners = ()
    guests: GuestList = ()
    agents: Agents = ()
    bindings: Bindings = ()


class ModelsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[models]`: models that a message may ask for, their aliases, and when silence ends.

    `servers`: where `clew setup` looks for servers of models.
    """

    allowed: Names = ()
    aliases: Aliases = {}
    stall_timeout: Seconds = 120
    servers: Servers = (
        "http://127.0.0.1:11434/v1",
        "http://127.0.0.1:1234/v1",
        "http://127.0.0.1:8080/v1",
        "http://127.0.0.1:8000/v1",
    )


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[store]`: where the sessions are, and whether a commit waits for the disk."""

    url: Url
    durability: Durability = "full"


class SessionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[session]`: its directory, what the model sees, retention, the time zone.

    From `dm_scope` on: which session a message on a channel is for, when it is reset, and whether
    replies are sent.
    """

    scope: Scope = "cwd"
    context_messages: Count = 200
    auto_compact: Switch = True
    context_window: Tokens = None
    retention_days: Days = 90
    max_storage_bytes: Bytes = 52_428_800
    retention_action: Action = "archive"
    trash_days: Days = 30
    timezone: Zone = None
    dm_scope: Direct = "main"
    guest_dm_scope: Direct = "per-channel-peer"
    main_key: MainKey = "main"
    identity_links: Links = {}
    reset: Reset = None
    reset_by_type: ResetTypes = None
    reset_by_channel: ResetChannels = {}
    idle_minutes: Minutes = None
    reset_triggers: Triggers = ()
    send_policy: Sending = SendRules()


class PruningConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[context.pruning]`: whether old tool results are trimmed, and of which tools."""

    mode: PruningMode = "auto"
    allow: Patterns = ()
    deny: Patterns = ()


class ContextConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[context]`: which part of a thread the model sees."""

    pruning: PruningConfig = PruningConfig()


class ToolsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[tools]`: what may run without asking, what never may, time limits and sizes."""

    allow: Rules = ()
    deny: Rules = ()
    timeout: Seconds = 120
    max_output: Characters = 30_000


class MemoryConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[memory]`: what of it a turn gets, and guests; whether it is written before a compaction."""

    mode: MemoryMode = "markdown"
    embeddings: EmbeddingModel = "all-minilm-l6-v2"
    guests: Guests = "none"
    flush: Switch = True


class GatewayConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[gateway]`: the directory that its agent works in, and those that a token may name.

    `watch`: the configuration is reloaded when its file changes.
    """

    workspace: Folder = None
    workspaces: Folders = ()
    watch: Switch = False


class TerminalConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[terminal]`: how the full screen looks; `auto` goes by what the terminal says of itself."""

    theme: ThemeName = "auto"


class HooksConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[hooks]`: programs that are run when something happens."""

    session_before_switch: Programs = ()
    session_switch: Programs = ()
    session_end: Programs = ()
    turn_start: Programs = ()
    turn_end: Programs = ()


class ImportConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[import]`: other agents' histories."""

    follow: Followed = ()


class ProviderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[providers.NAME]`: a provider of models.

    Without a kind, the name decides; an unknown name means an OpenAI-compatible server.
    """

    kind: Kind = None
    base_url: Address = None
    api_key: Key = None
    models: Names = ()
    factory: Factory = None
    context_window: Tokens = None


class McpConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[mcp.NAME]`: a server of tools, started by a command or reached at an address.

    `tools` are the tools to offer; empty means all.
    """

    command: Command = ()
    url: Address = None
    env: Variables = {}
    tools: Names = ()


class WebhookConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[webhooks.NAME]`: who may call `/v1/hooks/NAME`, with which rights, where replies go.

    `memory`: its turns may write memory, if it is trusted.
    """

    secret: Key = None
    agent: AgentId = "main"
    session: HookSession = None
    trusted: Switch = False
    memory: Switch = False
    callback: Address = None
    callback_secret: Key = None
    deliver_to: Place = None
    resend: Switch = False


class ChannelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`[channels.NAME]`: an account on a platform. `core.channels.kinds` says what each type needs.

    Without a type, the name is it; without an account, it is the name if that is not the type. A
    channel of one's own has a `factory`, or a type that an installed package registers, and
    `options`.
    """

    type: ChannelKind = None
    account: AccountName = None
    groups: Groups = "mention"
    factory: Factory = None
    options: Variables = {}
    token: Key = None
    app_token: Key = None
    api_url: Address = None
    address: MailAddress = None
    username: UserName = None
    password: Key = None
    imap: MailServer = None
    smtp: MailServer = None
    authserv_id: HostName = None


SECTIONS: Final[dict[str, type[msgspec.Struct]]] = {
    "": GeneralConfig,
    "models": ModelsConfig,
    "store": StoreConfig,
    "session": SessionConfig,
    "tools": ToolsConfig,
    "memory": MemoryConfig,
    "context.pruning": PruningConfig,
    "gateway": GatewayConfig,
    "terminal": TerminalConfig,
    "hooks": HooksConfig,
    "import": ImportConfig,
}
FAMILIES: Final[dict[str, type[msgspec.Struct]]] = {
    "providers": ProviderConfig,
    "mcp": McpConfig,
    "webhooks": WebhookConfig,
    "channels": ChannelConfig,
}
"""Sections that can occur several times, each with a name."""

KEYS: Final = tuple(
    f"{section}.{name}" if section else name
    for section, kind in SECTIONS.items()
    for name in kind.__struct_fields__
)
FAMILY_KEYS: Final = tuple(
    f"{family}.NAME.{name}" for family, kind in FAMILIES.items() for name in kind.__struct_fields__
)


def split_key(key: str) -> tuple[str, ...] | None:
    """The path of a key in the file; None for an unknown key."""
    if key in KEYS:
        return tuple(key.split("."))
    parts = tuple(key.split("."))
    kind = FAMILIES.get(parts[0])
    if kind is None or len(parts) not in (3, 4) or not is_name(parts[1]):
        return None
    if parts[2] not in kind.__struct_fields__:
        return None
    is_table = (parts[0], parts[2]) in (("mcp", "env"), ("channels", "options"))
    if len(parts) == 3 or (is_table and parts[3]):
        return parts
    return None


def is_name(text: str) -> bool:
    """Whether a section of a family may have this name."""
    return text.isascii() and text.replace("-", "").replace("_", "").isalnum()


def get_type(path: tuple[str, ...]) -> Any:
    """The type of the value at a path, with its description."""
    if len(path) == 4:
        return Key
    *above, name = path
    kind = FAMILIES[above[0]] if above[:1] and above[0] in FAMILIES else SECTIONS[".".join(above)]
    return next(each.type for each in msgspec.structs.fields(kind) if each.name == name)


def get_meta(kind: Any) -> Meta:
    """The description of a type."""
    meta: Meta = kind.__metadata__[-1]
    return meta


SHORTEST_NAME: Final = 4
"""Letters from which on a name alone is similar to another."""


def nearest_key(key: str) -> str | None:
    """The key that was probably meant."""
    import difflib  # noqa: PLC0415  # only for a suggestion

    known = [*FAMILY_KEYS, *KEYS]
    section, _, name = key.rpartition(".")
    if section in KEYS:
        return section
    parts = key.split(".")
    if parts[0] in FAMILIES and len(parts) > 2 and is_name(parts[1]):
        known += [f"{parts[0]}.{parts[1]}.{each}" for each in FAMILIES[parts[0]].__struct_fields__]
    near = difflib.get_close_matches(key, known, 1, 0.8)
    if near:
        return near[0]
    if len(name) < SHORTEST_NAME:
        return None
    by_name = {each.rpartition(".")[2]: each for each in known}
    by_name |= {each.rpartition(".")[2]: each for each in known if each.startswith(f"{section}.")}
    near = difflib.get_close_matches(name, by_name, 1, 0.75)
    return by_name[near[0]] if near else None


def keys_beside(key: str) -> tuple[str, ...]:
    """The keys of the section that a key names; all if there is no such section."""
    section = key.rpartition(".")[0]
    beside = tuple(each for each in KEYS if section and each.startswith(f"{section}."))
    return beside or (*KEYS, *FAMILY_KEYS)


def decode_secret(kind: type, value: object) -> object:
    """Make a `Secret` of a text, for msgspec."""
    if kind is Secret and isinstance(value, str) and value.strip():
        return Secret(value.strip())
    raise ValueError("not a text")


def plain(value: object) -> object:
    """A value as it is shown and written as JSON, without secrets."""
    match value:
        case Secret():
            return str(value)
        case str():
            return hide_password(value)
        case tuple():
            return _plain_list(value)
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case msgspec.Struct():
            return plain(msgspec.to_builtins(value))
    return value


def _plain_list(values: tuple[Any, ...]) -> list[object]:
    """The values of a list; a command's arguments may be secrets, alone or after an option."""
    shown = [redact(each) if isinstance(each, str) else each for each in map(plain, values)]
    for at, (name, value) in enumerate(pairwise(values), 1):
        if isinstance(name, str) and name.startswith("--") and "=" not in name:
            together = f"{name} {value}"
            if redact(together) != together:
                shown[at] = HIDDEN
    return shown


def template() -> str:
    """A config file with every key commented out."""
    lines = ["# clew's configuration. Take the # away from what you want to change."]
    for section, kind in SECTIONS.items():
        lines += ["", f"[{section}]"] if section else [""]
        for field in msgspec.structs.fields(kind):
            meta = get_meta(field.type)
            value = meta.examples[0] if meta.examples else field.default
            lines.append(f"# {field.name} = {_toml(value)}  # {meta.description}")
    return "\n".join(lines) + EXAMPLES


def _toml(value: object) -> str:
    """A value as it is written in a config file, on one line."""
    match value:
        case msgspec.Struct():
            return _toml(msgspec.to_builtins(value))
        case dict():
            pairs = ", ".join(f"{name} = {_toml(each)}" for name, each in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
        case list() | tuple():
            return f"[{', '.join(_toml(each) for each in value)}]"
    return msgspec.json.encode(value).decode()


EXAMPLES: Final = """
# Where more models are, under a name of your own: here ollama/qwen3.
# [providers.ollama]
#   kind = "openai"       # "openai" (and all that speak like it), "anthropic", "google", "python"
#   base_url = "http://localhost:11434/v1"
#   api_key = "env:NAME"  # or file:PATH, or the key itself
#   models = ["qwen3"]
#   context_window = 32768

# Tools of an MCP server.
# [mcp.files]
#   command = ["mcp-server-files", "."]
#   env = { TOKEN = "env:NAME" }

# Who may call /v1/hooks/deploys, signed with the secret.
# [webhooks.deploys]
#   secret = "env:NAME"
#   callback = "https://ci.example.org/clew"

# A bot on Telegram. `clew channels add telegram` writes this, and makes you its owner.
# [channels.telegram]
#   token = "file:/home/me/.config/clew/telegram.token"
#   groups = "mention"    # or "always": answer everything that is said in a group
"""
