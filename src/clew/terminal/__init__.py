"""The terminal: what a person sees and types there. Rules live in the runtime and in core."""
