"""The packages of a run: trireme/packages/requirements.py."""

import pytest
from fuzzing import EXTREMES, changed_text, corpus, fuzz, read_or_refused
from hypothesis import strategies as st

from trireme.packages import requirements

WRITTEN = [
    *("accelerate>=1.2", "torch[opt]~=2.1 ; python_version < '3.12'", "requirements/dev.txt"),
    *("code @ git+https://example.org/code.git@v1#egg=code", "uv.lock", "src/pyproject.toml"),
    *("pyproject.toml[train,gpu]", "./uv.lock:dev", ".[train]", "./a/b.tar.gz[c]", "Pipfile"),
    *("a @ file:///srv/a.whl", "https://user:token@example.org/a.whl", "-r other.txt"),
]
FILES = [file.read_text() for file in corpus("requirements", "valid-*")]


def check_file(text, folder, name="pyproject.toml", part=""):
    (folder / "pyproject.toml").write_text("")
    (folder / name).write_bytes(text.encode(errors="surrogatepass"))
    requirements.check_file(name + part, folder)
    return True


@pytest.mark.parametrize("file", corpus("requirements"), ids=lambda file: file.stem)
def test_the_corpus(file, tmp_path):
    taken = read_or_refused(check_file, file.read_text(), tmp_path)
    assert bool(taken) == file.stem.startswith("valid-")


@pytest.mark.parametrize("part", ["://", "@", "://a:", "a:", "(", "[", "a,", ";", "<1,", "' or "])
def test_a_long_requirement_takes_no_longer(part):
    for start in ("", "a", "a[", "a; python_version < ", "a>"):
        read_or_refused(requirements.check, [start + 1_000_000 // len(part) * part])


@fuzz(300, one=changed_text(WRITTEN) | st.sampled_from(EXTREMES))
def test_a_requirement_is_taken_or_refused_in_a_sentence(one):
    read_or_refused(requirements.check, [one])


@fuzz(
    100,
    text=changed_text(FILES),
    name=st.sampled_from(["pyproject.toml", "uv.lock", "a.txt"]),
    part=st.sampled_from(["", "[train]", ":dev"]),
)
def test_a_file_of_requirements_is_taken_or_refused_in_a_sentence(text, name, part, tmp_path):
    read_or_refused(check_file, text, tmp_path, name, part)
