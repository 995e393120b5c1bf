"""What programs print, of which metrics and progress are read: trireme/observers/printed/."""

from pathlib import Path

from fuzzing import changed_text, fuzz, read_or_refused
from hypothesis import strategies as st

from trireme.observers.printed.reader import Reader
from trireme.observers.progress import Course

PRINTED = Path(__file__).parents[1] / "unit" / "observers" / "printed"
LINES = [
    *(line for file in PRINTED.glob("*.txt") for line in file.read_text().splitlines()[-40:]),
    "epoch 3/10 loss 0.5",
    "Epochs:  30%|###| 3.5k/10M [00:12<00:15,  3.62s/it]",
    "Epoch [3/10], Step [450/1000], Loss: 0.3",
    "Train Epoch: 1 [640/60000 (1%)]",
    "{'loss': 0.5, 'epoch': 1.2}",
    "step 1K/2m",
]


def read(lines):
    course, reader = Course(), Reader()
    for number, line in enumerate(lines):
        course.read(line, number / 3)
        reading = reader.read(line)
        assert all(reading.metrics) if reading else True
        now = course.progress()
        assert now is None or now.share is None or 0 <= now.share <= 1
        assert now is None or len(now.words) < 200


@fuzz(100, lines=st.lists(changed_text(LINES), max_size=30))
def test_any_lines_are_read(lines):
    read_or_refused(read, lines)
