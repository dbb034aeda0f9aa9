# SPDX-License-Identifier: Apache-2.0
"""A rank that says in one line how it was started and what it can do: JSON.

usage: boot.py [beside | asleep | late] [raise | exit | work]
    beside  mpi4py is imported, and used after init too
    asleep  likewise, and has not initialised MPI when init comes
    late    likewise, and is imported after init
    raise   the last rank raises while the others work on; exit: it ends without a word;
            work: all work on, and say their process first
"""
import json
import os
import sys
import time

WORDS = sys.argv[1:]
if 'asleep' in WORDS:
    import mpi4py
    mpi4py.rc.initialize = False
if 'beside' in WORDS or 'asleep' in WORDS:
    import mpi4py.MPI

import numpy  # noqa: E402 (after mpi4py, as users have it)
import reigen  # noqa: E402


def main():
    reigen.init()
    rank, size = reigen.rank(), reigen.size()
    described = dict(line.split(': ', 1) for line in reigen.describe().splitlines() if ': ' in line)
    found = {'rank': rank, 'size': size, 'local_rank': reigen.local_rank(),
             'local_size': reigen.local_size(), 'cross_size': reigen.cross_size(),
             'boot': described['boot'], 'nodes': described['ranks'],
             'sum': float(reigen.allreduce(numpy.full(3, rank + 1.0), op=reigen.Sum)[0])}
    if {'beside', 'asleep', 'late'} & set(WORDS):
        found['mpi'] = use_mpi(rank)
    if 'work' in WORDS:
        found['pid'] = os.getpid()
    os.write(1, f'{json.dumps(found)}\n'.encode())
    if {'raise', 'exit', 'work'} & set(WORDS):
        work_until_the_end()
    reigen.shutdown()


def use_mpi(rank):
    world = __import__('mpi4py.MPI').MPI.COMM_WORLD
    return [world.rank, world.size, world.allreduce(rank + 1)]


def work_until_the_end():
    for step in range(6000):
        if step == 5 and reigen.rank() == reigen.size() - 1 and 'work' not in WORDS:
            if 'raise' in WORDS:
                raise RuntimeError('the last rank has had enough')
            os._exit(3)
        reigen.allreduce(numpy.ones(3), name='step')
        time.sleep(0.2)  # patient: the work


main()
