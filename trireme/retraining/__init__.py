"""Compare what a training would learn from with what the last one has learnt from."""
