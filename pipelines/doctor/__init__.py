"""What this machine and a cluster have for Trireme, what that allows, and what is missing."""
