"""One turn of the agent.

`agent` chooses the model and the personality, `loop` asks the model and runs tools. `system_prompt`
and `requests` build what is sent, `answers` streams what comes back, and `model_messages` converts
both. `models` are the providers, `tools` what the model may use. `compaction` and `memory_flush`
work between the turns. This room knows the ports and core, never a store, a channel or a screen.
"""
