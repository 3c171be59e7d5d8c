"""`clew help` and `clew completion`: the overview for people, the script for their shells."""

from __future__ import annotations

import click

from clew.cli.app import App, pass_app


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
    # Not `source()`: it starts a bash to ask for its version, and this only prints.
    app.say(script.source_template % script.source_vars())
