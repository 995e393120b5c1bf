"""``trireme mcp``, by the official client: an agent finds out why a run failed, and acts on it."""

import asyncio
import json
import os
import sys
import time

import jsonschema
import pytest

from trireme.answers.schema import schema

pytest.importorskip("mcp", reason="needs the extra mcp")

from mcp import Client
from mcp.client.stdio import StdioServerParameters

pytestmark = pytest.mark.slow

FAILS = """
print("epoch 1/3 loss 0.5", flush=True)
raise ValueError("label 12 is outside of 0..9")
"""
FOREVER = "import time\nprint('started', flush=True)\ntime.sleep(600)\n"
DONE = """
import os, pathlib
pathlib.Path(os.environ["MODEL_DIR"], "weights").write_text("x")
"""


class Session:
    """A session of an agent with the server, as its client starts it."""

    def __init__(self, trireme, *words):
        home = {"TRIREME_HOME": str(trireme.home), "HOME": str(trireme.home)}
        self._server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "trireme", "mcp", *words],
            env=os.environ | home,
            cwd=trireme.home,
        )

    def run(self, steps):
        async def session():
            async with Client(self._server) as client:
                await steps(client)

        asyncio.run(session())


async def told(client, tool, **arguments):
    """Returns the answer of a tool, as its own schema and the published one have it."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content[0].text
    jsonschema.validate(result.structured_content, schema())
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def refused(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return result.content[0].text


def test_an_agent_finds_why_a_run_failed(trireme):
    (trireme.home / "train.py").write_text(FAILS)
    assert trireme.run("run", "train.py").returncode == 1

    async def steps(client):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert all(tool.annotations.read_only_hint for tool in tools.values())
        assert all(tool.description and tool.output_schema for tool in tools.values())
        assert not tools.keys() & {"start_run", "cancel_run", "resume_run", "cancel_job"}
        (run,) = (await told(client, "list_runs"))["runs"]
        assert run["state"] == "FAILED"
        found = await told(client, "explain", name=run["name"])
        assert found["cause"]["exception"] == "ValueError: label 12 is outside of 0..9"
        assert (found["cause"]["place"], found["cause"]["lies_with"]) == ("train.py:3", "program")
        logs = await told(client, "run_logs", run=run["name"], step="train", last=2)
        assert len(logs["lines"]) == 2 and logs["left_out"] > 0
        status = await told(client, "run_status", wait=5)
        assert status["has_ended"]
        assert "there is no run 'nobody'" in await refused(client, "explain", name="nobody")

    Session(trireme).run(steps)


def test_a_server_that_may_not_change_anything_does_not(trireme):
    file = trireme.home / "stolen.zip"

    async def steps(client):
        for tool in ("start_run", "cancel_run", "no_such_tool"):
            await refused(client, tool, run="latest", pipeline="train.py")
        # A value that would be an option of the command, such as one that writes a file.
        assert "pattern" in await refused(client, "explain", name=f"--bundle={file}")
        assert "pattern" in await refused(client, "compare_runs", runs=["-oyes.html", "latest"])
        await refused(client, "run_logs", run="latest", step="-x")
        await refused(client, "list_runs", target="moon")
        assert (await told(client, "list_runs"))["runs"] == []

    Session(trireme).run(steps)
    assert not file.exists()
    assert not (trireme.home / "runs").exists()


def test_a_change_is_shown_first_and_made_once(trireme):
    (trireme.home / "long.py").write_text(FOREVER)
    (trireme.home / "done.py").write_text(DONE)

    async def steps(client):
        proposed = await told(client, "start_run", pipeline="long.py")
        assert proposed["plan"]["job"]["together"]["count"] == 1
        assert not proposed["done"] and not (trireme.home / "runs").exists()
        token = proposed["confirm"]
        other = await refused(client, "start_run", pipeline="done.py", confirm=token)
        assert "confirm: is of another change" in other
        started = await told(client, "start_run", pipeline="long.py", confirm=token)
        assert started["done"] and started["run"]["state"] == "running"
        await refused(client, "start_run", pipeline="long.py", confirm=token)
        name = started["run"]["name"]
        while not any(
            step["name"] == "train"
            for step in (await told(client, "run_status", run=name))["steps"]
        ):
            time.sleep(0.2)
        proposed = await told(client, "cancel_run", run="latest")
        assert proposed["run"]["name"] == name and proposed["run"]["state"] == "running"
        now = await told(client, "cancel_run", run="latest", confirm=proposed["confirm"])
        assert now["done"] and now["run"]["state"] == "KILLED"
        assert (await told(client, "explain"))["cause"]["kind"] == "cancelled"
        assert "has ended already" in await refused(client, "cancel_run", run=name)

    Session(trireme, "--allow-changes").run(steps)


def test_a_run_is_resumed_and_a_job_cancelled(trireme):
    (trireme.home / "train.py").write_text(FAILS)
    assert trireme.run("run", "train.py").returncode == 1
    (trireme.home / "long.py").write_text(FOREVER)
    job = trireme.start("job", "submit", "--local", "--name", "long", "--entrypoint", "long.py")
    log = trireme.home / "jobs" / "long" / "logs" / "master-0.log"
    while not (log.exists() and log.read_text()):
        time.sleep(0.1)

    async def steps(client):
        assert [each["name"] for each in (await told(client, "list_jobs"))["jobs"]] == ["long"]
        assert (await told(client, "job_logs", job="long"))["lines"] == ["[master-0] started"]
        used = await told(client, "job_use", job="long")
        assert [each["name"] for each in used["replicas"]] == ["master-0"]
        proposed = await told(client, "cancel_job", job="long")
        done = await told(client, "cancel_job", job="long", confirm=proposed["confirm"])
        assert done["job"]["state"] == "cancelled"
        proposed = await told(client, "resume_run", run="latest")
        assert "without what is done: checkout" in proposed["what"]
        await told(client, "resume_run", run="latest", confirm=proposed["confirm"])
        again = await told(client, "explain")
        assert [each["what"] for each in again["tried"][:2]] == ["run", "run"]

    Session(trireme, "--allow-changes").run(steps)
    assert job.wait(30) == 143
    job.communicate()
