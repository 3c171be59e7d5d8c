"""The public calls: every surface uses these, in process or over HTTP.

One module per noun holds its values and its rows of the table (`sessions`, `chat`, …); what a call
does is in `handlers`, imported when it is first called. `table` is the sum of the rows, `local` the
in-process transport. The gateway serves the table over HTTP, `client` calls it.
"""
