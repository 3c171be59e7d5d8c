"""Which session belongs to a place, and how a terminal gets from one to another.

    directories   the key of a directory, and the session that it leads to; directories that moved
    resume        what `--resume VALUE` and `--continue` mean
    begin         a new session; a fresh one where the time of the last is over
    switch        from one session to another, with a way back from every step; leaving
    attachment    the sessions that a terminal of this process holds for itself

`Surface` (in `begin`) is where all this is done from. What a terminal shows, and what it remembers
between two calls, is kept in `terminal.seat`.
"""
