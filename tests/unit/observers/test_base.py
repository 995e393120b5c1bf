"""trireme/observers/base.py: what an observer may have recorded."""

import pytest

from trireme.observers.base import Findings, Observer


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"metrics": {"loss": "0.5"}}, "metrics: loss '0.5' is no number"),
        ({"tags": {"alarm": True}}, "tags: alarm True is no text"),
        ({"tags": "alarm"}, "tags: 'alarm' has no names"),
        ({"words": "the loss is no number"}, "words: 'the loss is no number' is no list of texts"),
        ({"words": ["it is", 3]}, "words: 3 is no text"),
    ],
)
def test_what_cannot_be_recorded_is_refused_by_name(given, said):
    kept = []
    observer = Observer()
    observer.recorder = kept.append
    with pytest.raises(TypeError, match=f"^{said}$"):
        observer.record(**given)
    assert kept == []
    observer.record(metrics={"loss": 0.5}, tags={"alarm": "loss"}, words=["it is"])
    assert kept == [Findings({"loss": 0.5}, {"alarm": "loss"}, ["it is"])]
