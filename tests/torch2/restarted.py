# SPDX-License-Identifier: Apache-2.0
"""Ranks of a group in the in-process restart of nvidia-resiliency-ext: rank 1 raises in the first
turn, as soon as it has the group, and later in the second; rank 2 dies in the third, and the others
come to the end in the fourth."""
import os
import signal
from datetime import timedelta

import torch
import torch.distributed as dist
from nvidia_resiliency_ext import inprocess

BASE, SOON = None, timedelta(seconds=0.5)


@inprocess.Wrapper(store_kwargs={'port': int(os.environ['WRAPPER_PORT'])},
                   monitor_thread_interval=SOON, monitor_process_interval=SOON,
                   last_call_wait=SOON)
def train(call_wrapper: inprocess.CallWrapper = None):
    global BASE
    rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
    BASE = BASE or dist.TCPStore('localhost', int(os.environ['MASTER_PORT']), is_master=rank == 0,
                                 wait_for_workers=False)
    store = dist.PrefixStore(str(call_wrapper.iteration), BASE)
    dist.init_process_group('reigen', store=store, rank=rank, world_size=size)
    if call_wrapper.iteration == 0 and rank == 1:
        raise ValueError('an early mistake of rank 1')
    for step in range(100):
        tensor = torch.ones(10000)
        dist.all_reduce(tensor)
        assert (tensor == size).all()
        if step == 50 and call_wrapper.iteration == 1 and rank == 1:
            raise ValueError('a mistake of rank 1')
        if step == 50 and call_wrapper.iteration == 2 and rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
    dist.destroy_process_group()
    print(f'rank {rank} of {size} has come to the end', flush=True)


train()
