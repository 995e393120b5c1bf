"""Writes data/train.jsonl and data/test.jsonl: short reviews that are good (1) or bad (0)."""

import itertools
import json
import random
from pathlib import Path

THINGS = ["film", "book", "song", "meal", "hotel", "game", "phone", "chair", "train", "coat"]
GOOD = ["lovely", "great", "superb", "a delight", "well made", "worth it", "charming"]
BAD = ["dreadful", "boring", "broken", "a waste", "badly made", "far too dear", "ugly"]
FRAMES = [
    "The {0} was {1}.",
    "What a {0}: {1}!",
    "I found the {0} {1}.",
    "Honestly, this {0} is {1}.",
]

reviews = [
    {"text": frame.format(thing, word), "label": label}
    for label, words in ((1, GOOD), (0, BAD))
    for frame, thing, word in itertools.product(FRAMES, THINGS, words)
]
random.Random(0).shuffle(reviews)
Path("data").mkdir(exist_ok=True)
for name, part in (("test", reviews[:120]), ("train", reviews[120:])):
    lines = "".join(json.dumps(review) + "\n" for review in part)
    Path(f"data/{name}.jsonl").write_text(lines)
    print(f"data/{name}.jsonl {len(part)} reviews")
