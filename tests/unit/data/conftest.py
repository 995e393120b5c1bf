import pytest


@pytest.fixture
def source(tmp_path):
    """A dataset of two files, one of them in a folder."""
    directory = tmp_path / "source"
    (directory / "folder").mkdir(parents=True)
    (directory / "a.txt").write_text("first")
    (directory / "folder" / "b.txt").write_text("second")
    return directory
