"""Other programs on top of clew: an MCP server, and stores of other frameworks."""
