"""Words that begin with a hyphen and are no options: `-staging`, `-5`."""

from __future__ import annotations

import re
from typing import ClassVar

import click


class HyphenWords(click.Command):
    """A command that takes what looks like `hyphened` for a word, not for options."""

    hyphened: ClassVar[re.Pattern[str]]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Such words go behind the options, in their order."""
        options = args[: args.index("--")] if "--" in args else args
        words = args[len(options) + 1 :]
        hyphened = [each for each in options if self.hyphened.match(each)]
        rest = [each for each in options if each not in hyphened]
        return super().parse_args(ctx, [*rest, "--", *hyphened, *words])
