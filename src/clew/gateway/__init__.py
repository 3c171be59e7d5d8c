"""The operations over HTTP: a server, who may come in, and what goes out.

It translates. What an operation does is `api.handlers`; which operations there are is
`operations`; what a person may see is decided there, never here.
"""
