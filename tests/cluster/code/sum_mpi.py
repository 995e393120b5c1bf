"""Adds up over all ranks of MPI."""

from mpi4py import MPI

total = MPI.COMM_WORLD.allreduce(1)
print(f"rank {MPI.COMM_WORLD.rank}: the sum is {total}", flush=True)
