"""Small files of clew's own: locks on them, writing them in one step, and facts about directories.

Paths and bytes only; what a file means is known to its owner, and the database belongs to SQLite.
"""
