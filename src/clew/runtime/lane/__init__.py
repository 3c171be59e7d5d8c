"""One session does one thing at a time, also with several processes.

`lane` has a lane for each session in which this process is at work. It takes work from its `queue`;
`order` says what comes next if other processes have messages too, `lease` is the right to write.
`turn` is what the agent sees of a turn, and runs it to its end. `questions` are approvals that
turns wait for, `subagents` are turns that turns start. `parts` has the parts that all of them use.
"""
