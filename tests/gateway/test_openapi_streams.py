from typing import Any

from clew.api.chat import SEND
from clew.gateway.app import DOCUMENT
from clew.gateway.auth import Setup
from clew.gateway.endpoints import Endpoint
from clew.gateway.event_streams import EVENTS
from clew.gateway.live import LIVE
from clew.gateway.openapi import make_document


async def nothing(*_: Any) -> Any:
    raise NotImplementedError


def document() -> dict[str, Any]:
    rows = [
        Endpoint(operation=each, respond=nothing, is_socket=each is LIVE)
        for each in (SEND, EVENTS, LIVE, DOCUMENT)
    ]
    return make_document(rows, Setup())


def test_a_streamed_chat_is_200_and_one_that_is_kept_is_202() -> None:
    answers = document()["paths"]["/v1/chat"]["post"]["responses"]
    assert list(answers["202"]["content"]) == ["application/json"]
    assert list(answers["200"]["content"]) == ["text/event-stream"]


def test_events_of_a_session_are_a_stream_and_never_json() -> None:
    answers = document()["paths"]["/v1/sessions/{id}/events"]["get"]["responses"]
    assert list(answers["200"]["content"]) == ["text/event-stream"]


def test_frames_of_streams_and_sockets_are_in_the_schema() -> None:
    made = document()
    components = made["components"]["schemas"]
    frames = {"AcceptedFrame", "EventFrame", "GapFrame", "ErrorFrame", "DoneFrame"}
    assert frames | {"StateFrame", "HintFrame", "Subscribe", "Unsubscribe"} <= set(components)
    stream = made["paths"]["/v1/chat"]["post"]["responses"]["200"]["content"]["text/event-stream"]
    named = {each["$ref"].rpartition("/")[2] for each in stream["x-frames"]["anyOf"]}
    assert named == frames
    socket = made["paths"]["/v1/live"]["get"]["responses"]["101"]
    assert socket["x-frames"]["anyOf"]
    assert socket["x-client-frames"]["anyOf"]
