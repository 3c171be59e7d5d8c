"""The full screen: a chat in Textual. Only what is below here, and the picker, knows Textual."""
