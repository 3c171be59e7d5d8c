"""Decisions about messages on channels, in the order in which they are made for a message.

`incoming` is the message. `people` says who wrote it, `triggers` and `commands` (one folder up)
what it asks for, `routing` which agent and key it is for, `resets` whether a new session begins,
and `session_choice` combines these. Then `replies` says where answers go, `send_policy` whether
they are delivered, and `approvals` how the owner is asked and answers on a channel.
"""
