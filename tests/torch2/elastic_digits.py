# SPDX-License-Identifier: Apache-2.0
"""examples/pytorch_mnist_elastic.py, which keeps a record of the images that it uses.

usage: elastic_digits.py FOLDER STEP [options of the example]

Place P adds a line to FOLDER/used-P before its part of a step: which step it is, how many ranks
there are, and the images. All ranks stay at STEP, and hear of new hosts, until FOLDER/go is there.
"""
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'examples'))
import pytorch_mnist_elastic as example  # noqa: E402

hvd = example.hvd
FOLDER, HOLD = Path(sys.argv[1]), int(sys.argv[2])
PLACE = os.environ['REIGEN_PLACE']
drawn = []
train_step = example.train_step


class Sampler(hvd.elastic.ElasticSampler):
    def __iter__(self):
        drawn.clear()
        for index in super().__iter__():
            drawn.append(index)
            yield index


def recorded_step(state, images, labels):
    while state.step == HOLD and not hvd.broadcast_object((FOLDER / 'go').exists(), name='go'):
        state.check_host_updates()
        time.sleep(0.01)  # patient: all ranks look again together
    with open(FOLDER / f'used-{PLACE}', 'a', encoding='utf-8') as file:
        print(state.step + 1, hvd.size(), *drawn, file=file)
    drawn.clear()
    return train_step(state, images, labels)


print(f'place {PLACE} on {os.environ["LOGIN"]} pid {os.getpid()}', flush=True)
hvd.elastic.ElasticSampler = Sampler
example.train_step = recorded_step
sys.argv[1:3] = []
example.main()
