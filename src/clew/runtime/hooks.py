"""Hooks: programs of the owner that are told about an event, or asked whether it may happen.

A hook is an entry point (group `clew.hooks`, named like the event, a function of one dict, sync or
async) or an executable, which gets the same dict as JSON on stdin. The caller decides when an event
happens and what an answer means; this module knows no sessions, screen or configuration.

Only a hook that is asked can stop anything. If it can't answer (it is missing, crashes or takes too
long), that counts as a no, because a broken guard must not let everything pass; the reason says
what is wrong with it and how to remove it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

import msgspec

from clew.core.text import strip_controls
from clew.errors import HookFailed, InvalidInput
from clew.ports import Clock

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

HookEvent = Literal[
    "session_before_switch", "session_switch", "session_end", "turn_start", "turn_end"
]
HOOK_EVENTS: Final[tuple[HookEvent, ...]] = (
    "session_before_switch",
    "session_switch",
    "session_end",
    "turn_start",
    "turn_end",
)
CANCELLABLE: Final[frozenset[HookEvent]] = frozenset({"session_before_switch"})
GROUP: Final = "clew.hooks"
TIME_LIMIT_S: Final = 10.0
_WORDS: Final = 500
_FIELDS: Final = ("event", "session_id", "previous_id", "reason", "cwd", "at")

OUTPUT_BYTES: Final = 64 * 1024
"""Bytes that are kept of each output stream of a program; the rest is discarded."""
_GRACE_S: Final = 0.5


class Verdict(msgspec.Struct, frozen=True):
    """The hooks' answer to a question. `reason` is for the person."""

    cancelled: bool
    reason: str | None = None


class Hook(NamedTuple):
    """One hook: its name, how it is run, and how to remove it.

    `run` returns the reason for a no, None for a yes, and raises `HookFailed` if it can't answer.
    """

    name: str
    run: Callable[[dict[str, Any]], Any]
    advice: str


class Hooks:
    """All hooks of a configuration. Without any, asking and telling cost nothing."""

    def __init__(
        self,
        programs: Mapping[str, Sequence[str]],
        *,
        clock: Clock,
        time_limit_s: float = TIME_LIMIT_S,
    ) -> None:
        """`programs`: for each event, command lines; they are run without a shell."""
        unknown = sorted(set(programs) - set(HOOK_EVENTS))
        if unknown:
            raise InvalidInput(f'No event "{unknown[0]}". Hooks are for {", ".join(HOOK_EVENTS)}.')
        self._programs = programs
        self._clock = clock
        self._time_limit_s = time_limit_s
        self._installed: asyncio.Task[tuple[EntryPoint, ...]] | None = None

    async def ask(self, event: HookEvent, payload: Mapping[str, Any]) -> Verdict:
        """Ask one hook after the other; stops at the first that says no."""
        if event not in CANCELLABLE:
            raise ValueError(f"{event} can't be cancelled")
        given = self._complete(event, payload)
        try:
            hooks = await self._hooks(event)
        except HookFailed as error:
            return Verdict(True, f"{error} Nothing was changed.")
        for hook in hooks:
            try:
                reason = await self._run(hook, given)
            except HookFailed as error:
                return Verdict(True, f"{error} {hook.advice}")
            if reason is not None:
                return Verdict(True, reason)
        return Verdict(False)

    async def tell(self, event: HookEvent, payload: Mapping[str, Any]) -> tuple[str, ...]:
        """Tell all hooks at once and wait for them; returns what went wrong, for the person."""
        given = self._complete(event, payload)
        try:
            hooks = await self._hooks(event)
        except HookFailed as error:
            return (str(error),)
        ends = await asyncio.gather(*(self._tell_one(hook, given) for hook in hooks))
        return tuple(end for end in ends if end is not None)

    async def _tell_one(self, hook: Hook, payload: dict[str, Any]) -> str | None:
        try:
            reason = await self._run(hook, payload)
        except HookFailed as error:
            return str(error)
        # It was not asked, but a program reports its failure by the exit code.
        return None if reason is None else f"{hook.name} ({payload['event']}): {reason}"

    async def _run(self, hook: Hook, payload: dict[str, Any]) -> str | None:
        """The reason for a no, or None. Every failure of a hook becomes `HookFailed`."""
        limit = asyncio.timeout(self._time_limit_s)
        try:
            async with limit:
                return cast("str | None", await hook.run(dict(payload)))
        except Exception as error:  # noqa: BLE001  # the border to other people's code
            if limit.expired():
                what = f"did not end within {self._time_limit_s:g} s and was stopped"
            elif isinstance(error, HookFailed):
                what = str(error)
            else:
                what = f"failed: {type(error).__name__}: {error}"
        raise HookFailed(_clean(f"The hook {hook.name} ({payload['event']}) {what}") + ".")

    def _complete(self, event: HookEvent, payload: Mapping[str, Any]) -> dict[str, Any]:
        at = self._clock()
        return dict.fromkeys(_FIELDS) | dict(payload) | {"event": event, "at": at}

    async def _hooks(self, event: HookEvent) -> tuple[Hook, ...]:
        if self._installed is None:
            # In a thread and only once: it looks at every installed package.
            self._installed = asyncio.create_task(asyncio.to_thread(_find_installed))
        installed = await asyncio.shield(self._installed)
        return (
            *(_installed_hook(entry) for entry in installed if entry.name == event),
            *(_program_hook(line) for line in self._programs.get(event, ())),
        )


def _clean(text: str) -> str:
    """The output of another program, as one line that is safe to print."""
    words = " ".join(strip_controls(text, keep_newlines=False).split())
    return words if len(words) <= _WORDS else words[: _WORDS - 1] + "…"


def _refusal(answer: object, name: str) -> str | None:
    """The reason that an answer gives for a no; None if the answer is not a no."""
    if answer is False:
        return f"The hook {name} said no."
    if isinstance(answer, Mapping) and answer.get("cancel") is True:
        return _clean(str(answer.get("reason") or "")) or f"The hook {name} said no."
    return None


# --- entry points -----------------------------------------------------------------------------
def _find_installed() -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # noqa: PLC0415  # many never have a hook run

    try:
        return tuple(sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)))
    except Exception as error:  # any package may declare anything about itself
        raise HookFailed(f"The hooks of installed packages can't be listed: {error}.") from error


def _installed_hook(entry: EntryPoint) -> Hook:
    package = entry.dist.name if entry.dist else "its package"
    advice = f"Fix it, or uninstall {package}. Nothing was changed."
    return Hook(entry.value, partial(_call, entry), advice)


async def _call(entry: EntryPoint, payload: dict[str, Any]) -> str | None:
    function = await _in_thread(entry.load)
    if inspect.iscoroutinefunction(function):
        return _refusal(await function(payload), entry.value)
    answer = await _in_thread(partial(function, payload))
    return _refusal(await answer if inspect.isawaitable(answer) else answer, entry.value)


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Run a call that may block, in a thread that does not keep the program from ending.

    A thread can't be stopped: after a timeout it runs on, and its answer is ignored.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if not done.done():
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

    def run() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = work()
        except StopIteration as odd:  # a future can't hold this exception
            error = HookFailed(f"failed: {odd!r}")
        except SystemExit as odd:
            error = HookFailed(f"wanted to end the program: {odd!r}")
        except BaseException as odd:  # noqa: BLE001  # passed on to the caller
            error = odd
        with contextlib.suppress(RuntimeError):  # the loop has ended in the meantime
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="clew-hook", daemon=True).start()
    return await done


# --- executables ------------------------------------------------------------------------------
def _program_hook(line: str) -> Hook:
    advice = "Fix it, or take it out of [hooks] (`clew config edit`). Nothing was changed."
    return Hook(line, partial(_execute, line), advice)


async def _execute(line: str, payload: dict[str, Any]) -> str | None:
    """The reason for a no: from its answer, else from its last output, else from its exit code."""
    cwd = payload.get("cwd")
    given = msgspec.json.encode(payload, enc_hook=str)
    code, said, complained = await execute(line, given, cwd=cwd if isinstance(cwd, str) else None)
    try:
        answer = msgspec.json.decode(said)
    except (msgspec.DecodeError, UnicodeError):
        answer = None
    refusal = _refusal(answer, line)
    if refusal is not None or code == 0:
        return refusal
    reason = answer.get("reason") if isinstance(answer, dict) else None
    lines = (complained.strip() or said.strip()).splitlines()
    return _clean(str(reason or (lines[-1] if lines else ""))) or (
        f"The hook {line} ended with code {code}."
    )


class Ended(NamedTuple):
    """How a program ended, and the beginning of what it printed to stdout and stderr."""

    code: int | None
    said: str
    complained: str


async def execute(line: str, given: bytes, *, cwd: str | None) -> Ended:
    """Run a command line to its end. If cancelled, kill it with all processes it started.

    `HookFailed` if it can't be started. A `cwd` that does not exist is ignored.
    """
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            _Program,
            *_arguments(line),
            cwd=cwd if cwd and Path(cwd).is_dir() else None,  # noqa: ASYNC240  # one look
            start_new_session=True,
        )
    )
    try:
        # If the start were cancelled half-way, the program's own children would stay behind.
        transport, program = await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError, ValueError):
            await _end(*await starting)
        raise
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise HookFailed(f"can't be started: {why}") from error
    try:
        program.say(given)
        await program.exited.wait()
        with contextlib.suppress(TimeoutError):
            # A process that it left in the background may keep the pipes open forever.
            async with asyncio.timeout(_GRACE_S):
                await program.silent.wait()
        return program.ended()
    finally:
        await _end(transport, program)


async def _end(transport: asyncio.SubprocessTransport, program: _Program) -> None:
    """Kill the program with all processes it started, if it still runs, and close its pipes."""
    if not program.exited.is_set():
        _kill(transport)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await program.exited.wait()
    transport.close()


def _arguments(line: str) -> list[str]:
    """Split a command line into words; the path of an existing file is one word."""
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        whole = Path(line).expanduser()
        if whole.is_file():
            return [str(whole)]
    try:
        words = shlex.split(line)
        return [str(Path(words[0]).expanduser()) if "~" in words[0] else words[0], *words[1:]]
    except (ValueError, IndexError, RuntimeError) as error:
        raise HookFailed(f"is no command line: {error}") from error


def _kill(transport: asyncio.SubprocessTransport) -> None:
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":  # pragma: no cover  # written for, not tested here
            transport.kill()
        else:
            os.killpg(transport.get_pid(), signal.SIGKILL)


class _Program(asyncio.SubprocessProtocol):
    """A running program: waits for its end and keeps the beginning of its output."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self.silent = asyncio.Event()
        self._printed = {1: bytearray(), 2: bytearray()}
        self._open = {1, 2}
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        room = OUTPUT_BYTES - len(self._printed[fd])
        self._printed[fd] += data[:room]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        self._open.discard(fd)
        if not self._open:
            self.silent.set()

    def process_exited(self) -> None:
        self.exited.set()

    def say(self, data: bytes) -> None:
        """Write all of its stdin; the program need not read it."""
        assert self._transport is not None  # noqa: S101  # asyncio makes the connection first
        stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        stdin.write(data + b"\n")
        stdin.close()

    def ended(self) -> Ended:
        """The exit code and output so far."""
        assert self._transport is not None  # noqa: S101  # asyncio makes the connection first
        printed = (bytes(each).decode("utf-8", "replace") for each in self._printed.values())
        return Ended(self._transport.get_returncode(), *printed)
