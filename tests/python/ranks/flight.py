# SPDX-License-Identifier: Apache-2.0
"""In each epoch of an elastic job another operation is in flight when the last rank is killed. The
others tell what they got, meet again in the same process, and say what they hold then.
Arguments: the last epoch, at which all end."""
import gc
import os
import sys
import threading

import numpy as np

import reigen
from reigen import _core

LAST = int(sys.argv[1])
SMALL, LARGE = np.ones(4, np.float32), np.ones(1 << 20, np.float32)


def last():
    return reigen.rank() == reigen.size() - 1


def alone(call):
    """All but the rank that is to die call it: nothing can come of it."""
    def run():
        if last():
            threading.Event().wait()
        call()
    return run


def over_and_over(call):
    """All call it, until one of them is killed somewhere within."""
    def run():
        while True:
            call()
    return run


def join_after_others():
    if last():
        threading.Event().wait()
    if reigen.rank() == 0:
        reigen.join()
    reigen.allreduce(SMALL, name='not joined')


def in_a_set():
    """A set with the rank that dies, and one without it."""
    n = reigen.size()
    both = reigen.add_process_set([0, n - 1])
    rest = reigen.add_process_set(list(range(n - 1))) if n > 2 else 0
    number = both if reigen.rank() in (0, n - 1) else rest
    while True:
        reigen.allreduce(LARGE, name='set', process_set=number)


def never_waited_for():
    handles = [reigen.allreduce_async(SMALL if last() or i < 50 else LARGE, name=f'n{i}')
               for i in range(50 if last() else 100)]
    if last():
        threading.Event().wait()
    reigen.synchronize(handles[99])  # the others are left alone


def of_two_threads():
    """What two threads wait for."""
    failed = []

    def work():
        try:
            while True:
                reigen.allreduce(LARGE, name='thread')
        except reigen.HorovodInternalError as error:
            failed.append(error)
    thread = threading.Thread(target=work)
    thread.start()
    try:
        while True:
            reigen.allreduce(SMALL, name='main')
    finally:
        thread.join()
        assert failed


def adding_a_set():
    if last():
        threading.Event().wait()
    reigen.add_process_set([0])


def unnamed_of_all_kinds():
    turn = 0
    while True:
        for call in (reigen.allreduce, reigen.allgather, reigen.broadcast, reigen.reducescatter):
            call(LARGE if turn % 7 == 0 else SMALL)
        turn += 1


KINDS = {
    'small, alone': alone(lambda: reigen.allreduce(SMALL, name='x')),
    'large, alone': alone(lambda: reigen.allreduce(LARGE, name='x')),
    'small': over_and_over(lambda: reigen.allreduce(SMALL, name='x')),
    'large': over_and_over(lambda: reigen.allreduce(LARGE, name='x')),
    'middle': over_and_over(lambda: reigen.allreduce(LARGE[:40000], name='x')),
    'group': over_and_over(lambda: reigen.grouped_allreduce([SMALL, LARGE, SMALL], name='g')),
    'group, alone': alone(lambda: reigen.grouped_allreduce([SMALL, LARGE, SMALL], name='g')),
    'allgather': over_and_over(lambda: reigen.allgather(LARGE, name='x')),
    'broadcast': over_and_over(lambda: reigen.broadcast(LARGE, name='x')),
    'broadcast by the dead': alone(lambda: reigen.broadcast(LARGE, reigen.size() - 1, name='x')),
    'alltoall': over_and_over(lambda: reigen.alltoall(LARGE[:reigen.size() * 1000], name='x')),
    'reducescatter': over_and_over(lambda: reigen.reducescatter(LARGE, name='x')),
    'adasum': over_and_over(lambda: reigen.allreduce(LARGE, name='x', op=reigen.Adasum)),
    'barrier': alone(reigen.barrier),
    'join': alone(reigen.join),
    'join after others': join_after_others,
    'sets': in_a_set,
    'adding a set': adding_a_set,
    'never waited for': never_waited_for,
    'two threads': of_two_threads,
    'unnamed': unnamed_of_all_kinds,
}


def holds():
    gc.collect()
    with open('/proc/self/smaps_rollup') as file:
        rss = next(int(line.split()[1]) for line in file if line.startswith('Pss_Anon'))
    with open('/proc/self/maps') as file:
        # The heap is one for each kind of pages that somebody has asked for within it.
        maps = sum('[heap]' not in line for line in file)
    return (f"descriptors {len(os.listdir('/proc/self/fd'))} "
            f"threads {len(os.listdir('/proc/self/task'))} maps {maps} anonymous {rss}")


def main():
    names = list(KINDS)
    reigen.init()
    _core.go_on(failed=False)
    while True:
        number = _core.epoch().number
        total = reigen.allreduce(np.ones(1, np.float32), op=reigen.Sum, name='all')
        assert total[0] == reigen.size(), total
        if number >= LAST:
            break
        print('epoch', number, 'holds', holds(), flush=True)
        kind = names[(number - 1) % len(names)]
        reigen.barrier()
        print('epoch', number, 'at', kind, flush=True)
        try:
            KINDS[kind]()
        except reigen.HorovodInternalError as error:
            print('epoch', number, kind, 'errno', error.errno, error, flush=True)
            assert not isinstance(error, reigen.InvalidOperationError), error
        _core.go_on(failed=True)
        reigen.shutdown()
        reigen.init()
    reigen.shutdown()
    print('done', flush=True)


if __name__ == '__main__':
    main()
