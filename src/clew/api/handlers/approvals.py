"""Handlers of the operations about approvals."""

from __future__ import annotations

from clew.api.approvals import DECIDE, LIST, ApprovalList, DecideApproval, ListApprovals
from clew.api.handlers.parts import Caller, Parts, _may_see, get_visible, handles
from clew.core.tokens import check_answer
from clew.core.turn import Approval
from clew.errors import InvalidInput


@handles(LIST)
async def list_approvals(parts: Parts, params: ListApprovals, caller: Caller) -> ApprovalList:
    """List the approvals that wait; a guest sees those of their own sessions."""
    if params.session is not None:
        await get_visible(parts, params.session, caller)
    waiting = await parts.store.list_approvals(params.session)
    shown = [each for each in waiting if await _may_see(parts, each.session_id, caller)]
    return ApprovalList(tuple(shown))


@handles(DECIDE)
async def decide_approval(parts: Parts, params: DecideApproval, caller: Caller) -> Approval:
    """Approve or deny a tool call; only the owner may."""
    check_answer(caller.scopes, params.scope)
    if params.scope == "always":
        await _check_rule(parts, params)
    by = f"{caller.person}:{caller.token_id}" if caller.token_id else caller.person
    return await parts.runtime.decide(
        params.id, params.decision, by=by, scope=params.scope, reason=params.reason
    )


async def _check_rule(parts: Parts, params: DecideApproval) -> None:
    """Check that the caller knows which rule is written."""
    for each in await parts.store.list_approvals():
        rule = each.request.get("rule")
        if each.id == params.id and rule and params.rule != rule:
            raise InvalidInput(
                "`always` writes a rule to tools.allow, which then holds in every session. To "
                f"write it, repeat this with `rule`: `{rule}`. Nothing was decided."
            )
