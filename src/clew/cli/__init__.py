"""The command line: `clew`, its global options, and the table of its commands.

The module of a command is imported when the command is used, so that `clew list` starts fast;
therefore the table has the help text of the overview too. `cli.report` turns errors into messages
and exit codes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from clew.cli.app import App, json_option, pass_app
from clew.cli.options import session_options
from clew.cli.report import ReaderGone, finish, report
from clew.config import own_environment
from clew.version import __version__


class Entry(NamedTuple):
    """The function of a command, and its line in the overview."""

    target: str
    help: str


COMMANDS: Final = {
    "Talk": {
        "chat": Entry("clew.cli.chat:chat_command", "Talk to the agent; `clew` alone does too."),
        "pick": Entry("clew.cli.chat:pick_command", "Choose a session, and go on with it."),
        "ask": Entry("clew.cli.ask:ask_command", "One question, one answer, for scripts."),
    },
    "Look": {
        "list": Entry("clew.cli.sessions:list_command", "The newest sessions."),
        "sessions": Entry("clew.cli.sessions:sessions_command", "Every session."),
        "show": Entry("clew.cli.show:show_command", "The transcript of a session."),
        "search": Entry("clew.cli.search:search_command", "Find words in all messages."),
        "stats": Entry("clew.cli.stats:stats_command", "Count sessions, messages and bytes."),
        "status": Entry(
            "clew.cli.stats:status_command", "Where the store is, and whether a gateway runs."
        ),
        "usage": Entry(
            "clew.cli.stats:usage_command",
            "Token usage and cost, by day, model, platform or session.",
        ),
        "explain": Entry(
            "clew.cli.explain:explain_group", "Explain which session is chosen, and why."
        ),
    },
    "Change": {
        "rename": Entry("clew.cli.edit:rename_command", "Give a session a title."),
        "pin": Entry(
            "clew.cli.edit:pin_command",
            "Keep sessions at the top of the list, safe from retention.",
        ),
        "archive": Entry("clew.cli.edit:archive_command", "Take sessions out of the list."),
        "fork": Entry(
            "clew.cli.edit:fork_command",
            "Begin a new session that shares the beginning of an old one.",
        ),
        "link": Entry(
            "clew.cli.edit:link_command", "Let a chat on a channel go on with a session."
        ),
        "delete": Entry("clew.cli.trash:delete_command", "Put sessions in the trash."),
        "undo": Entry("clew.cli.trash:undo_command", "Take back the latest delete."),
        "trash": Entry("clew.cli.trash:trash_group", "List, restore or empty the trash."),
        "prune": Entry("clew.cli.trash:prune_command", "Put old sessions away."),
    },
    "Keep": {
        "export": Entry("clew.cli.transfer:export_command", "Write a session to a file."),
        "import": Entry(
            "clew.cli.transfer:import_command",
            "Read sessions from a file, or other agents' histories.",
        ),
        "backup": Entry("clew.cli.store:backup_command", "Copy the whole store, verified."),
        "restore": Entry("clew.cli.store:restore_command", "Replace the store by a backup."),
        "store": Entry("clew.cli.store:store_group", "Move everything to another store."),
        "doctor": Entry("clew.cli.store:doctor_command", "Check the store and the model."),
    },
    "Serve": {
        "serve": Entry(
            "clew.cli.gateway:serve_command", "Run a gateway: the API, channels and jobs."
        ),
        "desktop": Entry("clew.cli.desktop:desktop_command", "The dashboard in its own window."),
        "service": Entry("clew.cli.service:service_group", "The gateway as a service of yours."),
        "upgrade": Entry("clew.cli.upgrade:upgrade_command", "How to get a newer clew."),
        "logs": Entry("clew.cli.service:logs_command", "What the gateway has logged."),
        "token": Entry("clew.cli.access:token_group", "Tokens of the gateway."),
        "pair": Entry("clew.cli.access:pair_group", "Who may talk to the agent on channels."),
        "channels": Entry(
            "clew.cli.channels:channels_group", "Bots and accounts on Telegram and others."
        ),
        "gateway": Entry(
            "clew.cli.gateway:gateway_group", "Call an operation of a running gateway."
        ),
        "mcp": Entry("clew.cli.mcp:mcp_command", "Let other agents read sessions, over MCP."),
        "cron": Entry("clew.cli.cron:cron_group", "Jobs that the gateway runs on a schedule."),
        "node": Entry("clew.cli.gateway:node_group", "Call a gateway from another machine."),
    },
    "Set up": {
        "memory": Entry("clew.cli.memory:memory_group", "What the agent remembers, in two files."),
        "personality": Entry(
            "clew.cli.personality:personality_group", "Personalities of the agent."
        ),
        "setup": Entry("clew.cli.setup:setup_command", "Choose the model: provider, key, test."),
        "model": Entry("clew.cli.model:model_group", "Choose the model that answers."),
        "config": Entry("clew.cli.config:config_group", "Show and change the configuration."),
        "plugins": Entry("clew.cli.plugins:plugins_command", "What packages bring to clew."),
        "completion": Entry("clew.cli:completion_command", "Completion for your shell."),
        "demo": Entry("clew.cli.demo:demo_command", "Make sessions to look at."),
        "help": Entry("clew.cli:help_command", "This overview, or the help of a command."),
    },
}


class Clew(click.Group):
    """The group of all commands. Its `main` reports every error."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Every command, in the order of the table."""
        return [name for entries in COMMANDS.values() for name in entries]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        """Import a command."""
        for entries in COMMANDS.values():
            if cmd_name in entries:
                module, _, attribute = entries[cmd_name].target.partition(":")
                command: click.Command = getattr(import_module(module), attribute)
                return command
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; the error names similar ones."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            known = self.list_commands(ctx)
            raise click.NoSuchCommand(error.command_name, possibilities=known, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """Write the overview without importing the commands."""
        for heading, entries in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(name, entry.help) for name, entry in entries.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. `report` handles a closed pipe: click would exit with 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGone from error

    def main(  # type: ignore[override]  # click's overloads have two modes, this has one
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        **extra: Any,
    ) -> None:
        """Run a command, and exit with its code."""
        app = App()
        try:
            code = super().main(args, prog_name, standalone_mode=False, obj=app, **extra)
            finish()
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the border of the command line
            code = report(app, error)
        sys.exit(code or 0)


@click.group(
    cls=Clew,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--home", metavar="DIR", help="Keep all files in this directory (CLEW_HOME).")
@click.option("--store", metavar="URL", help="Use this store (CLEW_STORE).")
@click.option("--config", "file", metavar="FILE", help="Use this config file.")
@json_option
@click.option("-v", "--verbose", is_flag=True, help="Show the traceback of a bug.")
@session_options()
@click.option("--plain", is_flag=True, help="Line by line, also for screen readers and pipes.")
@click.option("--no-resume-hint", is_flag=True, help="Don't say at the end how to come back.")
@click.version_option(__version__, message="clew %(version)s")
@click.pass_context
def main(  # noqa: PLR0917  # click passes them all
    ctx: click.Context,
    /,
    home: str | None,
    store: str | None,
    file: str | None,
    verbose: bool,
    plain: bool,
    no_resume_hint: bool,
    **choice: Any,
) -> None:
    """Talk to an agent that keeps the thread: every session is durable, searchable and yours.

    Without a command it opens a chat, in the session of this directory. An ID may be a whole title,
    or any part at the beginning of an id that is unique.

    \b
    Examples:
      clew                      talk, and go on where you were
      clew -c                   this terminal's last session
      clew -r "login bug"       one by its title, id or key
      clew ask "why is it red?" < build.log
      clew list --here          sessions of this directory
      clew search login error   find where it was said
    """
    app = ctx.ensure_object(App)
    app.configure(home=home, store=store, file=file, verbose=verbose)
    if ctx.invoked_subcommand is None:
        from clew.cli.chat import run_chat
        from clew.cli.conversation import Choice

        run_chat(app, Choice(**choice), plain=plain, hint=not no_resume_hint)
        return
    given = (plain, no_resume_hint, app.url, app.token, *choice.values())
    if any(each not in (None, False) for each in given):
        raise click.UsageError(
            f"Put these options after the command: clew {ctx.invoked_subcommand} --help."
        )


def run() -> None:
    """Run the command line as a program of its own, whose environment is clew's."""
    own_environment()
    main()


@click.command("help")
@click.argument("words", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show what clew can do, or what one of its commands does.

    \b
    Examples:
      clew help
      clew help search
      clew help trash empty
    """
    shown = ctx.find_root()
    for word in words:
        group = shown.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"`{shown.command_path}` has no commands below it.", ctx)
        command = group.get_command(shown, word)
        if command is None:
            known = group.list_commands(shown)
            raise click.NoSuchCommand(word, possibilities=known, ctx=shown)
        shown = click.Context(command, info_name=word, parent=shown)
    click.echo(shown.get_help())


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
@pass_app
def completion_command(app: App, ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Examples, for the file that your shell reads at its start:
      eval "$(clew completion bash)"          # ~/.bashrc
      eval "$(clew completion zsh)"           # ~/.zshrc
      clew completion fish | source           # ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"No completion for {shell}.")
    script = kind(ctx.find_root().command, {}, "clew", "_CLEW_COMPLETE")
    # Not `source()`, which would start a bash to read its version.
    template = script.source_template
    if shell == "fish":
        # Click's own cuts a description at its first comma.
        template = template.replace('string split ","', 'string split -m 1 ","')
    app.say(template % script.source_vars())
