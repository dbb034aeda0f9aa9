# SPDX-License-Identifier: Apache-2.0
"""Checks of what horovod.spark.run() makes of tasks' words, without Spark: checks.py calls them."""
import io
import os
import subprocess
import sys
import types
from unittest import mock

from store_checks import raised

import reigen
from horovod.spark import runner, task
from horovod.spark.common import running
from reigen import _hub

#: Lines with colours, a title, a bell, NUL, sequences that erase and hide the cursor, a bar that is
#: drawn anew, other characters of control, and bytes that are no text.
PRINTED = (b'\x1b[31mred\x1b[0m \x1b]0;title\x07 \0 \x1b[?25lafter\n', b'half\rfull\n',
           b'form\x0cfeed \x0e \x7f \xc2\x9b5m \x1bP0;1|17/ab\x1b\\ \x1bc\n', b'one\ntwo\n',
           b'old\r\x1b[Knew\n', b'\xff\xfe \xe2\x82\xac\n', b'a\tb\x1b[1', b'm\n', b'no newline')


def shown(parts):
    out = io.StringIO()
    show = runner._Show(out, out, False)
    for part in parts:
        show.take(0, 'stdout', part)
    show.end()
    return out.getvalue()


def check_characters_of_control_are_shown_as_reigen_run_shows_them(folder):
    """However they come in parts."""
    (folder / 'printed').write_bytes(b''.join(PRINTED))
    done = subprocess.run([os.environ['REIGEN_LAUNCHER'], 'run', '-np', '2', '--', 'cat',
                           str(folder / 'printed')], stdout=subprocess.PIPE, timeout=60, check=True)
    lines = done.stdout.decode(errors='backslashreplace').split('\n')
    expected = ''.join(line.replace('[0] ', '[0]<stdout>:', 1) + '\n' for line in lines
                       if line.startswith('[0] '))
    assert expected.count('\n') >= 8 and '\0' in expected, expected
    assert shown(PRINTED) == expected, (shown(PRINTED), expected)


def check_a_stream_that_lacks_a_character_gets_an_escape(folder):
    written = io.BytesIO()
    show = runner._Show(io.TextIOWrapper(written, 'ascii'), None, False)
    show.take(1, 'stdout', 'tôt €\n'.encode())
    assert written.getvalue() == b'[1]<stdout>:t\\xf4t \\u20ac\n'


def check_an_executor_with_another_python_or_reigen_is_named(folder):
    def event(**fields):
        here = {'version': reigen.version(), 'python': '.'.join(map(str, sys.version_info[:2]))}
        return _hub.Event('here', 0, {'host': 'node7', **here, **fields}, b'')
    runner.check_fits(event())
    for fields, words in [({'python': '2.7'}, 'Python is 2.7 on node7 and'),
                          ({'version': '0.0.1'}, 'Reigen is 0.0.1 on node7 and')]:
        raised(RuntimeError, lambda fields=fields: runner.check_fits(event(**fields)), words)


def gpu_of(given, count, uuids=(), **variables):
    """Which one the second rank of a host takes."""
    variables = {'CUDA_VISIBLE_DEVICES': '', **variables}
    with mock.patch.object(task, '_gpus', given), mock.patch.dict(os.environ, variables):
        return running.gpu(types.SimpleNamespace(local_rank=lambda: 1, rank=lambda: 5), count,
                           list(uuids))


def check_a_rank_takes_the_gpu_that_spark_has_given_it(_):
    assert gpu_of([], 4) == 1 and gpu_of([], 1) == 0
    assert gpu_of(['3'], 4) == 3
    # Where fewer are visible, by their place among these.
    assert gpu_of(['3'], 2, CUDA_VISIBLE_DEVICES='2, 3') == 1
    assert gpu_of(['0'], 1, CUDA_VISIBLE_DEVICES='7') == 0
    assert gpu_of(['GPU-b'], 2, CUDA_VISIBLE_DEVICES='GPU-a,GPU-b') == 1
    assert gpu_of(['GPU-c'], 3, ['GPU-a', 'GPU-b', 'GPU-c']) == 2
    assert gpu_of(['3'], 2, HOROVOD_SPARK_USE_LOCAL_RANK_GPU_INDEX='1') == 1
    for given in ('3', 'GPU-x', 'MIG-1'):
        raised(ValueError, lambda given=given: gpu_of([given], 2), f"rank 5 the GPU '{given}', ",
               'none of the 2 that its process sees')


def check_gpus_are_named_as_their_driver_does(_):
    cuda = types.SimpleNamespace(device_count=lambda: 2, get_device_properties=lambda i: (
        types.SimpleNamespace(uuid=f'{i}a-b')))
    assert running.uuids(cuda) == ['GPU-0a-b', 'GPU-1a-b']
    cuda.get_device_properties = lambda i: types.SimpleNamespace()  # an older PyTorch
    assert running.uuids(cuda) == []
