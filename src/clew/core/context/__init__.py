"""The part of a session that is sent to a model.

`thread` chooses, repairs and trims the messages, `compaction` puts a summary in place of the older
ones, and `size` estimates how many tokens something takes.
"""
