"""pipelines/console.py: what of a step's log is shown where there is no terminal."""

import io

from trireme.components.progress import Progress
from trireme.pipelines.console import Console


def shown(*words: object) -> list[str]:
    """Returns what is printed of a step that prints lines, and tells how far it is."""
    stream = io.StringIO()
    console = Console(stream)
    console.started("train")
    for word in words:
        if isinstance(word, Progress):
            console.progress("train", word)
        else:
            console.lines("train", str(word))
    return stream.getvalue().splitlines()[1:]


def test_warnings_of_a_step_are_shown_and_no_others() -> None:
    assert shown("warning: no room", "[master-0] warning: a library's", "warnings") == [
        "train     warning: no room"
    ]
    assert shown("\n".join(["warning: early", *["line"] * 100_000])) == ["train     warning: early"]


def test_percent_is_told_where_the_program_tells_no_epochs() -> None:
    half = Progress(0.5, "50%")
    assert shown("[master-0] loss 1", half) == ["train     50%"]
    assert shown("[master-0] epoch 1/2 loss 1", half) == ["train     epoch 1/2 loss 1"]
