"""Runs `clew` and notes which of its functions are entered, in order.

    python scripts/tracer.py DESCRIPTOR ARGUMENT...

The arguments are those of `clew`. Over the socket with that descriptor, `scripts/walk.py` says when
to note: it sends a word, and gets a line of JSON back.

    settle   answered when no function of clew has been entered for a moment
    begin    note from now on
    divide   what is entered from now on comes after the beginning of the agent's loop
    end      stop; answered with the notes: module, function, and whether it was before the loop

When the agent's loop is entered first, `"loop"` is sent and the thread waits for `divide`: so what
belongs before the loop has time to happen, in other threads and in other processes.

Nothing that goes by the clock alone is noted: from the first `settle` to `end`, timers of a tenth
of a second and more wait (heartbeats, looks for changes of other processes).
"""

from __future__ import annotations

import asyncio
import json
import runpy
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextvars import Context
from types import CodeType, FrameType
from typing import Any

PACKAGE = "clew"
LOOP = "clew.agent.loop"
"""Where the agent's loop is: the model is asked, tools are run."""

PEER = "clew.testing"
"""What stands for the provider's model is no part of clew's way."""

QUIET = 0.4
"""Seconds without a call after which a process has settled."""

LONG = 0.1
"""Seconds from which on a timer waits."""

_IS_FUNCTION = 0x1
"""CO_OPTIMIZED: a function's code has it, the body of a module or of a class has not."""

Entry = tuple[str, str, bool]


class Tracer:
    """What `sys.setprofile` tells, boiled down to first entries."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._notes: dict[tuple[str, str], bool] = {}
        self._importing = threading.local()
        self._last = time.monotonic()
        self._divided = threading.Event()
        self._is_noting = False
        self.holds_timers = False

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        """A function was entered, or left; what a module does when it is imported is skipped."""
        if event not in {"call", "return"}:
            return
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        if code.co_name == "<module>" and module != "__main__":
            depth = getattr(self._importing, "depth", 0)
            self._importing.depth = depth + (1 if event == "call" else -1)
        elif getattr(self._importing, "depth", 0):
            self._last = time.monotonic()
        elif event == "call" and (module == PACKAGE or module.startswith(f"{PACKAGE}.")):
            self._enter(module, code)

    def _enter(self, module: str, code: CodeType) -> None:
        self._last = time.monotonic()
        if not self._is_noting or module.startswith(PEER):
            return
        if not code.co_flags & _IS_FUNCTION or code.co_name.startswith("<"):
            return  # classes, comprehensions and lambdas are parts of what surrounds them
        if module == LOOP and not self._divided.is_set():
            self._say("loop")
            self._divided.wait()
        self._notes.setdefault((module, code.co_qualname), not self._divided.is_set())

    def obey(self) -> None:
        """Do what is said over the socket, until it is closed."""
        with self._control.makefile("r", encoding="ascii") as words:
            for word in words:
                self._say(self._follow(word.strip()))

    def _follow(self, word: str) -> Any:
        if word == "settle":
            self.holds_timers = True
            while (left := self._last + QUIET - time.monotonic()) > 0:
                time.sleep(left)
        elif word == "begin":
            self._notes.clear()
            self._divided.clear()
            self._is_noting = True
        elif word == "divide":
            self._divided.set()
        elif word == "end":
            self._is_noting = self.holds_timers = False
            return [[*name, before] for name, before in self._notes.items()]
        return word

    def _say(self, message: Any) -> None:
        self._control.sendall(json.dumps(message).encode() + b"\n")


def hold_timers(is_held: Callable[[], bool]) -> None:
    """Let the long timers of event loops wait as long as `is_held`."""
    call_at = asyncio.BaseEventLoop.call_at

    def call_later(
        loop: asyncio.BaseEventLoop,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        if when - loop.time() < LONG:
            return call_at(loop, when, callback, *args, context=context)

        def ring() -> None:
            if timer.cancelled():
                return
            if is_held():
                call_at(loop, loop.time() + LONG / 2, ring, context=context)
            else:
                callback(*args)

        timer = call_at(loop, when, ring, context=context)
        return timer

    asyncio.BaseEventLoop.call_at = call_later  # type: ignore[assignment, method-assign]


def main(descriptor: str, *arguments: str) -> None:
    """Run `clew` with these arguments, traced."""
    tracer = Tracer(socket.socket(fileno=int(descriptor)))
    threading.Thread(target=tracer.obey, daemon=True, name="tracer").start()
    hold_timers(lambda: tracer.holds_timers)
    threading.setprofile(tracer.profile)
    sys.setprofile(tracer.profile)
    sys.argv[:] = [PACKAGE, *arguments]
    runpy.run_module(PACKAGE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
