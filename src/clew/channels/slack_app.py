"""The Slack app that a workspace needs for clew: its manifest, and what each permission is for.

Text only; the library is not needed to read it.
"""

from __future__ import annotations

import json
from typing import Any, Final

SCOPES: Final = {
    "chat:write": "to answer",
    "im:history": "to read direct messages",
    "im:read": "to know which chat is whose",
    "im:write": "to write to the owner first",
    "channels:history": "to read channels that it is in",
    "channels:read": "to know their names",
    "groups:history": "to read private channels that it is in",
    "groups:read": "to know their names",
    "mpim:history": "to read group chats that it is in",
    "mpim:read": "to know that they are group chats",
    "users:read": "to know who says what",
    "files:read": "to get files",
    "files:write": "to send files",
    "reactions:write": "to show that it is at work",
    "commands": "for the command /clew",
}
"""The permissions of the bot's token."""

EVENTS: Final = (
    "message.im", "message.channels", "message.groups", "message.mpim", "member_joined_channel",
    "tokens_revoked", "app_uninstalled",
)  # fmt: skip

COMMAND: Final = "/clew"

MANIFEST: Final[dict[str, Any]] = {
    "display_information": {"name": "clew"},
    "features": {
        "app_home": {
            "home_tab_enabled": False,
            "messages_tab_enabled": True,
            "messages_tab_read_only_enabled": False,
        },
        "bot_user": {"display_name": "clew", "always_online": False},
        "slash_commands": [
            {
                "command": COMMAND,
                "description": "A command for clew",
                "usage_hint": "new | status | stop | help",
                "should_escape": True,
            }
        ],
    },
    "oauth_config": {"scopes": {"bot": list(SCOPES)}},
    "settings": {
        "event_subscriptions": {"bot_events": list(EVENTS)},
        "interactivity": {"is_enabled": True},
        "org_deploy_enabled": False,
        "socket_mode_enabled": True,
        "token_rotation_enabled": False,
    },
}
"""What Slack's "Create an app from a manifest" takes."""


def introduce() -> str:
    """What a person has to do at Slack before there are tokens."""
    return (
        "clew needs a Slack app of its own. At api.slack.com/apps choose Create New App, then From "
        "a manifest, and paste this as JSON:\n\n"
        f"{json.dumps(MANIFEST, indent=1)}\n\n"
        "Then get its two tokens:\n"
        "  token      Install App: the Bot User OAuth Token, xoxb-…\n"
        "  app_token  Basic Information, App-Level Tokens: generate one with the scope "
        "connections:write, xapp-…"
    )
