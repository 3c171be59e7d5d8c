"""Hooks that are real programs and really installed packages."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.errors import InvalidInput
from clew.runtime.hooks import HOOK_EVENTS, HookEvent, Hooks, Verdict
from clew.testing.clock import FakeClock
from tests.patience import PATIENCE

BEFORE: HookEvent = "session_before_switch"
PASSED = Verdict(cancelled=False)


def program(directory: Path, name: str, body: str) -> str:
    """A command line that runs a Python program; `got` is what it was given."""
    path = directory / f"{name}.py"
    head = "import json, os, pathlib, subprocess, sys, time\ngot = json.load(sys.stdin)\n"
    path.write_text(head + textwrap.dedent(body), encoding="utf-8")
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"


def hooks(time_limit_s: float = PATIENCE, **programs: str | list[str]) -> Hooks:
    listed = {event: [each] if isinstance(each, str) else each for event, each in programs.items()}
    return Hooks(listed, clock=FakeClock(), time_limit_s=time_limit_s)


async def ask(line: str | list[str], time_limit_s: float = PATIENCE, **payload: Any) -> Verdict:
    return await hooks(time_limit_s, session_before_switch=line).ask(BEFORE, payload)


# --- executables ------------------------------------------------------------------------------


async def test_without_hooks_nothing_is_refused_and_nobody_is_told() -> None:
    none = hooks()
    assert await none.ask(BEFORE, {}) == PASSED
    assert await none.tell("turn_end", {}) == ()


async def test_an_executable_gets_all_fields_as_json_on_stdin(tmp_path: Path) -> None:
    line = program(tmp_path, "note", "json.dump(got, pathlib.Path('got.json').open('w'))")
    payload = {"session_id": "s1", "previous_id": None, "reason": "new", "cwd": str(tmp_path)}
    assert await hooks(session_switch=line).tell("session_switch", payload | {"more": 1}) == ()
    got = json.loads((tmp_path / "got.json").read_text("utf-8"))
    assert got == payload | {"event": "session_switch", "at": FakeClock().now, "more": 1}


async def test_fields_that_nobody_gave_are_null(tmp_path: Path) -> None:
    line = program(tmp_path, "note", f"json.dump(got, open({str(tmp_path / 'got')!r}, 'w'))")
    await hooks(turn_start=line).tell("turn_start", {})
    got = json.loads((tmp_path / "got").read_text("utf-8"))
    assert got == {
        "event": "turn_start",
        "session_id": None,
        "previous_id": None,
        "reason": None,
        "cwd": None,
        "at": FakeClock().now,
    }


async def test_a_directory_that_is_gone_does_not_stop_a_hook(tmp_path: Path) -> None:
    assert await ask(program(tmp_path, "yes", ""), cwd=str(tmp_path / "gone")) == PASSED


async def test_an_exit_code_cancels_with_the_last_words_as_reason(tmp_path: Path) -> None:
    line = program(tmp_path, "no", "print('a\\nb'); sys.exit('first\\nthere are open changes')")
    assert await ask(line) == Verdict(True, "there are open changes")


async def test_an_exit_code_without_words_says_the_code(tmp_path: Path) -> None:
    verdict = await ask(program(tmp_path, "no", "sys.exit(7)"))
    assert verdict.cancelled
    assert "ended with code 7" in (verdict.reason or "")


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ('{"cancel": true, "reason": "not now"}', "not now"),
        ('{"cancel": true}', "said no"),
        ("false", "said no"),
        ('{"cancel": true, "reason": "\\u001b[31mred\\u001b[0m\\nline"}', "red line"),
    ],
)
async def test_an_answer_on_stdout_cancels(tmp_path: Path, printed: str, reason: str) -> None:
    verdict = await ask(program(tmp_path, "no", f"print({printed!r})"))
    assert verdict.cancelled
    assert reason in (verdict.reason or "")
    assert "\x1b" not in (verdict.reason or "")


@pytest.mark.parametrize("printed", ["", "true", "fine", '{"cancel": false}', "[", "null", "0"])
async def test_other_output_lets_it_pass(tmp_path: Path, printed: str) -> None:
    assert await ask(program(tmp_path, "yes", f"print({printed!r})")) == PASSED


async def test_the_first_no_ends_the_asking(tmp_path: Path) -> None:
    yes = program(tmp_path, "yes", f"open({str(tmp_path / 'one')!r}, 'w')")
    no = program(tmp_path, "no", "sys.exit('no')")
    never = program(tmp_path, "never", f"open({str(tmp_path / 'two')!r}, 'w')")
    assert await ask([yes, no, never]) == Verdict(True, "no")
    assert (tmp_path / "one").exists()
    assert not (tmp_path / "two").exists()


async def test_a_path_with_blanks_needs_no_quotes(tmp_path: Path) -> None:
    path = tmp_path / "my hook"
    path.write_text(f"#!{sys.executable}\nraise SystemExit('told')\n", encoding="utf-8")
    path.chmod(0o700)
    assert await ask(str(path)) == Verdict(True, "told")


@pytest.mark.parametrize("line", ["", "/nowhere/at/all", '"open', "~nobody-of-that-name/x", "x\0y"])
async def test_a_question_to_a_program_that_can_not_start_is_a_no_with_a_way_out(line: str) -> None:
    verdict = await ask(line)
    assert verdict.cancelled
    assert "clew config edit" in (verdict.reason or "")


async def test_a_file_that_is_no_program_is_a_no_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "hook").write_text("hello", encoding="utf-8")
    verdict = await ask(str(tmp_path / "hook"))
    assert verdict.cancelled
    assert "can't be started: Permission denied" in (verdict.reason or "")


def is_running(pid: int) -> bool:
    """Whether the process is there, and not just waiting to be buried."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text("utf-8")
    except OSError:
        return False


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110  # another process can set no event of ours
            await asyncio.sleep(0.01)


def hanging(directory: Path) -> str:
    """A program that hangs, with a child, and leaves both pids in the file `pids`."""
    path = directory / "hang"
    script = '#!/bin/sh\nsleep 600 &\necho "$$ $!" > draft && mv draft pids\nsleep 600\n'
    path.write_text(script, encoding="utf-8")
    path.chmod(0o700)
    return str(path)


def have_ended(pids: Path) -> bool:
    return not any(is_running(int(pid)) for pid in pids.read_text("utf-8").split())


async def test_a_program_that_hangs_is_killed_with_what_it_started(tmp_path: Path) -> None:
    verdict = await ask(hanging(tmp_path), time_limit_s=1.0, cwd=str(tmp_path))
    assert verdict.cancelled
    assert "did not end within 1 s" in (verdict.reason or "")
    await until(lambda: have_ended(tmp_path / "pids"))


async def test_a_cancelled_question_leaves_no_program_behind(tmp_path: Path) -> None:
    asking = asyncio.create_task(ask(hanging(tmp_path), cwd=str(tmp_path)))
    await until((tmp_path / "pids").exists)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await until(lambda: have_ended(tmp_path / "pids"))


async def test_a_question_that_is_cancelled_while_it_starts_leaves_nothing_either(
    tmp_path: Path,
) -> None:
    line = hanging(tmp_path)
    for steps in range(12):
        asking = asyncio.create_task(ask(line, cwd=str(tmp_path)))
        for _ in range(steps):
            await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        if (tmp_path / "pids").exists():
            await until(lambda: have_ended(tmp_path / "pids"))


async def test_what_a_hook_leaves_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    line = program(
        tmp_path,
        "daemon",
        """
        child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
        pathlib.Path(got['cwd'], 'pid').write_text(str(child.pid))
        """,
    )
    assert await hooks(turn_end=line).tell("turn_end", {"cwd": str(tmp_path)}) == ()
    pid = int((tmp_path / "pid").read_text("utf-8"))
    assert is_running(pid)
    os.kill(pid, 9)


async def test_a_program_that_prints_without_end_fills_no_memory(tmp_path: Path) -> None:
    line = program(
        tmp_path, "loud", "[sys.stdout.write('x' * 1_000_000) for _ in range(20)]; sys.exit(1)"
    )
    verdict = await ask(line)
    assert verdict.cancelled
    assert len(verdict.reason or "") <= 500


async def test_a_program_that_does_not_read_is_fine(tmp_path: Path) -> None:
    assert await ask(f"{shlex.quote(sys.executable)} -c pass", more="x" * 5_000_000) == PASSED


async def test_who_is_told_and_fails_is_a_notice_and_the_others_are_told_too(
    tmp_path: Path,
) -> None:
    bad = program(tmp_path, "bad", "raise RuntimeError('\\x1b[2Jbroken')")
    good = program(tmp_path, "good", f"open({str(tmp_path / 'told')!r}, 'w')")
    told = hooks(session_end=[bad, "/nowhere/at/all", good])
    crashed, missing = await told.tell("session_end", {"session_id": "s1"})
    assert "RuntimeError: broken" in crashed
    assert "bad.py (session_end)" in crashed
    assert "/nowhere/at/all (session_end) can't be started: No such file" in missing
    assert (tmp_path / "told").exists()


async def test_hooks_for_no_event_are_refused() -> None:
    with pytest.raises(InvalidInput, match="session_before_switch, session_switch"):
        hooks(session_swich="x")


@pytest.mark.parametrize("event", [event for event in HOOK_EVENTS if event != BEFORE])
async def test_only_the_before_hook_can_be_asked(event: Any) -> None:
    with pytest.raises(ValueError, match="can't be cancelled"):
        await hooks().ask(event, {})


# --- entry points -----------------------------------------------------------------------------


class Package:
    """A package that is installed for the length of a test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.module = f"hooks_of_{path.name}"

    def install(self, event: str, body: str, *, function: str = "hook") -> None:
        (self.path / f"{self.module}.py").write_text(textwrap.dedent(body), encoding="utf-8")
        info = self.path / "owners_hooks-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: owners-hooks\nVersion: 1.0\n", encoding="utf-8"
        )
        (info / "entry_points.txt").write_text(
            f"[clew.hooks]\n{event} = {self.module}:{function}\n", encoding="utf-8"
        )


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Package]:
    path = tmp_path / f"site{os.urandom(4).hex()}"
    path.mkdir()
    sys.path.insert(0, str(path))
    installed = Package(path)
    yield installed
    sys.path.remove(str(path))
    sys.modules.pop(installed.module, None)


async def test_an_installed_function_is_told(package: Package) -> None:
    package.install("turn_end", "told = []\ndef hook(payload):\n    told.append(payload)\n")
    assert await hooks().tell("turn_end", {"session_id": "s1"}) == ()
    (payload,) = sys.modules[package.module].told
    assert (payload["event"], payload["session_id"], payload["cwd"]) == ("turn_end", "s1", None)


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_an_installed_function_cancels(package: Package, kind: str) -> None:
    package.install(
        BEFORE, f"{kind} hook(payload):\n    return {{'cancel': True, 'reason': payload['reason']}}"
    )
    assert await hooks().ask(BEFORE, {"reason": "new"}) == Verdict(True, "new")


async def test_a_function_that_returns_false_cancels(package: Package) -> None:
    package.install(BEFORE, "def hook(payload):\n    return False\n")
    verdict = await hooks().ask(BEFORE, {})
    assert verdict == Verdict(True, f"The hook {package.module}:hook said no.")


@pytest.mark.parametrize("answer", ["None", "True", "0", "''", "{}", "{'cancel': False}"])
async def test_any_other_answer_lets_it_pass(package: Package, answer: str) -> None:
    package.install(BEFORE, f"def hook(payload):\n    return {answer}\n")
    assert await hooks().ask(BEFORE, {}) == PASSED


@pytest.mark.parametrize(
    "body",
    [
        "import a_module_that_is_not_there",
        "def other(payload): pass",
        "def hook(payload): raise ZeroDivisionError('oh')",
        "def hook(payload): raise SystemExit(3)",
        "def hook(payload): raise StopIteration",
        "async def hook(payload): raise TimeoutError('mine')",
        "def hook(): pass",
    ],
)
async def test_a_broken_function_is_a_no_with_a_way_out_and_otherwise_a_notice(
    package: Package, body: str
) -> None:
    package.install(BEFORE, body)
    verdict = await hooks().ask(BEFORE, {})
    assert verdict.cancelled
    assert "uninstall owners-hooks" in (verdict.reason or "")
    assert "did not end" not in (verdict.reason or "")
    assert len(await hooks().tell(BEFORE, {})) == 1


@pytest.mark.parametrize(
    "body",
    [
        "import threading\ndef hook(payload): threading.Event().wait(60)",
        "import asyncio\nasync def hook(payload): await asyncio.sleep(600)",
    ],
)
async def test_a_function_that_hangs_is_not_waited_for(package: Package, body: str) -> None:
    package.install("turn_start", body)
    (notice,) = await hooks(time_limit_s=0.2).tell("turn_start", {})
    assert "did not end within 0.2 s" in notice


async def test_packages_are_looked_for_once(package: Package) -> None:
    before = hooks()
    assert await before.ask(BEFORE, {}) == PASSED
    package.install(BEFORE, "def hook(payload):\n    return False\n")
    assert await before.ask(BEFORE, {}) == PASSED
    assert (await hooks().ask(BEFORE, {})).cancelled


async def test_a_package_that_describes_itself_wrongly_stops_nothing_that_is_only_told(
    package: Package,
) -> None:
    package.install("turn_end", "")
    broken = package.path / "owners_hooks-1.0.dist-info" / "entry_points.txt"
    broken.write_text("[clew.hooks]\nno value here\n", encoding="utf-8")
    (notice,) = await hooks().tell("turn_end", {})
    assert "can't be listed" in notice
    assert (await hooks().ask(BEFORE, {})).cancelled
