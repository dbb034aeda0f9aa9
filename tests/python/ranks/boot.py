# SPDX-License-Identifier: Apache-2.0
"""A process that joins by files: boot.py FOLDER INDEX SIZE MACHINE"""
import itertools
import sys
import threading
from pathlib import Path

import numpy as np

import reigen
from reigen import boot

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from wait import until  # noqa: E402

folder, index, size, machine = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
turns = itertools.count()


def allgather(blob, timeout):
    turn = next(turns)
    new = folder / f'{turn}-{index}.new'
    new.write_bytes(blob)
    new.rename(folder / f'{turn}-{index}')
    files = [folder / f'{turn}-{i}' for i in range(size)]
    until(lambda: all(file.exists() for file in files), 'the files of all', timeout)
    return [file.read_bytes() for file in files]


def stands(blob, timeout):
    print('waits', flush=True)
    threading.Event().wait()


if machine == 'stands':
    boot.join(stands, index, size)
boot.machine = lambda: [machine, 'name']
rank = boot.join(allgather, index, size)
assert rank == reigen.rank() and size == reigen.size()
total = reigen.allreduce(np.array([index + 1.0]), op=reigen.Sum)
reigen.init()  # as a script does: it has joined
print(f'rank {rank} on {machine}: {total[0]:g}, {reigen.local_rank()} of {reigen.local_size()}')
try:
    boot.join(allgather, index, size)
except reigen.HorovodInternalError as error:
    print('again:', error)
reigen.shutdown()
