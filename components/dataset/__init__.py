"""Dataset: bring a dataset into the run workspace and say exactly which bytes it holds."""
