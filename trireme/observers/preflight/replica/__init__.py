"""The part of the preflight that runs in any image: the standard library of Python 3.8 alone."""
