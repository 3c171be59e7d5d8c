"""What each operation does: functions over the store and the runtime, one module per noun.

Every handler gets the caller (`parts.Caller`) and checks what that person may see or change.
"""
