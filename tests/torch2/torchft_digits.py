# SPDX-License-Identifier: Apache-2.0
"""examples/torchft_ddp.py, whose replicas stay at step 60, and a lone one at step 80, until
FOLDER/go.60 and FOLDER/go.80 are there.

usage: torchft_digits.py FOLDER [options of the example]
"""
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[2] / 'examples'), str(HERE.parents[1])]
import torchft_ddp as example  # noqa: E402
from wait import until  # noqa: E402

FOLDER = Path(sys.argv.pop(1))


class Training(example.Training):
    def train(self, steps):
        print(f'pid {os.getpid()}', flush=True)
        super().train(steps)

    def after(self, step, loss):
        super().after(step, loss)
        if step in (60, 80):
            until((FOLDER / f'go.{step}').exists, f'go.{step}', 100)


example.main(Training)
