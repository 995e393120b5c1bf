"""Check out code: of git, a folder, or a bundle."""
