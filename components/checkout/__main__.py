"""Check out a repository from the command line, as a container that runs before a program does.

python -m components.checkout URL REVISION DIRECTORY
"""

import sys
from pathlib import Path

from components.checkout.git import checkout
from components.step import last_words

if __name__ == "__main__":
    with last_words():
        url, revision, directory = sys.argv[1:]
        print(checkout(url, revision, Path(directory)).commit)
