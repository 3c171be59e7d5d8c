"""From a channel, a key, the API or a terminal to the inbox, and from there to a lane.

`reception` is the entrance: `decision` decides how to handle a message, the `inbox` stores it with
the decision, and then it is carried out: as a turn, or as a command (`commands`). `approvals` reads
messages as answers to a tool's question; `pairing` admits strangers; `links` connects keys to one
session.
"""
