"""One person on all channels, in a terminal and in a browser, and one thread through all of it.

The platforms are local servers that speak the real protocols; the gateway, the terminal and the
browser are processes of their own.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, expect

from clew.core.keys import parse_key
from clew.core.session import OWNER, SessionFilter
from clew.ports import Store
from clew.store import open_store
from clew.testing import discord, slack
from clew.testing.channel_contract import until
from clew.testing.email import ADDRESS, ANN, AUTHSERV, PASSWORD, MailServer, open_mail
from clew.testing.telegram import BOB, GROUP, TOKEN, TelegramServer, open_telegram
from tests.cli.conftest import Home
from tests.cli.gateways import GatewayProcess, run_gateway
from tests.cli.screens import Terminal
from tests.dashboard.conftest import WIDE
from tests.patience import PATIENCE

MAIN = "agent:main:main"
KITCHEN = f"agent:main:telegram:group:{GROUP.id}"
GUEST = f"agent:main:telegram:dm:{BOB.id}"
MAKE = {"tool_calls": [{"name": "shell", "arguments": {"command": "touch made"}}]}


class Town:
    """The platforms; `ann` are the ways in which Ann writes to the agent and reads its answers.

    Those in `chats` are private chats, where the owner has one session.
    """

    def __init__(
        self,
        telegram: TelegramServer,
        on_discord: discord.DiscordServer,
        on_slack: slack.SlackServer,
        mail: MailServer,
    ) -> None:
        self.telegram = telegram
        self.discord = on_discord
        self.slack = on_slack
        self.mail = mail
        self.ann: dict[str, tuple[Callable[[str], Any], Callable[[], list[str]]]] = {
            "telegram": (telegram.say, self._read_telegram),
            "discord": (on_discord.say, lambda: [each.text for each in on_discord.sent]),
            "slack": (on_slack.say, lambda: [each.text for each in on_slack.sent]),
            "email": (self._mail, self._read_mail),
        }
        self.chats = {"telegram": "7", "discord": "7", "slack": slack.ANN.id.lower()}

    def settings(self, home: Path) -> str:
        """The sections of the configuration."""
        home.mkdir()
        (home / "token").write_text(TOKEN)
        (home / "password").write_text(PASSWORD)
        (home / "discord").write_text(discord.TOKEN)
        (home / "slack").write_text(slack.TOKEN)
        (home / "slack_app").write_text(slack.APP_TOKEN)
        return f"""
[session]
send_policy = {{ rules = [{{ action = "deny", match = {{ chat_type = "group" }} }}] }}
[channels.telegram]
token = "file:{home}/token"
api_url = "{self.telegram.base_url}"
[channels.discord]
token = "file:{home}/discord"
api_url = "{self.discord.base_url}"
[channels.slack]
token = "file:{home}/slack"
app_token = "file:{home}/slack_app"
api_url = "{self.slack.base_url}"
[channels.email]
address = "{ADDRESS}"
password = "file:{home}/password"
imap = "{self.mail.imap}"
smtp = "{self.mail.smtp}"
authserv_id = "{AUTHSERV}"
"""

    async def _mail(self, text: str) -> None:
        headers = [("References", "<desk@example.com>")]
        await self.mail.say(text, headers=headers)

    def _read_telegram(self) -> list[str]:
        return [each.text for each in self.telegram.sent if each.chat == 7]

    def _read_mail(self) -> list[str]:
        return [str(each.get_content()).strip() for each in self.mail.sent]

    async def say(self, channel: str, text: str) -> str:
        """Ann writes; returns what she is answered."""
        write, read = self.ann[channel]
        count = len(read())
        await write(text)
        await until(lambda: len(read()) > count)
        return read()[-1]


class Everything:
    """The town, and the gateway in it."""

    def __init__(self, town: Town, home: Home, gateway: GatewayProcess, store: Store) -> None:
        self.town = town
        self.home = home
        self.gateway = gateway
        self.store = store
        """The gateway's store, as another process sees it."""

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        """An answer of the gateway's API; the platforms go on meanwhile."""
        answer = await asyncio.to_thread(self.gateway.ask, method, path, **more)
        assert answer.is_success, answer.text
        return answer.json()

    async def find(self, key: str) -> str:
        """The id of the session that a key leads to."""
        session = await self.store.find_route(key)
        assert session is not None, key
        return session.id

    async def find_mail(self) -> str:
        """The key of Ann's thread of mails."""
        page = await self.store.list_sessions(SessionFilter(viewer=OWNER, platform="email"))
        (session,) = page.sessions
        parsed = parse_key(session.key)
        assert parsed is not None
        return f"email:{ANN}:thread:{parsed.thread}"

    async def link(self, key: str, session: str) -> None:
        """Let a key lead to a session, from the command line."""
        done = await asyncio.to_thread(self.home.clew, "link", key, session)
        assert done.exit_code == 0, done.output

    async def list_said(self, session: str) -> list[str]:
        """What people said in a session."""
        rows = await self.store.get_messages(session)
        return [each.content for each in rows if each.role == "user"]


@asynccontextmanager
async def open_everything(tmp_path: Path) -> AsyncIterator[Everything]:
    async with AsyncExitStack() as opened:
        town = Town(
            await opened.enter_async_context(open_telegram()),
            await opened.enter_async_context(discord.open_discord()),
            await opened.enter_async_context(slack.open_slack()),
            await opened.enter_async_context(open_mail()),
        )
        home = Home(tmp_path / "home")
        settings = town.settings(home.path)
        home.script(
            {"text": "You said: ", "echo": "user"},
            rules=[{"when": "make it", "answers": [MAKE, "Well."]}],
            more=settings,
        )
        config = home.path / "config.toml"
        owners = ["telegram:7", "discord:7", f"slack:{slack.ANN.id}", f"email:{ANN}"]
        people = f'owners = {json.dumps(owners)}\nguests = ["telegram:{BOB.id}"]\n'
        config.write_text(people + config.read_text())
        running = run_gateway(home)
        gateway = await asyncio.to_thread(running.__enter__)
        opened.push_async_callback(asyncio.to_thread, running.__exit__, None, None, None)
        await asyncio.wait_for(town.discord.connected.wait(), PATIENCE)
        store = await open_store(str(home.path / "sessions.db"))
        opened.push_async_callback(store.close)
        yield Everything(town, home, gateway, store)


async def open_page(everything: Everything, browser: Browser, opened: AsyncExitStack) -> Page:
    code = (await everything.ask("POST", "/v1/links"))["code"]
    context = await browser.new_context(base_url=everything.gateway.url, viewport=WIDE)
    opened.push_async_callback(context.close)
    context.set_default_timeout(PATIENCE * 1_000)
    page = await context.new_page()
    await page.goto(f"/#code={code}")
    return page


async def test_one_thread_goes_through_every_channel_a_terminal_and_a_browser(
    tmp_path: Path, browser: Browser
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    async with AsyncExitStack() as opened:
        everything = await opened.enter_async_context(open_everything(tmp_path))
        town = everything.town

        # One person in all chats is one session.
        for channel in town.chats:
            assert await town.say(channel, f"hello by {channel}") == f"You said: hello by {channel}"
        said = [f"hello by {channel}" for channel in town.chats]
        session = await everything.find(MAIN)
        assert await everything.list_said(session) == said

        # A thread of mails has its own, until it is linked.
        assert await town.say("email", "hello by mail") == "You said: hello by mail"
        assert await everything.list_said(session) == said
        await everything.link(await everything.find_mail(), session)
        await town.say("email", "hello again by mail")
        said.append("hello again by mail")
        assert await everything.list_said(session) == said

        # A terminal is linked by a code.
        code = re.search(r"/link (\S+)", await town.say("telegram", "/link"))
        assert code is not None
        chat = Terminal(everything.home, "chat", "--plain", cwd=work)
        await asyncio.to_thread(chat.wait_for_prompt)
        chat.type(f"/link {code[1]}\n")
        await asyncio.to_thread(chat.wait_for, "[o]pen it there, [n]o")
        await asyncio.to_thread(chat.say, "o")
        answer = await asyncio.to_thread(chat.say, "hello from the terminal")
        assert "You said: hello from the terminal" in answer
        assert await asyncio.to_thread(chat.leave) == 0
        said.append("hello from the terminal")
        assert await everything.list_said(session) == said

        # A guest's direct message never reaches it.
        await town.telegram.say("let me read it", sender=BOB)
        await until(lambda: any(each.chat == BOB.id for each in town.telegram.sent))
        assert await everything.list_said(await everything.find(GUEST)) == ["let me read it"]
        assert await everything.list_said(session) == said

        # The policy silences a group; the page shows what was not sent.
        page = await open_page(everything, browser, opened)
        await town.telegram.say("@clew_test_bot are you there?", chat=GROUP)
        await until(lambda: is_withheld(everything))
        await page.goto(f"/s/{await everything.find(KITCHEN)}")
        log = page.get_by_role("log")
        await expect(log.get_by_text("@clew_test_bot are you there?").last).to_be_visible()
        await expect(log.get_by_text("Not sent to telegram: sending is off here")).to_be_visible()
        assert all(each.chat != GROUP.id for each in town.telegram.sent)

        # What is asked on Telegram is answered on the page.
        question = await town.say("telegram", "make it")
        assert question.startswith("May I use shell? Run: touch made")
        await page.goto(f"/s/{session}")
        card = page.get_by_role("group", name="Approval of shell")
        await card.get_by_role("button", name="Yes, once").click()
        await until(lambda: town.ann["telegram"][1]()[-1:] == ["Well."])
        (asked,) = [each for each in town.telegram.sent if each.buttons]
        await town.telegram.press(asked, "No")  # too late
        await until(lambda: len(town.telegram.answered) == 1)
        assert town.telegram.answered[0][1] == "That question is over. Nothing was done."
        assert (everything.home.path / "workspace" / "made").exists()

        # In a scope per channel, /new begins anew there only.
        await asyncio.to_thread(
            everything.home.clew, "config", "set", "session.dm_scope", "per-channel-peer"
        )
        await everything.ask("POST", "/v1/reload")
        keys = {each: f"agent:main:{each}:dm:{ident}" for each, ident in town.chats.items()}
        for channel in town.chats:
            await town.say(channel, "a session of my own")
        before = {each: await everything.find(key) for each, key in keys.items()}
        assert len({session, *before.values()}) == 1 + len(keys)
        last = list(town.chats)[-1]
        await town.say(last, "/new and again")
        for channel in town.ann:
            await town.say(channel, "who is here?")
        after = {each: await everything.find(key) for each, key in keys.items()}
        assert [each for each in keys if before[each] != after[each]] == [last]
        assert (await everything.list_said(session))[-1] == "who is here?"  # by mail


async def is_withheld(everything: Everything) -> bool:
    return len(await everything.store.list_outbound(status="withheld")) == 1
