"""The models: which can be named, and how each is reached.

`catalogue` is what the rest of clew uses; `providers` opens models of Anthropic, OpenAI, Google and
others; `embedded` is the small model inside this process, with its `engine` and `weights`.
Importing this room imports no provider's library; that happens when a model is opened.
"""
