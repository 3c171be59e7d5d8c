"""Other programs on top of clew: an MCP server, and the store of other programs' conversations.

mcp_server ─► client                        what `clew mcp` serves to other agents
Conversation ─► ports.Store                 one conversation under a key, for one's own agent
openai_agents.ClewSession ─► Conversation   the Session of the OpenAI Agents SDK
claude.ClewSessionStore ─► FrameworkStore   the session store of the Claude Agent SDK
pydantic_ai.ClewConversationStore ─► …      the conversation store of pydantic-ai
adk.ClewSessionService ─► FrameworkStore    the session service of Google's ADK
langgraph.ClewSaver ─► FrameworkStore       the checkpointer of LangGraph

Each framework has a module of its own, which is imported only when it is used, and an extra. What a
framework stores is a session like any other: people list, read and search it. The framework's own
item is kept beside the readable message, and given back exactly.
"""
