"""The two ways to run one manifest: here (local/) and on a cluster (cluster/)."""
