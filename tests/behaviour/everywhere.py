# SPDX-License-Identifier: Apache-2.0
"""One command line for every platform: tests/hosts, tests/slurm and tests/kubernetes run it on
theirs with nothing changed but the word behind --on."""
import re

from bed import images
from built import PROGRAMS

IMAGE = 'localhost/trainer:1'
LIMIT = 380  # s; four copies of PyTorch start


def give(*nodes):
    """What a user has who builds such an image: train.py in the directory where it is run, too."""
    for node in nodes:
        node.write('train.py', images.TRAIN.read_text())


def run(host, platform, **options):
    """The hosts on which ranks were, by rank. `options` are for host.run(), such as what a user's
    shell has in its environment once and for all."""
    done = host.run([PROGRAMS.reigen, 'run', '--on', platform, '-np', '4', '--image', IMAGE, '--',
                     'python', 'train.py'], timeout=LIMIT, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [re.sub(r'^\[0\] ', '', line) for line in done.stdout.splitlines()]
    assert '20000 training images, 10000 test images, 4 ranks' in lines, done.stdout
    assert 'parameters: identical to the bit on all 4 ranks' in lines, done.stdout
    assert float(re.search(r'accuracy (0\.\d+)', done.stdout)[1]) > 0.9, done.stdout
    places = dict(re.findall(r'rank (\d) is on (\S+)$', done.stdout, re.M))
    assert sorted(places) == list('0123'), done.stdout
    return [places[rank] for rank in sorted(places)]
