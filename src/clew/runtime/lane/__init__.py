"""One session does one thing at a time, in however many processes.

`lanes` has a `lane` for each session in which this process has something to do. The lane takes work
from its `queue`; `order` tells who is next where other processes have messages too, `lease` gives
the right to write. `turn` is what the agent sees of a turn; `turn_runner` has it run to its end.
`questions` are approvals that turns wait for, `subagents` are turns that turns begin. `parts` is
what all of them work with.
"""
