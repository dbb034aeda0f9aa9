# SPDX-License-Identifier: Apache-2.0
"""Large results: their values, and whether huge pages are asked for where they go.

usage: pages.py 0|1    as REIGEN_HUGE_PAGES says
"""
import sys
import threading

import torch

import checks
import horovod.torch as hvd

#: Of float32: malloc takes more than 32 MiB from the kernel each time, and gives it back.
COUNT = 9 << 20


def wanted(tensor):
    """Huge pages are asked for in the middle: "hg" among its flags in proc_pid_smaps(5)."""
    middle = tensor.data_ptr() + tensor.numel() * tensor.element_size() // 2
    here = False
    with open('/proc/self/smaps', encoding='ascii') as smaps:
        for line in smaps:
            word = line.split(' ', 1)[0]
            if word == 'VmFlags:' and here:
                return ' hg' in line
            if not word.endswith(':'):
                first, last = (int(end, 16) for end in word.split('-'))
                here = first <= middle < last
    raise AssertionError('the tensor is in no mapping')


def total(value):
    """Of value + rank over all ranks."""
    return hvd.size() * value + hvd.size() * (hvd.size() - 1) / 2


def mine(value=0.0):
    return torch.full((COUNT,), value + hvd.rank())


def good(result, value):
    assert bool((result == value).all())
    assert wanted(result) == ASKED, (wanted(result), ASKED)


def check_allreduces_in_all_their_forms():
    for _ in range(2):  # the first makes the request, and the second finds it
        good(hvd.allreduce(mine(), name='one', op=hvd.Sum), total(0))
        good(hvd.synchronize(hvd.allreduce_async(mine(1), name='two', op=hvd.Sum)), total(1))
    for result in hvd.grouped_allreduce([mine(2), mine(2)], name='group', op=hvd.Sum):
        good(result, total(2))


def check_other_operations():
    size = hvd.size()
    good(hvd.broadcast(mine(5), root_rank=0, name='broadcast'), 5)
    parts = hvd.allgather(mine(), name='gather')
    for rank, part in enumerate(parts.chunk(size)):
        good(part, rank)
    good(hvd.reducescatter(torch.full((COUNT * size,), 1.0 + hvd.rank()), name='scatter',
                           op=hvd.Sum), total(1))
    turned = hvd.alltoall(mine().repeat(size), name='alltoall')
    for rank, part in enumerate(turned.chunk(size)):
        good(part, rank)


def check_memory_in_use_is_left_alone():
    tensor, other = mine(3), torch.zeros(COUNT)
    other.fill_(1)
    hvd.allreduce_(tensor, name='in place', op=hvd.Sum)
    assert bool((tensor == total(3)).all()) and not wanted(tensor)
    assert not wanted(other)


def check_results_outlive_later_ones_as_views_and_arrays():
    first = hvd.allreduce(mine(10), name='kept', op=hvd.Sum)
    view, array = first[COUNT // 3:COUNT // 2], first.numpy()
    del first
    for step in range(3):
        later = hvd.allreduce(mine(20 + step), name='kept', op=hvd.Sum)
        assert bool((later == total(20 + step)).all())
    later.resize_(COUNT * 2)
    assert bool((later[:COUNT] == total(22)).all())
    assert bool((view == total(10)).all()) and bool((array == total(10)).all())


def check_threads_have_results_of_their_own():
    kept = {}

    def work(number):
        kept[number] = [hvd.allreduce(mine(100 * number + step), name=f'thread.{number}',
                                      op=hvd.Sum) for step in range(2)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, results in kept.items():
        for step, result in enumerate(results):
            good(result, total(100 * number + step))


if __name__ == '__main__':
    ASKED = sys.argv[1] == '1'
    hvd.init()
    checks.run(sys.modules[__name__])
    hvd.shutdown()
