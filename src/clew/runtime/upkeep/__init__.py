"""Work before and after the turns of a session.

`after_turn` is called before and after every turn: it makes titles, runs `compaction`, and records
what that cost (`usage`). It also has the retention pass at the start of the program.
"""
