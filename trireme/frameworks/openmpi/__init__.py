"""A stand-in for SSH between the hosts of an MPI job that runs on this machine."""
