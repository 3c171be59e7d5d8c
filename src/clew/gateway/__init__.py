"""The gateway: the operations of the API over HTTP. It translates, and decides nothing.

A request goes through `middleware` (host, origin), `auth` (who calls, and with which scope),
`endpoints` (parameters) and `app` (the call, and its answer).
Live events: `feeds` watches a session once for all, `client_queue` holds what waits for one client,
`live` (WebSocket) and `event_streams` (SSE) send it, `stream_guard` ends it. `server` runs the
application; `running_gateway` and `owner_token` are how other processes here find it.
"""
