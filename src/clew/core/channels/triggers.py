"""Messages that begin a new conversation: `/new`, `/reset` and what the configuration adds.

Pure: the text, its author and the known models give the answer. The runtime does the reset.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from clew.core.commands import COMMANDS, without_mention
from clew.core.models import find_alias

DEFAULTS: Final = tuple(f"/{name}" for name in ("new", *COMMANDS["new"].aliases))
FUZZY: Final = 6
"""Shortest word that may mean a model with a similar name, in characters."""
WHOLE: Final = 4
"""Shortest whole word of a model's name that may mean it after its provider, in characters."""
CLOSE: Final = 0.85

_WORDS: Final = re.compile(r"(\S+)(\s*)")
_PLAIN: Final = re.compile(r"[^a-z0-9]+")


class ModelNames(msgspec.Struct, frozen=True, kw_only=True):
    """The models that may be named: each as `provider/model`, and by other names."""

    allowed: tuple[str, ...] = ()
    aliases: dict[str, str] = {}


class Triggered(msgspec.Struct, frozen=True, kw_only=True):
    """What a trigger asks for. The rest of the text is the first message."""

    triggered: bool
    trigger: str | None = None
    remainder: str = ""
    model: str | None = None
    why: str = ""


def read_trigger(
    text: str,
    *,
    extra: Sequence[str] = (),
    mention: str | None = None,
    may_command: bool = True,
    models: ModelNames | None = None,
) -> Triggered:
    """Whether a message begins a new conversation, with what, and with which model."""
    found = _find(text, [*DEFAULTS, *extra], mention)
    if found is None:
        return Triggered(triggered=False, remainder=text, why="it begins with no trigger")
    trigger, remainder = found
    if not may_command:
        return Triggered(triggered=False, remainder=text, why="only the owner may command")
    model, rest, why = find_model(remainder, models or ModelNames())
    return Triggered(triggered=True, trigger=trigger, remainder=rest, model=model, why=why)


def _find(text: str, triggers: Sequence[str], mention: str | None) -> tuple[str, str] | None:
    """The trigger that a text begins with, and what follows it."""
    said = without_mention(text.lstrip(), mention)
    for trigger in dict.fromkeys(each.strip().lower() for each in triggers):
        if not trigger or said[: len(trigger)].lower() != trigger:
            continue
        rest = said[len(trigger) :]
        if mention and trigger.startswith("/"):
            # Telegram's way to name one of several bots: /new@thebot
            named = f"@{mention.lstrip('@')}"
            rest = rest[len(named) :] if rest[: len(named)].lower() == named.lower() else rest
        if not rest or rest[0].isspace():
            return trigger, rest.lstrip()
    return None


# --- models -----------------------------------------------------------------------------------
def find_model(text: str, models: ModelNames) -> tuple[str | None, str, str]:
    """The model that a text begins with, the rest, and why; without a model the whole text."""
    words = _WORDS.findall(text[:500])[:2]
    if not words:
        return None, text, "nothing follows"
    first = words[0][0]
    after_first = text[len("".join(words[0])) :]
    if len(words) > 1:
        found = _find_of_provider(first, words[1][0], models)
        if found is not None:
            return found[0], after_first[len("".join(words[1])) :], found[1]
    for name, why in _named(first, models):
        return name, after_first, why
    return None, text, "it begins with no model"


def _find_of_provider(provider: str, word: str, models: ModelNames) -> tuple[str, str] | None:
    """The model of a provider that the next word names: exactly, else one word of its name."""
    own = [each for each in models.allowed if each.partition("/")[0].lower() == provider.lower()]
    for name in own:
        if name.partition("/")[2].lower() == word.lower():
            return name, "a provider and its model"
    plain = _PLAIN.sub("", word.lower())
    whole = [each for each in own if len(plain) >= WHOLE and plain in _words_of(each)]
    near = whole or [each for each in own if _begins_word(plain, each)]
    return (near[0], "a provider and part of its model's name") if len(near) == 1 else None


def _words_of(name: str) -> list[str]:
    """The words of a model's name, without its provider."""
    return _PLAIN.sub(" ", name.partition("/")[2].lower()).split()


def _begins_word(plain: str, name: str) -> bool:
    """Whether a text of enough letters begins at a word of a model's name."""
    words = _words_of(name)
    ends = ("".join(words[place:]) for place in range(len(words)))
    return len(plain) >= FUZZY and any(each.startswith(plain) for each in ends)


def _named(word: str, models: ModelNames) -> Iterator[tuple[str, str]]:
    """The models that one word may mean, the best first."""
    wanted = word.lower()
    alias_of = find_alias(models.aliases, word)
    if alias_of is not None:
        yield alias_of, f"an alias of {alias_of}"
    for name in models.allowed:
        if name.lower() == wanted:
            yield name, "provider/model"
    for name in models.allowed:
        if name.partition("/")[2].lower() == wanted:
            yield name, "a model's name"
    for name in models.allowed:
        if name.partition("/")[0].lower() == wanted:
            yield name, "a provider's first model"
    plain = _PLAIN.sub("", wanted)
    if len(plain) < FUZZY:
        return
    begun = [each for each in models.allowed if _begins_word(plain, each)]
    if len(begun) == 1:
        yield begun[0], "part of a model's name"
    if begun:
        return
    short = {_PLAIN.sub("", name.partition("/")[2].lower()): name for name in models.allowed}
    for near in difflib.get_close_matches(plain, short, 1, CLOSE):
        yield short[near], "close to a model's name"
