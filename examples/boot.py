# SPDX-License-Identifier: Apache-2.0
"""Processes that multiprocessing starts become ranks of one job: python examples/boot.py"""
import itertools
import multiprocessing

import numpy as np

import reigen
from reigen import boot


def work(index, size, table, barrier):
    turns = itertools.count()

    def allgather(blob, timeout):
        turn = next(turns)
        table[turn, index] = blob
        barrier.wait(timeout)
        return [table[turn, i] for i in range(size)]

    boot.join(allgather, index, size)
    total = reigen.allreduce(np.array([index + 1.0]), op=reigen.Sum)
    print(f'rank {reigen.rank()} of {reigen.size()}: {total[0]:g}')
    reigen.shutdown()


if __name__ == '__main__':
    here = multiprocessing.get_context('spawn')
    with here.Manager() as manager:
        shared = manager.dict(), here.Barrier(4)
        processes = [here.Process(target=work, args=(i, 4, *shared)) for i in range(4)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
