"""trireme/compiling/registry.py: how images are called."""

import pytest

from trireme.compiling import registry


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("python", ("docker.io", "library/python", "latest")),
        ("nvidia/cuda:12", ("docker.io", "nvidia/cuda", "12")),
        ("ghcr.io/trireme/base:1", ("ghcr.io", "trireme/base", "1")),
        ("localhost/base", ("localhost", "base", "latest")),
        ("r:5000/a/b/c", ("r:5000", "a/b/c", "latest")),
        ("r:5000/a:1@sha256:0f", ("r:5000", "a", "sha256:0f")),
        ("r.example.org/a@sha256:0f", ("r.example.org", "a", "sha256:0f")),
    ],
)
def test_registry_name_and_tag_of_an_image(image, parts):
    assert registry.parts(image) == parts


def test_a_registry_that_does_not_answer_tells_nothing():
    assert registry.is_there("127.0.0.1:9/none:1") is None
    assert registry.missing(["127.0.0.1:9/none:1"]) == []
