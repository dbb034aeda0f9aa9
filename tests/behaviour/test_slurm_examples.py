# SPDX-License-Identifier: Apache-2.0
"""The scripts of examples/slurm, as srun-docker would start them: once, on the first of two hosts,
with hostlist and np. Two names of this computer make two hosts; tests/slurm has all of them on
simulated nodes."""
import functools
import gzip
import http.server
import os
import re
import struct
import subprocess
import threading
from collections import Counter

import built
import pytest

EXAMPLES = built.ROOT / 'examples/slurm'
PYTORCH = EXAMPLES / 'pytorch_mnode'
HOSTS = 'localhost:2,127.0.0.2:1'
LIMIT_S = 240

pytestmark = [pytest.mark.slow, pytest.mark.serial, pytest.mark.timeout(300)]


@pytest.fixture(scope='module')
def digits(tmp_path_factory):
    """A little of MNIST, in files as the original's; a name that shells and pdsh could spoil."""
    folder = tmp_path_factory.mktemp('mnist') / "100% of 'em"
    folder.mkdir()
    for kind, count in (('train', 1500), ('t10k', 300)):
        for what, head, size in (('images-idx3-ubyte', 16, 28 * 28), ('labels-idx1-ubyte', 8, 1)):
            name = f'{kind}-{what}.gz'
            data = gzip.decompress((built.ROOT / 'examples/data' / name).read_bytes())
            part = data[:4] + struct.pack('>I', count) + data[8:head + count * size]
            (folder / name).write_bytes(gzip.compress(part, 1))
    return folder


def script(name, *words, expect=0):
    done = subprocess.run(
        [built.PROGRAMS.reigen, 'run', '-H', HOSTS, '--engine', 'script', '--', PYTORCH / name,
         *words], capture_output=True, text=True, timeout=LIMIT_S, check=False,
        env=built.environment(PATH=f'{built.PROGRAMS.python.parent}:{os.environ["PATH"]}',
                              OMP_NUM_THREADS=1, CUDA_VISIBLE_DEVICES='',
                              PYTHONDONTWRITEBYTECODE=1))
    assert (done.returncode == 0) == (expect == 0), done.stdout + done.stderr
    return done


@pytest.mark.parametrize('name, words', [
    ('pytorch_hvd_mnist_example.sh', ()),
    ('pytorch_apex_mnist_example_pdsh.sh', ('--opt-level=O3',)),
])
def test_an_example_trains_on_all_ranks_for_as_many_epochs_as_asked(digits, tmp_path, name, words):
    done = script(name, '--epochs=2', '--lr=0.02', '--batch-size=32', f'--data={digits}',
                  f'--unpacked={tmp_path}/kept', *words)
    found = re.findall(r'epoch (\d)/2: accuracy (0\.\d+) on 3 ranks', done.stdout)
    assert [epoch for epoch, _ in found] == ['1', '2'], done.stdout + done.stderr
    assert float(found[-1][1]) > 0.5, done.stdout
    assert len(list((tmp_path / 'kept').iterdir())) == 4


@pytest.mark.parametrize('name', ['pytorch_hvd_mnist_example.sh',
                                  'pytorch_apex_mnist_example_pdsh.sh'])
def test_the_options_are_told_once_and_not_by_each_rank(name):
    assert script(name, '--epochs=2', '--help').stdout.count('usage: ') == 1


def test_what_is_fetched_is_fetched_once_per_node(digits, tmp_path):
    """A rank that is not the first of its node must not fetch, nor read before all is there."""
    asked = Counter()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            asked[self.path] += 1
            super().do_GET()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(
        ('127.0.0.1', 0), functools.partial(Handler, directory=str(digits)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = script('pytorch_hvd_mnist_example.sh', '--epochs=1', f'--unpacked={tmp_path}/kept',
                      f'--data=http://127.0.0.1:{server.server_port}/')
    finally:
        server.shutdown()
        server.server_close()
    assert 'on 3 ranks' in done.stdout
    # The two hosts share a disk here, so the second may find what the first has fetched.
    assert len(asked) == 4 and max(asked.values()) <= 2, asked


def test_a_rank_that_fails_ends_the_others_and_pdsh(digits, tmp_path):
    done = script('pytorch_apex_mnist_example_pdsh.sh', f'--data={digits}/none',
                  f'--unpacked={tmp_path}/kept', expect=1)
    assert 'No such file or directory' in done.stdout + done.stderr
    assert list((tmp_path / 'kept').iterdir()) == []


@pytest.mark.parametrize('name, lacks', [
    ('pytorch_dist_mnist_example.sh', 'python'), ('pytorch_hvd_mnist_example.sh', 'mpirun'),
    ('pytorch_apex_mnist_example_pdsh.sh', 'pdsh'),
])
def test_what_an_image_lacks_is_told_before_a_rank_starts(tmp_path, name, lacks):
    here = tmp_path / 'bin'
    here.mkdir()
    (here / 'dirname').symlink_to('/usr/bin/dirname')
    for program in {'python3', 'mpirun', 'pdsh'} - {lacks} - ({'python3'} if lacks == 'python'
                                                             else set()):
        (here / program).write_text('#!/bin/sh\necho started\n')
        (here / program).chmod(0o755)
    done = subprocess.run(['/bin/bash', PYTORCH / name], capture_output=True, text=True, timeout=30,
                          check=False, env={'PATH': str(here), 'hostlist': 'a:1', 'np': '1'})
    assert done.returncode == 127 and done.stdout == '', done
    assert done.stderr.startswith(f'{name}: there is no {lacks} in the container'), done
