"""Values and decisions: no I/O, no clock, no asyncio, and nothing about the wire.

The values are in this folder: `session`, `message`, `turn` and `changes` first. Decisions have
folders of their own: `channels` (whose message it is, which session it is for, where replies go),
`context` (what a model is given) and `search` (the query language and what it finds).
"""
