"""Follows one message through clew's modules, and writes the way into docs/how-it-works.md.

    python scripts/walk.py [--write | --check]

Without an option it prints the way too. With `--check` nothing is written; it fails when the page
shows another way. The order of modules may differ a little there, as threads run side by side, and
so may the number of functions: a new one need not be written down.

Three settings: a line typed in a terminal, answered in the same process; a line typed in a terminal
at a gateway; a signed webhook whose answer goes to a callback. Each is played with real processes
(`clew chat`, `clew serve`) and a scripted model, several times, each time in a new session. What
was entered most of the times is the way. `scripts/tracer.py` runs in those processes.

It knows the command line, the webhook's signature and the name of the loop's module; no other
module of clew is named here.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import hmac
import importlib.util
import json
import os
import pty
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median_low
from typing import Any, NamedTuple

import httpx

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "how-it-works.md"
BEGIN, END = "<!-- Written by `make walk`. -->", "<!-- The end of the walk. -->"
PATIENCE = 120.0
"""Seconds to wait for anything; a busy machine may be slow."""

ROUNDS = 4
"""How often a setting is played. The first time only loads what is loaded once."""

QUESTION, ANSWER, TITLE = "Which way does this go?", "Straight on.", "The way"
SECRET = "not a secret, as nobody else is here"  # noqa: S105
DIVISION = "the agent's loop begins"
MODULE = re.compile(r"[a-z_.]+ {2,}\S")
"""A line about a module: its name, and what it is."""


class Entry(NamedTuple):
    """A function that was entered, and whether that was before the agent's loop began."""

    module: str
    function: str
    before: bool


class Way(NamedTuple):
    """What one process entered, in order; `name` says which process it is."""

    name: str
    entries: tuple[Entry, ...]


class Walk(NamedTuple):
    """One setting, and the ways through its processes."""

    name: str
    ways: tuple[Way, ...]


# --- processes -----------------------------------------------------------------------------------


class Traced:
    """A `clew` with a tracer in it."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self.name = name
        self._process = process
        self._control = control
        self._rest = b""

    async def ask(self, word: str) -> Any:
        """Say a word to the tracer, and return its answer."""
        await asyncio.get_running_loop().sock_sendall(self._control, f"{word}\n".encode())
        return await self.hear()

    async def hear(self) -> Any:
        """The next thing that the tracer says."""
        while b"\n" not in self._rest:
            async with asyncio.timeout(PATIENCE):
                data = await asyncio.get_running_loop().sock_recv(self._control, 65_536)
            if not data:
                raise RuntimeError(f"{self.name} has ended")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._control.close()


def start(name: str, arguments: Sequence[str], home: Path, **streams: Any) -> Traced:
    """A traced `clew` with a home of its own, in a directory beside it."""
    work = home.with_name(f"{home.name}-work")
    work.mkdir(exist_ok=True)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    environment = {
        "CLEW_HOME": str(home),
        "HOME": str(home.with_name("person")),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "TERM": "xterm",
        "TZ": "UTC",
    }
    tracer = str(ROOT / "scripts" / "tracer.py")
    process = subprocess.Popen(  # noqa: S603  # our own program
        [sys.executable, tracer, str(theirs.fileno()), *arguments],
        pass_fds=(theirs.fileno(),),
        env=environment,
        cwd=work,
        start_new_session=True,
        **streams,
    )
    theirs.close()
    return Traced(name, process, ours)


class Terminal:
    """`clew chat`, line by line, in a pseudo-terminal."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self._descriptor, slave = pty.openpty()
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), slave)
        self.traced = start("the terminal", ["chat", "--plain", *arguments], home, **streams)
        os.close(slave)
        os.set_blocking(self._descriptor, False)
        self._shown = ""

    def type(self, line: str) -> None:
        """Type a line."""
        self._shown = ""
        os.write(self._descriptor, f"{line}\n".encode())

    async def wait_for_prompt(self, text: str = "") -> None:
        """Until this was shown, and after it the prompt."""
        end = time.monotonic() + PATIENCE
        while not (text in self._shown and self._shown.endswith("\n> ")):
            try:
                data = os.read(self._descriptor, 65_536)
                self._shown += data.decode(errors="replace").replace("\r\n", "\n")
            except BlockingIOError:
                await asyncio.sleep(0.01)
            if time.monotonic() > end:
                raise TimeoutError(f"No prompt after {self._shown!r}")

    def close(self) -> None:
        """End the chat."""
        self.traced.close()
        os.close(self._descriptor)


@asynccontextmanager
async def open_terminal(home: Path, *arguments: str) -> AsyncIterator[Terminal]:
    """A chat that waits for its first line."""
    terminal = Terminal(home, *arguments)
    try:
        await terminal.wait_for_prompt()
        yield terminal
    finally:
        terminal.close()


class Gateway(NamedTuple):
    """`clew serve`, and where it is."""

    traced: Traced
    url: str
    token_file: str


@asynccontextmanager
async def open_gateway(home: Path) -> AsyncIterator[Gateway]:
    """A gateway on a port of its own."""
    reading, writing = os.pipe()
    traced = start("the gateway", ["serve", "--port", "0", "--json"], home, stdout=writing)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as output:
            told = json.loads(await asyncio.wait_for(asyncio.to_thread(output.readline), PATIENCE))
            yield Gateway(traced, told["url"], told["token_file"])
    finally:
        traced.close()


class Callback:
    """Where the answers to webhooks are posted."""

    def __init__(self) -> None:
        self.came = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and answer it."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0]))
        writer.write(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        self.came.set()


# --- playing -------------------------------------------------------------------------------------

Act = Callable[[], Awaitable[None]]


async def follow(traced: Sequence[Traced], answering: Traced, ask: Act, wait: Act) -> list[Way]:
    """Play one round: ask, wait for the answer, and return what each process entered."""
    await asyncio.gather(*(each.ask("settle") for each in traced))
    await asyncio.gather(*(each.ask("begin") for each in traced))
    await ask()
    told = await answering.hear()
    if told != "loop":
        raise RuntimeError(f"Expected the agent's loop, got {told!r}")
    await asyncio.gather(*(each.ask("settle") for each in traced))
    await asyncio.gather(*(each.ask("divide") for each in traced))
    await wait()
    await asyncio.gather(*(each.ask("settle") for each in traced))
    notes = await asyncio.gather(*(each.ask("end") for each in traced))
    return [
        Way(each.name, tuple(Entry(*note) for note in found))
        for each, found in zip(traced, notes, strict=True)
    ]


def agree(rounds: Sequence[list[Way]]) -> tuple[Way, ...]:
    """What was entered in most rounds, in the order in which it usually was."""
    ways = []
    most = len(rounds) // 2 + 1
    for played in zip(*rounds, strict=True):
        places: dict[tuple[str, str], list[int]] = {}
        before: Counter[tuple[str, str]] = Counter()
        for way in played:
            for place, entry in enumerate(way.entries):
                places.setdefault(entry[:2], []).append(place)
                before[entry[:2]] += entry.before
        common = [name for name, found in places.items() if len(found) >= most]
        common.sort(key=lambda name: (before[name] < most, median_low(places[name])))
        entries = tuple(Entry(*name, before[name] >= most) for name in common)
        ways.append(Way(played[0].name, entries))
    return tuple(ways)


async def walk_terminal(terminal: Terminal, traced: Sequence[Traced], answering: Traced) -> Any:
    """Type the same line in several new sessions."""
    rounds = []
    for _ in range(ROUNDS):
        rounds.append(
            await follow(
                traced,
                answering,
                lambda: asyncio.to_thread(terminal.type, QUESTION),
                lambda: terminal.wait_for_prompt(ANSWER),
            )
        )
        terminal.type("/new")
        await terminal.wait_for_prompt()
    return agree(rounds[1:])


async def walk_here(directory: Path) -> Walk:
    """A line that is typed in a terminal, without a gateway."""
    home = make_home(directory / "here")
    async with open_terminal(home) as terminal:
        ways = await walk_terminal(terminal, [terminal.traced], terminal.traced)
    return Walk("A line typed in a terminal, answered in the same process", ways)


async def walk_gateway(directory: Path) -> Walk:
    """A line that is typed in a terminal at a gateway."""
    async with open_gateway(make_home(directory / "gateway")) as gateway:
        token = f"file:{gateway.token_file}"
        home = make_home(directory / "there")
        async with open_terminal(home, "--url", gateway.url, "--token", token) as terminal:
            traced = [terminal.traced, gateway.traced]
            ways = await walk_terminal(terminal, traced, gateway.traced)
    return Walk("A line typed in a terminal at a gateway", ways)


async def walk_webhook(directory: Path) -> Walk:
    """A webhook that is answered at its callback."""
    callback = Callback()
    async with AsyncExitStack() as stack:
        server = await asyncio.start_server(callback.serve, "127.0.0.1", 0)
        await stack.enter_async_context(server)
        home = make_home(directory / "hooks", server.sockets[0].getsockname()[1])
        gateway = await stack.enter_async_context(open_gateway(home))
        client = await stack.enter_async_context(httpx.AsyncClient(timeout=PATIENCE))
        rounds = []
        for number in range(ROUNDS):
            callback.came.clear()
            posting: list[asyncio.Task[httpx.Response]] = []

            async def ask(number: int = number, posting: list[Any] = posting) -> None:
                posting.append(asyncio.create_task(post(client, gateway.url, number)))

            async def wait(posting: list[Any] = posting) -> None:
                async with asyncio.timeout(PATIENCE):
                    (await posting[0]).raise_for_status()
                    await callback.came.wait()

            rounds.append(await follow([gateway.traced], gateway.traced, ask, wait))
    return Walk("A signed webhook, answered at its callback", agree(rounds[1:]))


async def post(client: httpx.AsyncClient, url: str, number: int) -> httpx.Response:
    """A signed call; each has another text, and so begins another session."""
    body = f"{number}: {QUESTION}".encode()
    stamp = str(int(time.time()))
    signature = hmac.new(SECRET.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    headers = {"X-Clew-Timestamp": stamp, "X-Clew-Signature": f"v1={signature}"}
    return await client.post(f"{url}/v1/hooks/walk", content=body, headers=headers)


def make_home(home: Path, callback_port: int = 9) -> Path:
    """A home with a scripted model and a webhook."""
    home.mkdir()
    script = home / "script.json"
    script.write_text(json.dumps({"answers": [ANSWER], "title": TITLE}), encoding="utf-8")
    (home / "config.toml").write_text(
        f"""model = "script/x"
[providers.script]
kind = "python"
factory = "clew.testing.scripted:open_model"
base_url = "{script}"
[webhooks.walk]
secret = "{SECRET}"
callback = "http://127.0.0.1:{callback_port}/"
""",
        encoding="utf-8",
    )
    return home


async def walk_all() -> list[Walk]:
    """The three settings."""
    with tempfile.TemporaryDirectory() as name:
        settings = (walk_here, walk_gateway, walk_webhook)
        return await asyncio.gather(*(walk(Path(name)) for walk in settings))


# --- printing ------------------------------------------------------------------------------------


def render(walks: Sequence[Walk]) -> str:
    """The counts of all settings, then the modules of each."""
    return "\n\n".join([render_counts(walks), *map(render_walk, walks)])


def render_counts(walks: Sequence[Walk]) -> str:
    """A table: modules and functions, before the agent's loop begins and in all."""
    width = max(len(walk.name) for walk in walks)
    lines = [f"{'':{width}}  before the agent's loop    in all"]
    for walk in walks:
        before, every = count(walk.ways, only_before=True), count(walk.ways)
        lines.append(f"{walk.name:{width}}  {before}  {every}")
    return "\n".join(lines)


def count(ways: Sequence[Way], *, only_before: bool = False) -> str:
    """How many modules and functions; those of two processes count twice."""
    found = [
        (way.name, entry)
        for way in ways
        for entry in way.entries
        if entry.before or not only_before
    ]
    modules = {(name, entry.module) for name, entry in found}
    return f"{len(modules):3} modules {len(found):3} functions"


def render_walk(walk: Walk) -> str:
    """The modules of a setting, process by process, in the order of their first entry."""
    parts = [f"{walk.name}\n{'=' * len(walk.name)}"]
    for way in walk.ways:
        lines = [f"In {way.name}:"] if len(walk.ways) > 1 else []
        seen: set[str] = set()
        for before in (True, False):
            modules = dict.fromkeys(each.module for each in way.entries if each.before == before)
            if not before:
                lines.append(f"--- {DIVISION} ---")
            lines += [render_module(module) for module in modules if module not in seen]
            seen |= modules.keys()
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def render_module(module: str) -> str:
    """Its name and the first sentence of its docstring."""
    name = module.removeprefix("clew.")
    return f"{name:32}  {describe(module)}"


def describe(module: str) -> str:
    """The first sentence of a module's docstring."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"There is no module {module}")
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    text = " ".join((ast.get_docstring(tree) or "").partition("\n\n")[0].split())
    return text.partition(". ")[0].removesuffix(".") + "."


# --- the page ------------------------------------------------------------------------------------


def in_page(page: str, printed: str) -> str:
    """The page with this between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise RuntimeError(f"{PAGE.name} has no place for the walk: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n```modules\n{printed}\n```\n{END}{after}"


def compare(shown: str, printed: str) -> Iterator[str]:
    """What a page shows that is no longer so."""
    old, new = modules_of(shown), modules_of(printed)
    for part in sorted({*old, *new}):
        was, now = old.get(part, []), new.get(part, [])
        yield from (f"{part}: no longer: {line}" for line in was if line not in now)
        yield from (f"{part}: not shown: {line}" for line in now if line not in was)
        if set(was) == set(now):
            far = len(now) // 5
            moved = [line for line in now if abs(now.index(line) - was.index(line)) > far]
            yield from (f"{part}: at another place: {line}" for line in moved)
    counted = zip(functions_of(shown), functions_of(printed), strict=False)
    if any(abs(was - now) > now / 10 for was, now in counted):
        yield "The number of functions is another one."


def modules_of(printed: str) -> dict[str, list[str]]:
    """The lines about modules, by setting, process and side of the division."""
    parts: dict[str, list[str]] = {}
    setting = process = side = ""
    previous = ""
    for line in printed.splitlines():
        if line.startswith("==="):
            setting, process, side = previous, "", "before the loop"
        elif line.startswith("In "):
            process, side = line, "before the loop"
        elif line.startswith("---"):
            side = "after it"
        elif line.strip() and setting and line[0] != " " and MODULE.match(line):
            parts.setdefault(" ".join(filter(None, (setting, process, side))), []).append(line)
        previous = line
    return parts


def functions_of(printed: str) -> list[int]:
    """The numbers of functions in the table."""
    return [int(number) for number in re.findall(r"(\d+) functions", printed)]


def main(arguments: list[str]) -> int:
    """Print the walk and write it into the page; `--write`: only write; `--check`: only compare."""
    if arguments not in ([], ["--write"], ["--check"]):
        print("usage: walk.py [--write | --check]", file=sys.stderr)
        return 2
    printed = render(asyncio.run(walk_all()))
    page = PAGE.read_text(encoding="utf-8")
    if arguments == ["--check"]:
        differences = list(compare(page, printed))
        if differences:
            print("\n".join(differences), file=sys.stderr)
            print(f"{PAGE.name} shows another walk. `make walk` writes it.", file=sys.stderr)
        return int(bool(differences))
    if not arguments:
        print(printed)
    if (updated := in_page(page, printed)) != page:
        PAGE.write_text(updated, encoding="utf-8")
        print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
