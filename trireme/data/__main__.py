"""Stage a dataset from the command line, as a container that runs before a program does.

python -m trireme.data DATASET DIRECTORY [CACHE]

DATASET is a URI, or a description in JSON.
"""

import sys
from pathlib import Path

from trireme.data.description import Dataset
from trireme.data.staging import stage
from trireme.last_words import last_words

if __name__ == "__main__":
    with last_words():
        described, directory, *cache = sys.argv[1:]
        is_json = described.startswith("{")
        dataset = (
            Dataset.model_validate_json(described) if is_json else Dataset.from_text(described)
        )
        print(stage(dataset, Path(directory), *map(Path, cache)).fingerprint)
