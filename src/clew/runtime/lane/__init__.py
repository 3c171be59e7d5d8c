"""One session does one thing at a time, in however many processes.

`lane` has a lane for each session in which this process has something to do. It takes work from its
`queue`; `order` says what is next where other processes have messages too, `lease` is the right to
write. `turn` is what the agent sees of a turn, and runs it to its end. `questions` are approvals
that turns wait for, `subagents` are turns that turns begin. `parts` is what all of them work with.
"""
