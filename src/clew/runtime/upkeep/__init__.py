"""What is done around the turns of a session, and by no turn.

`after_turn` is called before and after every turn: it makes titles and has `compaction` done, and
books what that cost (`usage`). It also has the retention pass at the start of the program.
"""
