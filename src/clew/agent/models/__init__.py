"""The models: what can be named, and how each is reached.

`catalogue` is what the rest of clew sees. Importing this room imports no provider's library; that
happens when a model is opened.
"""
