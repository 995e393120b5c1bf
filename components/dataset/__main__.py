"""Stage a dataset from the command line, as a container that runs before a program does.

python -m components.dataset URI DIRECTORY
"""

import sys
from pathlib import Path

from components.dataset.staging import stage
from components.step import last_words

if __name__ == "__main__":
    with last_words():
        uri, directory = sys.argv[1:]
        print(stage(uri, Path(directory)).fingerprint)
