from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.agent.tools.output import Spool
from clew.agent.tools.processes import clean_environment, run_process
from clew.core.live_events import ToolProgress
from clew.core.search.hits import SearchFilter
from tests.agent.tools.conftest import ENVIRONMENT, SECRETS, Bench
from tests.patience import PATIENCE
from tests.sizes import pick


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def wait_until(true: Callable[[], bool]) -> None:
    """Wait for another process to have done something; it has ten seconds."""
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110  # no event crosses processes
            await asyncio.sleep(0.01)


def find_text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


async def wait_for_file(path: Path) -> str:
    await wait_until(lambda: bool(find_text(path)))
    return find_text(path)


async def wait_until_gone(*pids: int) -> None:
    await wait_until(lambda: not any(is_running(pid) for pid in pids))


@pytest.fixture
def shell(bench: Bench) -> Bench:
    """A bench on which the shell need not ask."""
    bench.make_tools(allow=("shell",))
    return bench


async def test_the_shell_asks_with_the_command(bench: Bench) -> None:
    bench.turn.answers = [("no", "once"), ("yes", "session")]
    refused = await bench.call("shell", command="echo hi | cat")
    assert refused.is_error
    assert "said no" in refused.content
    assert (await bench.call("shell", command="echo hi | cat")).content == "hi\n"
    assert (await bench.call("shell", command="echo hi | cat")).content == "hi\n"
    assert bench.turn.asked[1] == {
        "summary": "Run: echo hi | cat",
        "detail": "echo hi | cat",
        "rule": "shell=echo hi | cat",
        "cwd": str(bench.root),
        "command": "echo hi | cat",
    }
    assert bench.turn.allowed == [("shell=echo hi | cat", False)]


async def test_a_command_that_hides_something_is_refused(shell: Bench) -> None:
    for command in ("ls \x1b[2K", "ls \u202e", "ls\r\nrm x", "a\0b"):
        outcome = await shell.call("shell", command=command)
        assert outcome.is_error
        assert "invisible characters" in outcome.content
    assert (await shell.call("shell", command="x" * 10_001)).is_error


async def test_an_expired_question_is_a_no(bench: Bench) -> None:
    bench.turn.answers = [("no", "once")]
    bench.turn.answered_by = "expired"
    outcome = await bench.call("shell", command="touch made")
    assert "The owner did not answer in time" in outcome.content
    assert not (bench.root / "made").exists()


async def test_a_denied_command_is_not_even_asked_about(bench: Bench) -> None:
    bench.make_tools(allow=("shell",), deny=("shell:rm",))
    (bench.root / "a").write_text("")
    assert (await bench.call("shell", command="true; rm a")).is_error
    assert (bench.root / "a").exists()


async def test_it_runs_in_the_directory_and_tells_the_exit_code(shell: Bench) -> None:
    assert (await shell.call("shell", command="pwd")).content == f"{shell.root}\n"
    outcome = await shell.call("shell", command="echo oops >&2; exit 3")
    assert outcome.is_error
    assert outcome.content == "[Exit code 3]\noops\n"


async def test_the_environment_has_no_keys(shell: Bench) -> None:
    outcome = await shell.call("shell", command="env")
    for name, value in SECRETS.items():
        assert name not in outcome.content
        assert value not in outcome.content
    assert "HOME=/nowhere" in outcome.content
    assert "LC_ALL=C" in outcome.content
    assert clean_environment(ENVIRONMENT, ["CLEW_SECRET"])["CLEW_SECRET"] == "hidden-3"


async def test_a_command_that_reads_gets_nothing(shell: Bench) -> None:
    assert (await shell.call("shell", command="cat; echo done")).content == "done\n"


async def test_a_command_that_hangs_is_stopped_with_all_its_children(shell: Bench) -> None:
    shell.make_tools(allow=("shell",), timeout=0.3)
    outcome = await shell.call("shell", command="echo begun; sleep 60 & echo $! > pid; sleep 60")
    assert outcome.is_error
    assert outcome.content.startswith("[Stopped after its time limit of 0.3 s.")
    assert "begun" in outcome.content
    await wait_until_gone(int((shell.root / "pid").read_text()))


async def test_a_command_that_ignores_the_asking_is_killed(shell: Bench) -> None:
    command = "trap '' TERM; echo $$ > pid; while :; do sleep 1; done"
    outcome = await shell.call("shell", command=command, timeout=0.3)
    assert outcome.is_error
    await wait_until_gone(int((shell.root / "pid").read_text()))


async def test_nothing_stays_in_the_background(shell: Bench) -> None:
    started = time.monotonic()
    outcome = await shell.call("shell", command="sleep 60 & echo $! > pid; echo left")
    assert outcome.content == "left\n"
    assert time.monotonic() - started < 50
    await wait_until_gone(int((shell.root / "pid").read_text()))


async def test_a_child_that_leaves_the_group_does_not_hold_the_turn(shell: Bench) -> None:
    command = "setsid sh -c 'echo $$ > pid; exec sleep 30' & sleep 0.2; echo left"
    outcome = await shell.call("shell", command=command)
    pid = int(await wait_for_file(shell.root / "pid"))
    assert outcome.content == "left\n"
    os.kill(pid, 9)


async def test_cancelling_kills_the_command_with_its_children(shell: Bench) -> None:
    command = "sleep 60 & echo $$ $! > pid; wait"
    task = asyncio.create_task(shell.call("shell", command=command))
    pids = [int(pid) for pid in (await wait_for_file(shell.root / "pid")).split()]
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, PATIENCE)
    # 200 ms are promised; a loaded machine gets more.
    assert time.monotonic() - started < 30
    await wait_until_gone(*pids)


async def test_a_hundred_megabytes_stay_small(shell: Bench) -> None:
    tracemalloc.start()
    try:
        outcome = await shell.call("shell", command="head -c 100000000 /dev/zero | tr '\\0' 'x'")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000
    assert len(outcome.content) <= 30_000
    assert "scratchpad as shell_1" in outcome.content
    entry = await shell.store.find_scratch(shell.turn.session.id, "shell_1")
    assert entry is not None
    assert "99,000,000 bytes left out" in entry.content
    assert len(entry.content) < 1_100_000


async def test_a_long_result_is_kept_whole_and_can_be_read(shell: Bench) -> None:
    outcome = await shell.call("shell", command="seq 20000")
    assert len(outcome.content) <= 30_000
    assert outcome.content.endswith("\n20000\n")
    assert "\n1\n2\n3\n" in outcome.content
    page = await shell.call("scratchpad_read", name="shell_1", offset=12_345, limit=1)
    assert page.content.startswith(" 12345\t12345\n")
    await shell.call("shell", command="seq 20000")
    assert await shell.store.find_scratch(shell.turn.session.id, "shell_2")


async def test_results_side_by_side_get_names_of_their_own(shell: Bench) -> None:
    outcomes = await asyncio.gather(
        *(shell.call("shell", command=f"seq {n}0000") for n in range(1, 4))
    )
    entries = await shell.store.list_scratch(shell.turn.session.id)
    assert [entry.name for entry in entries] == ["shell_1", "shell_2", "shell_3"]
    assert all("shell_" in outcome.content for outcome in outcomes)


async def test_coloured_words_are_found_by_search(shell: Bench) -> None:
    await shell.call("shell", command=r"printf 'a \033[1;31mcrimson\033[0m word'")
    page = await shell.store.search("crimson", SearchFilter(viewer="owner"))
    assert [hit.role for hit in page.hits] == ["tool"]


async def test_progress_is_shown_but_not_more_than_ten_times_a_second(shell: Bench) -> None:
    command = "for n in 1 2 3 4 5; do seq 1000; sleep 0.15; done"
    started = time.monotonic()
    await shell.call("shell", command=command)
    most = (time.monotonic() - started) / 0.1 + 1
    shown = [each for each in shell.turn.signals if isinstance(each, ToolProgress)]
    assert 2 <= len(shown) <= most
    assert all(len(each.text) <= 4_000 for each in shown)


def test_a_spool_keeps_both_ends() -> None:
    spool = Spool(10)
    for number in range(100):
        spool.add(b"%02d" % number)
    assert spool.size == 200
    assert spool.text == "00010\n[… 190 bytes left out …]\n79899"


def test_a_spool_that_is_not_full_keeps_everything() -> None:
    spool = Spool(10)
    spool.add(b"abc")
    spool.add(b"defghij")
    assert spool.text == "abcdefghij"


async def test_a_stop_at_the_very_start_leaves_no_child_behind(tmp_path: Path) -> None:
    """Whichever moment of the start it meets."""
    for steps in range(12):
        pids = tmp_path / f"pids-{steps}"
        running = asyncio.create_task(
            run_process(
                ["/bin/sh", "-c", f"sleep 600 & echo $! > {pids}; sleep 600"],
                cwd=tmp_path,
                environment={"PATH": os.defpath},
                seconds=60,
            )
        )
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        if pids.exists() and pids.read_text().strip():
            await wait_until_gone(int(pids.read_text()))


KILLED = """
import asyncio, sys
from pathlib import Path
from clew.agent.tools.processes import run_process

async def main():
    here = Path(sys.argv[1])
    command = ("/bin/sh", "-c", "echo $$ > pid; setsid sleep 600 & sleep 600")
    print("ready", flush=True)
    await run_process(command, cwd=here, environment={}, seconds=600)

asyncio.run(main())
"""


async def test_a_command_ends_whenever_clew_is_killed(tmp_path: Path) -> None:
    for delay in pick((0.0, 0.02), tuple(number / 500 for number in range(40))):
        (tmp_path / "pid").unlink(missing_ok=True)
        clew = await asyncio.create_subprocess_exec(
            sys.executable, "-c", KILLED, str(tmp_path), stdout=asyncio.subprocess.PIPE
        )
        assert clew.stdout is not None
        await clew.stdout.readline()
        await asyncio.sleep(delay)
        clew.kill()
        await clew.wait()
        await wait_until(lambda: not list_in(tmp_path))


def list_in(directory: Path) -> list[int]:
    """The processes whose working directory that is."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (each / "cwd").resolve() == directory and is_running(int(each.name)):
                found.append(int(each.name))
    return found
