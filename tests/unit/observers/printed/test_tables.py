"""Tables that programs print."""

from trireme.observers.printed.reader import Reader


def test_a_table_of_a_name_and_a_value_ends():
    head = ("       Test metric             DataLoader 0", "─" * 40)
    lines = ("        test_acc          0.9", "done", "        Total          12.5")
    reader = Reader()
    readings = [reader.read(line) for line in (*head, *lines)]
    assert [each.metrics for each in readings if each] == [{"test_acc": 0.9}]
