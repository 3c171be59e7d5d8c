"""Trying again: how often, how long to wait, and the countdown that people see.

It knows no model: what an error means is in `failures`. Sleep and chance are arguments.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from clew.agent.failures import Failure, explain
from clew.core.models import ModelInfo
from clew.core.signals import Retrying, Signal

ATTEMPTS: Final = 4
FIRST_WAIT: Final = 1.0
LONGEST_WAIT: Final = 60.0
"""A provider that asks for more patience than this gets none: the person decides."""

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[object]]
Chance = Callable[[], float]
"""A number from 0 up to 1."""


class Interrupted(Exception):
    """A failure that no exception of the library stands for, such as an answer without its end."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason)
        self.failure = failure


async def attempt(
    call: Callable[[], Awaitable[T]],
    model: ModelInfo,
    signal: Callable[[Signal], None],
    *,
    sleep: Sleep = asyncio.sleep,
    chance: Chance = random.random,
    attempts: int = ATTEMPTS,
) -> T:
    """What `call` returns, after a few attempts; `TurnFailed` with words if none helps."""
    for number in range(1, attempts + 1):
        try:
            return await call()
        except Exception as error:
            failure = error.failure if isinstance(error, Interrupted) else explain(error, model)
            if failure is None:
                raise
            wait = get_wait(number, failure, chance)
            if wait is None or number == attempts:
                raise failure.error from error
            await _count_down(number + 1, wait, failure.reason, signal, sleep)
    raise AssertionError("the last attempt returns or raises")


def get_wait(number: int, failure: Failure, chance: Chance) -> float | None:
    """How long to wait after this attempt, None if it was the last.

    Doubling, a little uneven so that many clients don't come back together, and never less than
    the provider asked for.
    """
    if not failure.transient or number >= ATTEMPTS:
        return None
    wait = FIRST_WAIT * 2 ** (number - 1) * (1 + chance() / 4)
    asked = failure.retry_after or 0.0
    return None if asked > LONGEST_WAIT else max(wait, asked)


async def _count_down(
    attempt_number: int,
    wait: float,
    reason: str,
    signal: Callable[[Signal], None],
    sleep: Sleep,
) -> None:
    left = wait
    while left > 0:
        signal(Retrying(attempt_number, ATTEMPTS, round(left, 1), reason))
        step = min(1.0, left)
        await sleep(step)
        left -= step
