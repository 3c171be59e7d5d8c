"""Random operations on a session service of ADK, compared with its service in memory."""

from __future__ import annotations

import random
from typing import Any

from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

PLACES = [("app", "u"), ("app", "ü"), ("a/p", "u")]


class Comparison:
    """The same steps in both services, with the same results."""

    def __init__(self, mine: BaseSessionService, seed: int) -> None:
        self.services = (mine, InMemorySessionService())
        self.chance = random.Random(seed)
        self.number = 0
        self.last: dict[str, Any] | None = None

    async def run(self, steps: int) -> None:
        """Take the steps."""
        whats = ("create", "append", "get", "list", "delete", "user", "repeat")
        for step in range(steps):
            what = self.chance.choices(whats, (3, 8, 4, 1, 1.5, 1, 1))[0]
            (app, user), name = self.chance.choice(PLACES), self.chance.choice(("1", " 1 ", "2"))
            results = await getattr(self, f"_{what}")(app, user, name)
            assert results[0] == results[1], (step, what, app, user, name)

    async def _create(self, app: str, user: str, name: str) -> list[Any]:
        state = self._delta()
        return [
            await _tried(
                each.create_session(app_name=app, user_id=user, session_id=name, state=dict(state))
            )
            for each in self.services
        ]

    async def _append(self, app: str, user: str, name: str) -> list[Any]:
        self.number += 1
        if self.last is None or self.chance.random() > 0.1:
            self.last = self._event(self.number)
        else:
            # Given again, it has no such state any more; the service in memory adds one that has.
            self.last["actions"]["state_delta"].pop("temp:t", None)
        results = []
        for each in self.services:
            found = await each.get_session(app_name=app, user_id=user, session_id=name)
            session = found or Session(app_name=app, user_id=user, id=name)
            event = Event.model_validate(self.last)
            results.append((await _tried(each.append_event(session, event)), _plain(session)))
        return results

    async def _repeat(self, app: str, user: str, name: str) -> list[Any]:
        """The same event twice, and another with its id."""
        given = self._event(self.number)
        given["actions"]["state_delta"].pop("temp:t", None)
        results = []
        for each in self.services:
            found = await each.get_session(app_name=app, user_id=user, session_id=name)
            if found is not None:
                await each.append_event(found, Event.model_validate(given))
                await each.append_event(found, Event.model_validate(given))
                await each.append_event(found, Event.model_validate({**given, "author": "other"}))
            results.append(
                _plain(await each.get_session(app_name=app, user_id=user, session_id=name))
            )
        return results

    async def _get(self, app: str, user: str, name: str) -> list[Any]:
        config = GetSessionConfig(
            num_recent_events=self.chance.choice((None, 0, 1, 3, 100)),
            after_timestamp=self.chance.choice((None, None, self.number - 3.0)),
        )
        return [
            _plain(
                await each.get_session(app_name=app, user_id=user, session_id=name, config=config)
            )
            for each in self.services
        ]

    async def _list(self, app: str, user: str, _: str) -> list[Any]:
        whose = self.chance.choice((None, user))
        results = []
        for each in self.services:
            found = (await each.list_sessions(app_name=app, user_id=whose)).sessions
            results.append(sorted(str(_plain(session)) for session in found))
        return results

    async def _delete(self, app: str, user: str, name: str) -> list[Any]:
        return [
            await _tried(each.delete_session(app_name=app, user_id=user, session_id=name))
            for each in self.services
        ]

    async def _user(self, app: str, user: str, _: str) -> list[Any]:
        return [await each.get_user_state(app_name=app, user_id=user) for each in self.services]

    def _delta(self) -> dict[str, Any]:
        names = ("app:a", "user:u", "temp:t", "own", "list")
        chosen = self.chance.sample(names, self.chance.randrange(4))
        return {name: [self.number, {"ö\0": None}] for name in chosen}

    def _event(self, number: int) -> dict[str, Any]:
        parts: list[Any] = [
            types.Part(text=f"said {number} \0 天気"),
            types.Part(function_call=types.FunctionCall(id="c", name="f", args={"n": number})),
            types.Part(function_response=types.FunctionResponse(id="c", name="f", response={})),
            types.Part(inline_data=types.Blob(data=b"\x00\xff", mime_type="image/png")),
        ]
        return {
            "id": f"e{number}",
            "author": self.chance.choice(("user", "agent")),
            "invocation_id": "i",
            "timestamp": float(number),
            "partial": self.chance.choice((None, None, None, True)),
            "content": types.Content(role="model", parts=self.chance.sample(parts, 2)),
            "actions": EventActions(state_delta=self._delta()).model_dump(),
        }


async def _tried(call: Any) -> Any:
    try:
        return _plain(await call)
    except Exception as error:  # noqa: BLE001  # the kinds of errors are compared
        return type(error)


def _plain(result: Any) -> Any:
    """A session without the time at which each service has made it."""
    if isinstance(result, Session):
        time = result.last_update_time
        return (
            result.app_name, result.user_id, result.id, result.state,
            time if time < 1e9 else "made", [each.model_dump() for each in result.events],
        )  # fmt: skip
    return result.model_dump() if isinstance(result, Event) else result
