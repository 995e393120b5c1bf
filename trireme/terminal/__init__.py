"""What a person sees of runs on a terminal."""
