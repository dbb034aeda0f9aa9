# SPDX-License-Identifier: Apache-2.0
"""Horovod's documented way of using mpi4py beside it, as a rank of mpirun: JSON in one line.

usage: recipe.py [finalize]
    finalize  MPI is finalised first, and shutdown left to the end of the process
"""
import json
import os
import sys

import numpy
import reigen
from horovod.common.basics import HorovodBasics

hvd = HorovodBasics()
hvd.init()
threads = hvd.mpi_threads_supported()
from mpi4py import MPI  # noqa: E402 (after init, as the documentation has it)

assert hvd.size() == MPI.COMM_WORLD.Get_size()
sums = []
for step in range(50):
    ours = reigen.allreduce(numpy.full(70000, hvd.rank() + step, 'float32'), op=reigen.Sum)
    theirs = MPI.COMM_WORLD.allreduce(hvd.rank() + step)
    assert float(ours[0]) == float(ours[-1]) == float(theirs), (step, ours[0], theirs)
    sums.append(theirs)
found = {'threads': threads, 'enabled': hvd.mpi_enabled(), 'sum': sum(sums)}
os.write(1, f'{json.dumps(found)}\n'.encode())
if 'finalize' in sys.argv:
    MPI.Finalize()
else:
    hvd.shutdown()
