"""The colours of the full screen: one set for dark terminals, one for light ones."""

from __future__ import annotations

from typing import Any, Final

from textual.app import App
from textual.theme import Theme

DARK: Final = Theme(
    name="clew-dark",
    primary="#6ea8d8",
    secondary="#8fb8a8",
    accent="#d8a86e",
    warning="#e0b050",
    error="#e07070",
    success="#7fbf7f",
    foreground="#dcdcdc",
    background="#16181c",
    surface="#1c1f24",
    panel="#262a31",
    dark=True,
)
LIGHT: Final = Theme(
    name="clew-light",
    primary="#205d92",
    secondary="#2f6f5c",
    accent="#8f5a10",
    warning="#8a5a00",
    error="#b02a37",
    success="#28703a",
    foreground="#202428",
    background="#fbfbf9",
    surface="#f3f3f0",
    panel="#e8e8e3",
    dark=False,
)


def wear(app: App[Any], *, dark: bool) -> None:
    """Give an app these colours."""
    for theme in (DARK, LIGHT):
        app.register_theme(theme)
    app.theme = theme_name(dark=dark)


def theme_name(*, dark: bool) -> str:
    """The theme for a dark or a light terminal."""
    return DARK.name if dark else LIGHT.name
