from __future__ import annotations

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import exceptions

from clew.agent.answers import ATTEMPTS, LONGEST_WAIT, Failure, explain, get_wait
from clew.core.models import ModelInfo
from clew.errors import ContextTooLong, ModelRefused, ModelUnavailable, TurnFailed

MODEL = ModelInfo(name="anthropic/claude", provider="anthropic")
OWN = ModelInfo(name="shed/llama", provider="shed")


def kinds(base: type[Exception]) -> list[type[Exception]]:
    found = [base]
    for kind in base.__subclasses__():
        found += kinds(kind)
    return [kind for kind in dict.fromkeys(found) if kind.__name__ in exceptions.__all__]


def make(kind: type[Exception]) -> Exception:
    if issubclass(kind, exceptions.ModelHTTPError):
        return kind(500, "m", {"error": {"message": "no"}})
    if issubclass(kind, exceptions.ModelRequestTimeout):
        return kind("m", 3.0)
    if issubclass(kind, exceptions.ModelAPIError):
        return kind("m", "no")
    return kind("no")


@pytest.mark.parametrize(
    "kind", kinds(exceptions.AgentRunError) + kinds(exceptions.UserError), ids=lambda k: k.__name__
)
def test_every_error_of_the_library_has_words(kind: type[Exception]) -> None:
    failure = explain(make(kind), MODEL)
    assert failure is not None
    assert isinstance(failure.error, TurnFailed)
    assert str(failure.error).endswith(".")
    assert failure.reason


@pytest.mark.parametrize(
    "error",
    [
        httpx2.ConnectError("x"),
        httpx2.ReadTimeout(""),
        httpx2.RemoteProtocolError("x"),
        TimeoutError(),
        ConnectionResetError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_bare_errors_of_the_network_may_pass(error: Exception) -> None:
    failure = explain(error, MODEL)
    assert failure is not None
    assert failure.transient
    assert isinstance(failure.error, ModelUnavailable)


@pytest.mark.parametrize("error", [ValueError("x"), AssertionError("x"), OSError("disk full")])
def test_errors_that_are_ours_are_left_alone(error: Exception) -> None:
    assert explain(error, MODEL) is None


def http(status: int, kind: type, body: object = None) -> Failure:
    error = exceptions.ModelHTTPError.for_category(
        kind, status_code=status, model_name="m", body=body
    )
    failure = explain(error, MODEL)
    assert failure is not None
    return failure


def test_a_wrong_key_names_the_variable_and_the_setting() -> None:
    failure = http(401, exceptions.ModelAuthenticationError)
    assert isinstance(failure.error, ModelRefused)
    assert "ANTHROPIC_API_KEY" in str(failure.error)
    assert "[providers.anthropic] api_key" in str(failure.error)
    other = explain(
        exceptions.ModelHTTPError.for_category(
            exceptions.ModelAuthenticationError, status_code=401, model_name="m"
        ),
        OWN,
    )
    assert other is not None
    assert str(other.error).endswith("`[providers.shed] api_key` in the configuration.")


def test_the_providers_own_sentence_is_quoted_without_what_could_drive_a_terminal() -> None:
    body = {"error": {"message": "\x1b[31mBad\x1b[0m\nthing. " + "x" * 500}}
    words = str(http(400, exceptions.ModelRequestRejectedError, body).error)
    assert '("Bad thing. xxx' in words
    assert len(words) < 400


def test_a_context_that_is_too_long_is_its_own_kind() -> None:
    failure = http(400, exceptions.ModelContextWindowExceededError)
    assert isinstance(failure.error, ContextTooLong)
    assert not failure.transient


def test_a_provider_that_says_not_to_retry_is_believed() -> None:
    error = exceptions.ModelHTTPError.for_category(
        exceptions.ModelServerError,
        status_code=500,
        model_name="m",
        headers={"x-should-retry": "false"},
    )
    failure = explain(error, MODEL)
    assert failure is not None
    assert not failure.transient


@given(
    st.integers(1, 10),
    st.none() | st.floats(0, 1000),
    st.floats(0, 1, exclude_max=True),
    st.booleans(),
)
def test_a_wait_is_what_was_asked_for_and_never_endless(
    number: int, asked: float | None, chance: float, transient: bool
) -> None:
    failure = Failure(error=TurnFailed("x"), reason="x", transient=transient, retry_after=asked)
    wait = get_wait(number, failure, lambda: chance)
    if not transient or number >= ATTEMPTS or (asked or 0) > LONGEST_WAIT:
        assert wait is None
    else:
        assert wait is not None
        assert max(2 ** (number - 1), asked or 0) <= wait <= LONGEST_WAIT
