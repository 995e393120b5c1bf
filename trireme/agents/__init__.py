"""Agents: an MCP server over the answers of the commands."""
