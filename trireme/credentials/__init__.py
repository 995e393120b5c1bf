"""Secrets, certificates, and what of them somebody else's program is not given."""
