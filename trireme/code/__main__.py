"""Check out a repository from the command line, as a container that runs before a program does.

python -m trireme.code [--secret NAME] [--directory PATH] [--submodules all|none|PATH,...]
                        [--data-at PATH --data FOLDER] URL REVISION DESTINATION
"""

import argparse
from pathlib import Path

from trireme.code.data_link import link
from trireme.code.git import checkout
from trireme.last_words import last_words

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m trireme.code")
    parser.add_argument("--secret", default="")
    parser.add_argument("--directory", default="")
    parser.add_argument("--data-at", default="")
    parser.add_argument("--data", default="")
    parser.add_argument("--submodules", default="all")
    parser.add_argument("url")
    parser.add_argument("revision")
    parser.add_argument("destination", type=Path)
    arguments = vars(parser.parse_args())
    at, data = arguments.pop("data_at"), arguments.pop("data")
    with last_words():
        result = checkout(**arguments)
        if at:
            link(Path(result.path), at, data, arguments["destination"])
        print(result.commit)
