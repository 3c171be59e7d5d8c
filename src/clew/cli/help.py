"""`clew help`: what `--help` shows, for those who type it as a command."""

from __future__ import annotations

import click


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
