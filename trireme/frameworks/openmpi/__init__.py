"""What takes the place of SSH between the hosts of an MPI job that runs on this machine."""
