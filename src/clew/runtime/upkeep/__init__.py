"""What is done around the turns of a session, and by no turn.

`after_turn` is asked before and after every turn. It has `titles` made and `compaction` done, and
books what that took (`usage`). `retention` is the pass at the start of the program.
"""
