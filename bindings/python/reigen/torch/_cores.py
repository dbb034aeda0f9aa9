# SPDX-License-Identifier: Apache-2.0
"""Whether there are cores for a transfer beside what a rank computes."""
import os

import torch

from reigen import _core


def overlaps() -> bool:
    """True where a core is idle while PyTorch computes, or ranks are on other hosts, whose network
    needs the time. False where the ranks fill the cores: nothing is won by two threads that take
    turns at one core. The job has been joined. REIGEN_OVERLAP=0 or 1 says it."""
    chosen = os.environ.get('REIGEN_OVERLAP', '')
    if chosen in ('0', '1'):
        return chosen == '1'
    ranks = _core.local_size()
    if _core.size() != ranks:
        return True
    mine, all_cores = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    cores = mine if mine < all_cores else all_cores // ranks
    return cores > torch.get_num_threads()
