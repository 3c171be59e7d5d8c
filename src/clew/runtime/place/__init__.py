"""Which session belongs to a place, and how a terminal gets from one to another.

directories   the key of a directory, and the session that it leads to; directories that moved
resume        the session that `--resume VALUE` and `--continue` mean
begin         begins a session, also when the reset rule ends the last one
switch        from one session to another, undoing all steps on failure; leaving
attachment    the sessions that a terminal of this process holds exclusively

`Surface` (in `begin`) is the caller's side: directory, key, person. What a terminal shows, and what
it remembers between two calls, is kept in `terminal.seat`.
"""
