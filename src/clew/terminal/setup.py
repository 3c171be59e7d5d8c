"""The set-up of a model, as a dialogue: which provider, its key, a test, the model.

`clew setup` and `/setup` lead through it, here or at a gateway: every step is an operation of the
API. A key is typed without being shown, and kept in a file of its own. Nothing is kept of a set-up
whose test fails, unless the person wants it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from clew.client.client import Client
from clew.core.models import EMBEDDED, LocalServer, ModelInfo
from clew.core.names import counted
from clew.core.text import is_yes, strip_controls

PROVIDERS: Final = {"anthropic": "Anthropic", "openai": "OpenAI", "google": "Google"}
SHOWN: Final = 9
"""Choices that have a number each: one key answers."""


class Asker(Protocol):
    """Asks a person."""

    def note(self, text: str, style: str | None = "dim") -> None:
        """A sentence beside the conversation."""
        ...

    async def ask(self, question: str) -> str:
        """A short answer to a question that names its keys; empty for none."""
        ...

    async def ask_text(self, question: str, *, hidden: bool = False) -> str:
        """A line of text; `hidden`: it is not shown while it is typed."""
        ...


class Choice(NamedTuple):
    """Something that can answer: its words, its provider, its address and its models."""

    words: str
    provider: str
    url: str | None = None
    models: tuple[str, ...] = ()
    needs_key: bool = False


class _Stopped(Exception):  # not an error: the person wanted nothing more
    """The person left the dialogue."""


async def set_up(client: Client, asker: Asker) -> ModelInfo | None:
    """Lead through the set-up; returns the model that answers from now on, None if none was set."""
    try:
        return await _set_up(client, asker)
    except _Stopped:
        asker.note("Nothing was changed.", None)
        return None


async def _set_up(client: Client, asker: Asker) -> ModelInfo | None:
    choice = await _choose(client, asker)
    if choice.provider == EMBEDDED:
        await client.config.set("model", EMBEDDED)
        return await client.models.get()
    written: list[str] = []
    try:
        model = await _try(client, asker, choice, written)
    except BaseException:
        await _take_back(client, written)
        raise
    await client.config.set("model", model)
    return await client.models.get(model)


async def _choose(client: Client, asker: Asker) -> Choice:
    """What is to answer: what was found here, the well-known providers, another address."""
    asker.note("Looking for models on this machine …", None)
    servers = (await client.models.servers()).servers
    choices = [_found(each) for each in servers[:4]]
    for name, title in PROVIDERS.items():
        info = await _first_of(client, name)
        ready = "its key is set" if info.problem is None else "needs a key"
        choices.append(Choice(f"{title} ({ready})", name, needs_key=info.problem is not None))
    choices.append(Choice("Another server that speaks like OpenAI", "server"))
    choices.append(Choice("The small model inside clew (weak answers)", EMBEDDED))
    return choices[await _pick(asker, "Which is to answer?", [each.words for each in choices])]


def _found(server: LocalServer) -> Choice:
    first = server.models[:3]
    names, others = ", ".join(first), len(server.models) - len(first)
    more = f" and {counted(others, 'other')}" if others else ""
    return Choice(
        f"{server.title} on this machine: {names}{more}", server.name, server.url, server.models
    )


async def _first_of(client: Client, provider: str) -> ModelInfo:
    """The model of a provider that is recommended first."""
    models = (await client.models.list()).models
    return next(each for each in models if each.provider == provider)


async def _try(client: Client, asker: Asker, choice: Choice, written: list[str]) -> str:
    """Write what the provider needs, and test its model; returns the model's name.

    `written` gets the keys of the configuration that were written, to take them back.
    """
    if choice.provider == "server":
        choice = await _ask_server(asker)
    if choice.url is not None:
        choice = await _with_free_name(client, choice)
        key = f"providers.{choice.provider}.base_url"
        if await _get_value(client, key) is None:
            await client.config.set(key, choice.url)
            written.append(key)
    if choice.needs_key or (choice.url is not None and not choice.models):
        await _ask_key(client, asker, choice, written)
    model = f"{choice.provider}/{await _ask_model(client, asker, choice)}"
    asker.note(f"Asking {model} a tiny question …", None)
    tested = await client.models.test(model)
    if tested.works:
        asker.note(f"It answered after {tested.ms / 1000:.1f} s.", None)
        return model
    asker.note(strip_controls(tested.words), "error")
    if not is_yes(await asker.ask("Keep it all the same? [y/N] ")):
        raise _Stopped
    return model


async def _with_free_name(client: Client, choice: Choice) -> Choice:
    """The choice under a name that leads to no other address: that of a provider stays."""
    name, number = choice.provider, 1
    while await _get_value(client, f"providers.{name}.base_url") not in (None, choice.url):
        number += 1
        name = f"{choice.provider}-{number}"
    return choice._replace(provider=name)


async def _get_value(client: Client, key: str) -> object:
    """A value of the configuration; None if it is not set."""
    settings = (await client.config.show()).settings
    return next((each.value for each in settings if each.key == key), None)


async def _ask_server(asker: Asker) -> Choice:
    """The address of another server."""
    url = await _need(asker, "Its address, such as http://localhost:11434/v1: ")
    name = await asker.ask_text("A name for it [server]: ") or "server"
    return Choice(url, name, url)


async def _ask_key(client: Client, asker: Asker, choice: Choice, written: list[str]) -> None:
    """Ask for a key, and keep it; a server of one's own may need none."""
    optional = not choice.needs_key
    more = ", Enter if it needs none" if optional else ""
    secret = await asker.ask_text(f"The key (not shown{more}): ", hidden=True)
    if secret:
        key = f"providers.{choice.provider}.api_key"
        await client.config.set(key, secret)
        written.append(key)
    elif not optional:
        raise _Stopped


async def _ask_model(client: Client, asker: Asker, choice: Choice) -> str:
    """The id of the model: one that is known, or one that is typed."""
    known = choice.models or tuple(
        each.name.partition("/")[2]
        for each in (await client.models.list()).models
        if each.provider == choice.provider
    )
    if not known:
        return await _need(asker, "The name of the model there: ")
    if len(known) == 1:
        return known[0]
    shown = known[: SHOWN - 1]
    at = await _pick(asker, "Which model?", [*shown, "Another one"])
    return shown[at] if at < len(shown) else await _need(asker, "Its name: ")


async def _pick(asker: Asker, question: str, words: Sequence[str]) -> int:
    """The place of the choice that the person made."""
    lines = [f"  [{number}] {strip_controls(each)}" for number, each in enumerate(words, 1)]
    typed = await asker.ask("\n".join([question, *lines, f"[1-{len(words)}], Enter for none: "]))
    if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(words):
        return int(typed) - 1
    raise _Stopped


async def _need(asker: Asker, question: str) -> str:
    """A line that may not be empty."""
    typed = (await asker.ask_text(question)).strip()
    if not typed:
        raise _Stopped
    return typed


async def _take_back(client: Client, written: Sequence[str]) -> None:
    for key in reversed(written):
        await client.config.set(key, None)
