"""Failures of uv: what is said of them; and what it is given of passwords and indexes."""

import subprocess

import pytest
from projects import THERE

from trireme.errors import InputError
from trireme.packages import install
from trireme.packages.uv import NotBuilt, Uv, explained


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (
            "error: No solution found when resolving dependencies\n  cause: Because you require "
            "torch==2.5.1 and torch==2.13.0+cpu, we can conclude that your requirements are "
            "unsatisfiable.",
            "requirements: torch==2.5.1, but torch==2.13.0+cpu is there already and stays",
        ),
        (
            "  cause: Because torchvision==0.15.2 depends on torch==2.0.1 and torch==2.13.0+cpu, "
            "we can\n         conclude that torchvision==0.15.2 cannot be used.",
            "requirements: torchvision==0.15.2 needs torch==2.0.1, but torch==2.13.0+cpu is there "
            "already and stays",
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because nothing was "
            "not found in the package registry and you require nothing, we can conclude that your "
            "requirements are unsatisfiable.",
            "requirements: there is no package nothing in the index",
        ),
        (
            "error: No solution found when resolving dependencies\n  cause: Because "
            "nothing-at-all was not found in the package registry\n         and you require "
            "nothing-at-all, we can conclude that your\n         requirements are unsatisfiable.",
            "requirements: there is no package nothing-at-all in the index",
        ),
        (
            "cause: Because there is no version of tiny==9 and you require tiny==9, we can "
            "conclude that your requirements are unsatisfiable.",
            "requirements: there is no package tiny==9 in the index",
        ),
    ],
)
def test_what_cannot_be_met_is_said_in_a_sentence(said, meant):
    error = explained(said, THERE)
    assert (str(error), error.exit_status) == (meant, 2)


BUILDER = """error: Failed to build `old @ file:///code/old`
  cause: The build backend returned an error
  cause: Call to `setuptools.build_meta:__legacy__.build_wheel` failed (exit status: 1)

         [stdout]
         running build_ext

         [stderr]
{}

hint: Build failures usually indicate a problem with the package or the build environment
"""


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (
            (
                "Traceback (most recent call last):",
                '  File "<string>", line 2, in <module>',
                "ModuleNotFoundError: No module named 'torch'",
            ),
            "ModuleNotFoundError: No module named 'torch'",
        ),
        (
            (
                "a.c:1: warning: unused",
                "cc1: fatal error: a.c: No such file or directory",
                "compilation terminated.",
                "error: Command '['gcc', '-c', 'a.c']' returned non-zero exit status 1.",
            ),
            "cc1: fatal error: a.c: No such file or directory",
        ),
    ],
)
def test_of_a_package_that_cannot_be_built_the_last_error_is_told(lines, why):
    said = BUILDER.format("\n".join(f"         {line}" for line in lines))
    error = explained(said, THERE, builds=True)
    assert isinstance(error, NotBuilt)
    assert str(error) == f"requirements: old @ file:///code/old cannot be built: {why}"
    assert error.output == said
    assert lines[-1] in error.detail


def test_only_what_is_in_the_way_is_blamed():
    said = (
        "Because accelerate==1.0 depends on torch>=2.0.0,<3 and on torch-geometric==1.0 and you "
        "require tqdm<4, we can conclude that your requirements are unsatisfiable."
    )
    assert "is there already" not in str(explained(said, THERE))


def test_an_index_that_does_not_answer_is_nobodys_mistake():
    said = (
        "error: Failed to fetch: https://a.example/simple/x/\n  cause: error sending request for "
        "url (https://a.example/simple/x/)\n  cause: client error (Connect)\n  cause: dns error\n"
    )
    error = explained(said, THERE)
    assert not isinstance(error, InputError)
    assert str(error).startswith("requirements: the package index does not answer: Failed to fetch")
    assert "\n" not in str(error)


def test_a_secret_that_is_not_there_is_refused(untracked, tmp_path):
    with pytest.raises(InputError, match="there is no such Secret with one of index-url"):
        Uv(tmp_path, "mine", THERE)


def test_neither_the_index_nor_its_password_reaches_what_is_shown(untracked, tmp_path, monkeypatch):
    secret = untracked / "secrets" / "mine"
    secret.mkdir(parents=True)
    (secret / "index-url").write_text("https://ada:hunter2@a.example/simple")
    commands = []

    def run(command, env, input, **more):
        commands.append(command)
        assert env["UV_DEFAULT_INDEX"] == "https://a.example/simple"
        assert input == "--extra-index-url https://ada:hunter2@a.example/simple\n"
        return subprocess.CompletedProcess(command, 1, "", "https://ada:hunter2@a.example refuses")

    monkeypatch.setattr(subprocess, "run", run)
    uv = Uv(tmp_path, "mine", THERE)
    with pytest.raises(InputError) as error:
        uv("pip", "compile")
    assert "hunter2" not in f"{commands} {error.value} {error.value.detail}"
    assert install._shown("--index-url https://ada:hunter2@a.example") == (
        "--index-url https://a.example"
    )
    assert install._shown("--find-links https://a.example/all?token=hunter2") == (
        "--find-links https://a.example/all"
    )
    said = "error: Failed to download `x @ https://a.example/x.whl?token=hunter2`\n  why? (404)"
    assert str(explained(said, THERE)).endswith("`x @ https://a.example/x.whl` why? (404)")


def test_what_this_user_requires_may_name_one(code, hostile):
    server = "https://127.0.0.1:9"
    wanted = [f"other @ {server}/x.whl?token=${{HF_TOKEN}}", f"more @ git+{server}/more.git"]
    uv = Uv(code, "", THERE, {"GIT_CONFIG_COUNT": "0"}, wanted)
    assert uv.environment["HF_TOKEN"] == uv.environment["SSH_AUTH_SOCK"] == "x"
    assert uv.environment["GIT_CONFIG_COUNT"] == "0"
    assert "AWS_SECRET_ACCESS_KEY" not in uv.environment
