"""Check out a repository from the command line, as a container that runs before a program does.

python -m trireme.code [--secret NAME] [--directory PATH] [--submodules all|none|PATH,...]
                       URL REVISION DESTINATION
"""

import argparse
from pathlib import Path

from trireme.code.git import checkout
from trireme.tracked_step import last_words

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m trireme.code")
    parser.add_argument("--secret", default="")
    parser.add_argument("--directory", default="")
    parser.add_argument("--submodules", default="all")
    parser.add_argument("url")
    parser.add_argument("revision")
    parser.add_argument("destination", type=Path)
    with last_words():
        print(checkout(**vars(parser.parse_args())).commit)
