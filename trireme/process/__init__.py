"""Processes of this machine, signals, and waiting."""
