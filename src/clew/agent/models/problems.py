"""What keeps a provider's models from being used, as far as its setup shows: nobody is asked.

What a provider answers when it is asked, and how that is explained, is the loop's business.
"""

from __future__ import annotations

from clew.agent.models.setup import KEY_VARIABLES, LABELS, ProviderSetup
from clew.errors import InvalidConfig


def find_problem(provider: ProviderSetup) -> str | None:
    """Why a provider's models can't be used, and what to do; None if nothing is known to be wrong.

    A wrong key or a server that is down shows only when it is asked.
    """
    if provider.kind == "python":
        if provider.factory is None:
            return f'providers.{provider.name}.factory is not set: "module:function".'
    elif provider.base_url is not None and provider.base_url.startswith("/"):
        return f"providers.{provider.name}.base_url is a path, not an address."
    if provider.api_key is None:
        return _missing_key(provider)
    try:
        provider.api_key()
    except (InvalidConfig, OSError) as error:
        return str(error)
    return None


def _missing_key(provider: ProviderSetup) -> str | None:
    """Servers of one's own may want none."""
    name, variable = provider.name, KEY_VARIABLES.get(provider.name)
    if provider.kind == "python" or (provider.kind == "openai" and provider.base_url):
        return None
    if provider.kind == "openai" and variable is None:
        return f"Set its address: `clew config set providers.{name}.base_url http://…/v1`."
    needs = f"{LABELS[provider.kind]} needs a key"
    config = f"`clew config set providers.{name}.api_key env:NAME`"
    return f"{needs}: set {variable}. Or {config}." if variable else f"{needs}: {config}."
