"""The terminal: the chat, in lines or on a full screen, and the picker. It decides no rules."""
