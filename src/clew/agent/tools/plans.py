"""Handing work on: to a sub-agent, or to the owner as a plan that waits for a yes."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from clew.agent.tools.kit import Arguments, Job, Tool, ToolFailure, show_detail
from clew.errors import PersonalityNotFound, TurnFailed


class Spawn(Arguments, frozen=True):
    """A task."""

    task: Annotated[
        str,
        Meta(min_length=1, description="All that the sub-agent has to know: it sees nothing else."),
    ]
    personality: Annotated[
        str, Meta(max_length=100, description="Such as researcher; empty for this one's.")
    ] = ""


class ProposePlan(Arguments, frozen=True):
    """A plan."""

    plan: Annotated[str, Meta(min_length=1, description="The steps, in Markdown.")]


async def spawn(job: Job, given: Spawn) -> str:
    """Give a task to a sub-agent in a session of its own, and get its last answer back.

    Good for work whose details would fill this conversation, such as reading through many files.
    """
    await job.permit({}, summary=f"Start a sub-agent: {given.task}", detail=given.task)
    personality = given.personality or job.personality.id
    try:
        answer = await job.turn.spawn(given.task, personality=personality)
    except (PersonalityNotFound, TurnFailed) as error:
        raise ToolFailure(f"The sub-agent came to nothing: {error}") from None
    return answer or "(The sub-agent ended without an answer.)"


async def propose_plan(job: Job, given: ProposePlan) -> str:
    """Show the person a finished plan and ask whether it may be carried out.

    Use it once you have looked at everything that the plan rests on.
    """
    async with job.notes.asking:
        approval = await job.turn.ask(
            job.call,
            {
                "summary": "Carry out this plan?",
                "detail": show_detail(given.plan),
                "rule": None,
                "cwd": job.turn.session.cwd,
                "plan": True,
            },
        )
    if approval.decision != "yes":
        late = approval.decided_by == "expired"
        raise ToolFailure(
            "Nobody answered in time. Plan mode stays on; wait for the person."
            if late
            else "The person does not want this plan yet. Plan mode stays on: ask what to change."
        )
    await job.turn.set_mode("plan_paused")
    job.notes.mode = "plan_paused"
    return (
        "The person approved the plan. Plan mode is paused and all tools are back: "
        "carry the plan out now, step by step."
    )


TOOLS = (
    Tool(name="spawn", arguments=Spawn, function=spawn, machine=True),
    Tool(name="propose_plan", arguments=ProposePlan, function=propose_plan, special=True),
)
