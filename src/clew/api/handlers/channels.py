"""Handlers of the operations about channels."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

from clew.api.channels import LIST, TEST, ChannelList, ChannelTested, TryChannel
from clew.api.handlers.parts import Caller, Parts, handles
from clew.api.operation import NoParams
from clew.api.status import ChannelView
from clew.core.redaction import redact
from clew.core.text import cut
from clew.errors import ClewError, RecordNotFound

PATIENCE: Final = 20.0
"""Seconds for a platform to answer."""

MOST_WORDS: Final = 500


@handles(LIST)
async def list_channels(parts: Parts, _params: NoParams, _caller: Caller) -> ChannelList:
    """The channels of this gateway; another process has none."""
    return ChannelList(parts.list_channels())


@handles(TEST)
async def check_channel(parts: Parts, params: TryChannel, _caller: Caller) -> ChannelTested:
    """Ask the platform. What goes wrong there is the result, without secrets."""
    channel = _find(parts, params)
    began = monotonic()
    who: str | None = None
    works: bool | None
    try:
        async with asyncio.timeout(PATIENCE):
            found = await parts.check_channel(channel.name, channel.account)
        works = None if found is None else not found[1]
        who, problems = (None, ()) if found is None else found
    except TimeoutError:
        works, problems = False, (f"The platform did not answer in {PATIENCE:.0f} seconds.",)
    except ClewError as error:
        works, problems = False, (str(error),)
    except Exception as error:  # noqa: BLE001  # a library of the platform
        works, problems = False, (f"{type(error).__name__}: {error}",)
    told = tuple(cut(redact(each), MOST_WORDS) for each in problems)
    return ChannelTested(channel, works, round((monotonic() - began) * 1000), who, told)


def _find(parts: Parts, params: TryChannel) -> ChannelView:
    for each in parts.list_channels():
        if each.name == params.name and params.account in (None, each.account):
            return each
    raise RecordNotFound("channel", params.name)
