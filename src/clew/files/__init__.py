"""Small files of clew's own: locks on them, and putting them in place in one step.

Paths and bytes only: what they say is everybody else's business, and the database is SQLite's.
"""
