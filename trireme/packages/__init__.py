"""The packages of a run: what its code requires besides what is there already."""
