"""Position of a program that a line tells."""

from trireme.observers.printed.position import position


def test_a_line_tells_where_it_is():
    said = position("Epoch [3/10], Step [450/1000], Loss: 0.3")
    assert said
    assert (said.epoch, said.epochs, said.done, said.total, said.share) == (3, 10, 450, 1000, 0.45)
