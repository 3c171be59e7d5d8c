"""The rules of the configuration for messages on channels, as values for the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.config import Config
from clew.core.channels.resets import ResetRules
from clew.core.channels.routing import RoutingRules
from clew.core.channels.triggers import ModelNames
from clew.core.keys import normalise_word
from clew.core.models import find_alias

if TYPE_CHECKING:
    from clew.core.channels.session_choice import Judge


def routing_rules(config: Config) -> RoutingRules:
    """The rules that decide which session a message is for."""
    session = config.session
    return RoutingRules(
        agents=config.agents,
        bindings=config.bindings,
        dm_scope=session.dm_scope,
        guest_dm_scope=session.guest_dm_scope,
        main_key=session.main_key,
        identity_links=session.identity_links,
    )


def reset_rules(config: Config) -> ResetRules:
    """The rules that decide when a conversation begins anew."""
    session = config.session
    return ResetRules(
        reset=session.reset,
        by_type=session.reset_by_type,
        by_channel=session.reset_by_channel,
        idle_minutes=session.idle_minutes,
    )


def terminal_judge(config: Config) -> Judge | None:
    """Decides whether a terminal's session goes on; None without rules, then all of them do."""
    rules = reset_rules(config)
    if not any(normalise_word(each) == "cli" for each in rules.by_channel):
        return None
    from clew.core.channels.session_choice import judge_terminal
    from clew.runtime.zones import find_zone

    zone = find_zone(config.session.timezone)
    return lambda session, now: judge_terminal(rules, session, now, zone)


def model_names(config: Config) -> ModelNames:
    """The models that `/new` may name: those that are allowed, else all that are configured."""
    aliases = config.models.aliases
    configured = [find_alias(aliases, config.model) or config.model] if config.model else []
    for name, provider in config.providers.items():
        configured += [f"{name}/{model}" for model in provider.models]
    allowed = config.models.allowed or tuple(dict.fromkeys(configured))
    return ModelNames(allowed=allowed, aliases=aliases)
