"""What each operation does: functions over the store and the runtime, one module per noun.

Who calls is always at hand (`parts.Caller`): what a person may see or change is decided here.
"""
