"""What a configuration says that can't work, and what is legal and surely not meant.

`check_config` refuses, before a gateway uses it; `list_warnings` is told at the start of a gateway
and by `clew doctor`. Nothing is contacted.
"""

from __future__ import annotations

from collections.abc import Iterator

from clew.config import Config, reveal
from clew.core.channels.routing import normalise_agent
from clew.core.keys import normalise_word
from clew.errors import InvalidConfig, PersonalityNotFound
from clew.wiring.channels import list_configured
from clew.wiring.workspaces import find_agent_places

LOCAL = "local"
"""The provider of the embedded model."""


def check_config(config: Config) -> None:
    """`InvalidConfig` for what a gateway can't work with."""
    from clew.core.tool_rules import parse_rule  # only for a gateway
    from clew.runtime.zones import find_zone  # only for a gateway

    check_agents(config)
    list_configured(config)
    find_zone(config.session.timezone)
    for rule in (*config.tools.allow, *config.tools.deny):
        parse_rule(rule)
    for name, each in config.webhooks.items():
        if each.secret is None:
            raise InvalidConfig(
                f"webhooks.{name}.secret is missing: without it no caller is accepted."
            )
        reveal(each.secret)


def check_agents(config: Config) -> None:
    """`InvalidConfig` for agents that can't be, and for a name of one that is not listed."""
    known = [normalise_agent(each.id) for each in config.agents]
    if not known:
        return
    for agent in known:
        if known.count(agent) > 1:
            raise InvalidConfig(
                f'There are two agents "{agent}" in [[agents]]. Give one of them another id.'
            )
    find_agent_places(config)
    named = [(f"bindings[{place}]", each.agent) for place, each in enumerate(config.bindings)]
    named += [
        (f"webhooks.{name}", each.agent)
        for name, each in config.webhooks.items()
        if f"webhooks.{name}.agent" in config.sources
    ]
    for where, agent in named:
        if normalise_agent(agent) not in known:
            raise InvalidConfig(
                f'{where} names the agent "{agent}", which is not there. There are: '
                f"{', '.join(known)}. Correct it, or add [[agents]] with that id."
            )


def list_warnings(config: Config) -> Iterator[str]:
    """What is legal and surely not meant, each with what to do."""
    kinds = {each.kind for each in list_configured(config)}
    for owner in config.owners:
        channel = normalise_word(owner.partition(":")[0])
        if channel not in kinds:
            yield (
                f"The owner {owner} can't write: no channel {channel} is configured. "
                f"`clew channels add {channel}` adds one."
            )
    if config.channels and not config.owners:
        yield (
            "Nobody is the owner on any channel, so nobody can command the agent there or answer "
            'its questions. Set owners = ["channel:id"], or run `clew channels add` again.'
        )
    yield from _warn_of_webhooks(config, kinds)
    yield from _warn_of_providers(config)
    yield from _warn_of_personalities(config)


def _warn_of_webhooks(config: Config, kinds: set[str]) -> Iterator[str]:
    for name, each in config.webhooks.items():
        if each.deliver_to is not None:
            channel = normalise_word(each.deliver_to.partition(":")[0])
            if channel not in kinds:
                yield (
                    f"webhooks.{name}.deliver_to is {each.deliver_to}, but no channel {channel} "
                    "is configured: its replies would wait for a day, and fail."
                )
        elif each.callback is None:
            yield (
                f"Nobody gets the answers of webhooks.{name}: set its callback or deliver_to, or "
                "read them in its session."
            )


def _warn_of_providers(config: Config) -> Iterator[str]:
    from clew.agent.models.providers import KEY_VARIABLES  # only for a warning

    known = {*KEY_VARIABLES, *config.providers, LOCAL}
    named = [("model", config.model)]
    named += [(f"models.allowed[{n}]", each) for n, each in enumerate(config.models.allowed)]
    named += [(f'the model of the agent "{each.id}"', each.model) for each in config.agents]
    named += [(f"models.aliases.{name}", each) for name, each in config.models.aliases.items()]
    for where, model in named:
        provider, slash, _ = (model or "").partition("/")
        if slash and provider not in known:
            yield (
                f"{where} is {model}, but there is no provider {provider}: add "
                f"[providers.{provider}], or correct the name."
            )


def _warn_of_personalities(config: Config) -> Iterator[str]:
    from clew.agent.personalities import FilePersonalities  # only for a warning

    known = FilePersonalities(config.file.parent / "personalities")
    for each in config.agents:
        try:
            known.get_personality(each.personality)
        except PersonalityNotFound as error:
            yield f'The agent "{each.id}" answers with the default personality. {error}'
        except InvalidConfig as error:
            yield f'The personality of the agent "{each.id}" can\'t be read: {error}'
