"""A job's own test of its network, disks and versions, in its own pods before they train."""
