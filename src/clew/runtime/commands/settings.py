"""Commands that change the settings of a session. They are stored with the session."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.models import MODES, THINKING, ModelInfo, clamp_thinking
from clew.core.session import SendPolicy, SessionEdit
from clew.errors import InvalidInput, ModelUnavailable
from clew.runtime.commands.desk import Desk, Reply


async def model(desk: Desk, rest: str) -> Reply:
    """`/model [NAME]`."""
    if not rest:
        current = desk.model
        known = desk.models.list_models()
        others = [each for each in known if each.name != current.name]
        lines = [f"* {_line(current)}", *(f"  {_line(each)}" for each in others)]
        return Reply(text="\n".join([*lines, "/model NAME changes it."]))
    chosen = desk.models.get_model(rest)
    if chosen.problem is not None:
        raise ModelUnavailable(f"{chosen.name} can't be used: {chosen.problem}")
    await desk.edit(SessionEdit(model=chosen.name, provider=chosen.provider))
    return Reply(text=f"The model is now {chosen.name}.")


def _line(info: ModelInfo) -> str:
    return info.name if info.problem is None else f"{info.name}  ({info.problem})"


async def thinking(desk: Desk, rest: str) -> Reply:
    """`/thinking [LEVEL]`."""
    info, level = desk.model, rest.lower()
    if not rest:
        now = clamp_thinking(desk.setting("thinking"), info.thinking)
        return Reply(text=f"Thinking is {now}. {info.name} knows {', '.join(info.thinking)}.")
    _check(level, THINKING, "A thinking level")
    await desk.edit(SessionEdit(thinking=level))
    real = clamp_thinking(level, info.thinking)
    if real != level:
        return Reply(text=f"Thinking is {level}; {info.name} can only do {real}.")
    return Reply(text=f"Thinking is now {level}.")


async def tier(desk: Desk, rest: str) -> Reply:
    """`/tier [TIER]`."""
    info, wanted = desk.model, rest.lower()
    if not rest:
        now = desk.setting("service_tier") or "none"
        known = ", ".join(info.tiers) or "no tiers"
        return Reply(text=f"The service tier is {now}. {info.name} has {known}.")
    if wanted == "none":
        await desk.edit(SessionEdit(service_tier=None))
        return Reply(text="The service tier is unset.")
    if not info.tiers:
        raise InvalidInput(f"{info.name} has no service tiers.")
    _check(wanted, info.tiers, "A service tier")
    await desk.edit(SessionEdit(service_tier=wanted))
    return Reply(text=f"The service tier is now {wanted}.")


async def mode(desk: Desk, rest: str) -> Reply:
    """`/mode [MODE]`."""
    now, wanted = desk.setting("mode") or "default", rest.lower()
    if not rest:
        paused = " A plan is paused: /mode plan goes back to it." if now == "plan_paused" else ""
        name = "default" if now == "plan_paused" else now
        what = MODES.get(name, "this clew does not know it, and works as usual")
        return Reply(text=f"The mode is {name}: {what}.{paused}")
    _check(wanted, tuple(MODES), "A mode")
    chosen = "plan_paused" if wanted == "default" and now in ("plan", "plan_paused") else wanted
    await desk.edit(SessionEdit(mode=chosen))
    return Reply(text=f"The mode is now {wanted}: {MODES[wanted]}.")


async def personality(desk: Desk, rest: str) -> Reply:
    """`/personality [ID]`: change the personality; the thread stays."""
    if not rest:
        now = desk.personality.id
        lines = [
            f"{'*' if each.id == now else ' '} {each.id:<12} {each.description}".rstrip()
            for each in desk.personalities.list_personalities()
        ]
        return Reply(text="\n".join([*lines, "/personality ID changes it."]))
    chosen = desk.personalities.get_personality(rest)
    await desk.edit(SessionEdit(personality=chosen.id))
    return Reply(text=f"You are now talking to {chosen.name}. The thread stays.")


async def verbose(desk: Desk, rest: str) -> Reply:
    """`/verbose [on|off]`."""
    wanted, now = rest.lower(), bool(desk.session.metadata.get("verbose"))
    if rest:
        _check(wanted, ("on", "off"), "Verbose")
        now = wanted == "on"
        await desk.note("verbose", now)
    shown = "shown in full" if now else "shown in one line each"
    return Reply(text=f"Tool calls and results are {shown}.")


async def send(desk: Desk, rest: str) -> Reply:
    """`/send [on|off|inherit]`: whether answers of this session are delivered to channels."""
    words: dict[str, SendPolicy | None] = {"on": "allow", "off": "deny", "inherit": None}
    if rest:
        _check(rest.lower(), tuple(words), "/send")
        await desk.edit(SessionEdit(send_policy=words[rest.lower()]))
    now = desk.setting("send_policy")
    told = {"allow": "delivered", "deny": "kept here, and not delivered"}
    return Reply(text=f"Replies are {told.get(now, 'delivered as the configuration says')}.")


def _check(value: str, allowed: Sequence[str], what: str) -> None:
    if value not in allowed:
        raise InvalidInput(f'{what} is {", ".join(allowed)}; not "{value[:40]}".')
