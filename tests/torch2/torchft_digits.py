# SPDX-License-Identifier: Apache-2.0
"""examples/torchft_ddp.py, whose replicas wait for files in FOLDER: go.0 before the first step,
go.60 at step 60, and go.80 at step 80, if they train there. One that is started again comes to the
others when go.back is there.

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


def wait(what):
    until((FOLDER / f'go.{what}').exists, f'go.{what}', 100)


class Training(example.Training):
    def train(self, steps):
        print('beats', flush=True)  # the lighthouse knows of it
        wait(0)
        super().train(steps)

    def after(self, step, loss):
        super().after(step, loss)
        if step in (60, 80):
            wait(step)


print(f'pid {os.getpid()}', flush=True)
if (FOLDER / 'go.60').exists():
    wait('back')
example.main(Training)
