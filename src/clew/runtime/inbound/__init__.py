"""From a channel, a key, the API or a terminal to the inbox, and from there to a lane.

`reception` is the way in: `decision` says what is to be done about a message, the `inbox` keeps it
with that, and it is carried out: as a turn, or as a command (`commands`). `approvals` reads words
as answers to what a tool asks; `pairing` lets strangers in; `links` lets keys lead to one session.
"""
