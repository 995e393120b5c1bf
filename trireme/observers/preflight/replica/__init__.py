"""What runs in the replicas: Python's standard library alone, 3.8 and newer, in any image."""
