# SPDX-License-Identifier: Apache-2.0
"""A rank of an elastic job dies while the first group of the epoch meets, and the others go on.

usage: meeting_lost.py FOLDER told|met   rank 0 dies when it has told where its store is; or when
                                         all have reached it
"""
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from reigen import _core, _objects
from reigen.distributed import _world, in_place

FOLDER, WHEN = Path(sys.argv[1]), sys.argv[2]
names = {'told': (_objects, 'allgather_bytes'), 'met': (_world, 'enter')}
module, name = names[WHEN]
real = getattr(module, name)


def deadly(*args, **kwargs):
    if _core.rank() == 0 and not (FOLDER / 'died').exists():
        (FOLDER / 'died').touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)


setattr(module, name, deadly)
in_place()
done, failures = False, 0
while not done:
    dist.init_process_group('reigen')
    try:
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        done = True
    except RuntimeError:
        failures += 1
    finally:
        dist.destroy_process_group()
assert failures == (WHEN == 'met') and (tensor == 2).all(), (failures, tensor)
print('gone on', flush=True)
