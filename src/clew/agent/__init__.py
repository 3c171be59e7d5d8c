"""One turn: models, tools, personalities and the loop between them.

This room knows the ports and core, never a store, a channel or a screen.
"""
