"""Readers of other agents' histories: one module per family, each gives clew's own lines.

`reader` says what a reader is: `find` lists the sessions of a machine without reading them, `read`
turns one into the lines of `transfer.jsonl`. `files` and `databases` open what is read, and refuse
what is not the user's own; `transcript` makes turns, ids and times of what was said. `catalogue`
has all readers, those of other packages (entry point `clew.importers`) too. None of them writes
anything, and none knows a store: `transfer.histories` imports what they read.
"""
