# SPDX-License-Identifier: Apache-2.0
"""examples/ddp_elastic.py, of which all ranks stay at step 60, and later, until FOLDER/go is there.

usage: ddp_digits.py FOLDER destroy|abort [options of the example]
"""
import os
import sys
import time
from pathlib import Path

import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'examples'))
import ddp_elastic as example  # noqa: E402

FOLDER, HOLD = Path(sys.argv[1]), 60
changed = example.hosts_changed


def held():
    """The example asks after each 20 steps."""
    while True:
        if changed():
            return True
        box = [(FOLDER / 'go').exists() or training.step < HOLD]
        dist.broadcast_object_list(box)
        if box[0]:
            return False
        time.sleep(0.01)  # patient: all ranks look again together


class Training(example.Training):
    def __init__(self, folder):
        global training
        super().__init__(folder)
        training = self


if sys.argv[2] == 'abort':
    example.dist.destroy_process_group = dist.distributed_c10d._abort_process_group
print(f'place {os.environ["REIGEN_PLACE"]} on {os.environ["LOGIN"]} pid {os.getpid()}', flush=True)
example.hosts_changed, example.Training = held, Training
sys.argv[1:3] = []
example.main()
assert os.environ['WORLD_SIZE'] == os.environ['HOROVOD_SIZE']
