"""What went wrong with a model: a message for the person, and whether another attempt may help.

Every error of pydantic-ai, of the SDKs and of the network is explained here. Waiting and trying
again is in `answers`.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from clew.agent.models.providers import KEY_VARIABLES
from clew.core.models import ModelInfo
from clew.core.redaction import redact
from clew.core.text import cut, strip_controls
from clew.errors import ContextTooLong, ModelRefused, ModelUnavailable, TurnFailed

_RETRY = "`/retry` tries again."


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """`error` is what the turn ends with; `reason` is short, for a countdown."""

    error: TurnFailed
    reason: str
    transient: bool = False
    retry_after: float | None = None


def explain(error: Exception, model: ModelInfo) -> Failure | None:
    """What an error of a model call means; None for an error that did not come from the model."""
    from pydantic_ai import exceptions  # noqa: PLC0415  # the library is loaded when a turn runs

    match error:
        case exceptions.ModelAPIError():
            return _explain_api(error, model)
        case exceptions.ContentFilterError():
            return Failure(error=refused_content(model), reason="content filter")
        case exceptions.AgentRunError() | exceptions.UserError():
            words = f"{model.name} could not be used for this ({_short(str(error))}). {_RETRY}"
            return Failure(error=TurnFailed(words), reason="unexpected answer")
    return _unreachable(error, model) if _is_transport(error) else None


def _explain_api(error: Any, model: ModelInfo) -> Failure:
    from pydantic_ai import exceptions  # noqa: PLC0415  # the library is loaded when a turn runs

    name, provider = model.name, model.provider
    said = _said(error)
    match error:
        case exceptions.ModelContextWindowExceededError():
            words = (
                f"The conversation is longer than {name} can read. "
                "`/compact` makes it shorter, `/new` starts a fresh one."
            )
            return Failure(error=ContextTooLong(words), reason="context too long")
        case exceptions.ModelAuthenticationError():
            return Failure(error=ModelRefused(_wrong_key(error, model, said)), reason="wrong key")
        case exceptions.ModelQuotaExceededError():
            words = (
                f"{provider} says that there is no money or quota left for this key{said}. "
                "Top it up there, or choose another model with `/model`."
            )
            return Failure(error=ModelRefused(words), reason="quota used up")
        case exceptions.ModelNotFoundError():
            guess = getattr(error, "suggested_model_id", None)
            near = f' Did you mean "{guess}"?' if guess else ""
            words = (
                f"{provider} does not know the model {name}{said}.{near} "
                "`clew model list` shows what is configured, `/model` changes it."
            )
            return Failure(error=ModelRefused(words), reason="unknown model")
        case exceptions.ModelRequestRejectedError():
            words = (
                f"{provider} did not accept the request{said}. "
                "If it goes on, `/new` starts afresh and `/model` changes the model."
            )
            return Failure(error=TurnFailed(words), reason="request rejected")
    return _explain_passing(error, model, said)


def _explain_passing(error: Any, model: ModelInfo, said: str) -> Failure:
    """Explain errors that may be gone in a moment."""
    from pydantic_ai import exceptions  # noqa: PLC0415  # the library is loaded when a turn runs

    provider = model.provider
    may_pass = getattr(error, "provider_retry_hint", None) is not False
    match error:
        case exceptions.ModelConnectionError() | exceptions.ModelRequestTimeout():
            return _unreachable(error, model)
        case exceptions.ModelRateLimitError():
            reason = f"{provider} asks to slow down"
            words = (
                f"{provider} gets too many requests from this key{said}. Wait a little: {_RETRY}"
            )
        case exceptions.ModelOverloadedError():
            reason = f"{provider} is overloaded"
            words = f"{provider} is overloaded at the moment{said}. {_RETRY}"
        case exceptions.ModelUnavailableError() | exceptions.ModelServerError():
            reason = f"{provider} has a problem"
            words = f"{provider} has a problem on its side{said}. {_RETRY}"
        case _:
            status = getattr(error, "status_code", 0)
            may_pass = may_pass and (status in {408, 409, 425, 429} or status >= 500)
            reason = f"{provider} answered with an error"
            words = f"{provider} answered with an error{said}. {_RETRY}"
    return Failure(
        error=ModelUnavailable(words),
        reason=reason,
        transient=may_pass,
        retry_after=error.retry_after,
    )


def cut_off(model: ModelInfo) -> Failure:
    """The failure for an answer whose end never came."""
    words = f"The connection to {model.provider} broke off in the middle of the answer. {_RETRY}"
    return Failure(error=ModelUnavailable(words), reason="the answer broke off", transient=True)


def refused_content(model: ModelInfo) -> TurnFailed:
    """The failure for an answer that the provider's filter stopped."""
    return TurnFailed(
        f"{model.provider} stopped this answer with its content filter. Put it in other words, "
        "or choose another model with `/model`."
    )


def empty_answer(model: ModelInfo, finish: str | None) -> TurnFailed:
    """The failure for an answer without any text."""
    if finish == "length":
        return TurnFailed(
            f"{model.name} used up its room for the answer before it said anything. "
            "Ask for less at once, or lower `/thinking`."
        )
    return TurnFailed(f"{model.name} gave an empty answer. {_RETRY}")


def _unreachable(error: Exception, model: ModelInfo) -> Failure:
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        words = f"{model.provider} took too long to answer. {_RETRY}"
        return Failure(error=ModelUnavailable(words), reason="no answer in time", transient=True)
    words = (
        f"{model.provider} can't be reached. Check the network (and the address, if it is your "
        f"own server). {_RETRY}"
    )
    return Failure(
        error=ModelUnavailable(words), reason=f"{model.provider} can't be reached", transient=True
    )


def _wrong_key(error: Any, model: ModelInfo, said: str) -> str:
    variable = KEY_VARIABLES.get(model.provider)
    where = f"`[providers.{model.provider}] api_key` in the configuration"
    place = f"{variable} or {where}" if variable else where
    if getattr(error, "status_code", None) == 403:
        return (
            f"{model.provider} does not let this key use {model.name}{said}. "
            f"Check what the key may do, or set another one: {place}."
        )
    return f"{model.provider} did not accept the key{said}. Set a valid one: {place}."


def _said(error: Any) -> str:
    """The provider's own sentence about the error, if its body has one."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else body
    sentence = inner.get("message") if isinstance(inner, dict) else inner
    return f' ("{_short(sentence)}")' if isinstance(sentence, str) and sentence.strip() else ""


def _short(text: str) -> str:
    # Some servers repeat the key that they did not accept.
    return cut(redact(strip_controls(text, keep_newlines=False).strip()), 200).rstrip(".")


def _is_transport(error: Exception) -> bool:
    """Whether it is a bare error of the network, or of an HTTP library that is loaded."""
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    for name in ("httpx", "httpx2"):
        module = sys.modules.get(name)
        if module is not None and isinstance(error, module.TransportError | module.StreamError):
            return True
    return False
