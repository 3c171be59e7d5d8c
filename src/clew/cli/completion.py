"""`clew completion`: the script that teaches a shell clew's commands, options and session ids."""

from __future__ import annotations

import click

from clew.cli.app import App, pass_app


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
