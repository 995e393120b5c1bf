"""``trireme mcp``: a server for agents."""

from typing import Annotated

import typer


def mcp(
    allow_changes: Annotated[
        bool,
        typer.Option(
            "--allow-changes",
            help="Also tools that start, resume and cancel; each shows first what it would do.",
        ),
    ] = False,
) -> None:
    """Serve runs, jobs, models and plans to an agent, by MCP on stdin and stdout; read-only.

    An agent's client starts it: claude mcp add trireme -- trireme mcp
    """
    from trireme.agents.server import server

    server(allow_changes).run("stdio")
