# SPDX-License-Identifier: Apache-2.0
"""Starting ranks for the tests of the Python packages.

A program under ranks/ is a rank's side. N processes of one are started with RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT, as torchrun would, over loopback, and waited for with a time limit.
What the ranks print is shown when one fails.
"""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import preloaded
from wait import LEAST, until

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIMIT_S = 60


def build():
    """The build tree under test."""
    return Path(os.environ.get('REIGEN_TEST_BUILD', ROOT / 'build'))


def library():
    """The libreigen.so under test: named, installed beside the package, or in the build tree."""
    named = os.environ.get('REIGEN_LIBRARY')
    if named:
        return named
    found = sorted(build().glob('src/**/libreigen.so'))
    return str(found[0]) if found else None


def python():
    """The interpreter that has torch: .venv's, else Debian's."""
    venv = ROOT / '.venv/bin/python'
    return str(venv) if venv.exists() else '/usr/bin/python3'


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def begin(interpreter, argv, env, output):
    """A process of a program; PyTorch or TensorFlow is there already, if it imports one."""
    program = HERE / 'ranks' / argv[0]
    text = program.read_text() if program.suffix == '.py' else ''
    found = re.search(r'^import (?:horovod\.)?(torch|tensorflow)\b', text, re.M)
    if found:
        return preloaded.start(interpreter, [found[1]], argv, env, HERE / 'ranks', output)
    return subprocess.Popen([interpreter, *map(str, argv)], env=env, stdin=subprocess.DEVNULL,
                            stdout=output, stderr=subprocess.STDOUT, cwd=HERE / 'ranks')


class Ranks:
    """N processes of one program. Ends every one of them in the end, by its own pid.

    env: variables for all of them; more: by rank, for some. interpreter: another Python.
    """

    def __init__(self, count, argv, env=None, more=None, interpreter=None):
        port = free_port()
        self.files = [tempfile.TemporaryFile() for _ in range(count)]
        self.processes = []
        for rank in range(count):
            variables = {**os.environ, 'RANK': str(rank), 'WORLD_SIZE': str(count),
                         'LOCAL_RANK': str(rank), 'LOCAL_WORLD_SIZE': str(count),
                         'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(port),
                         'OMP_NUM_THREADS': '1', 'PYTHONUNBUFFERED': '1',
                         'PYTHONDONTWRITEBYTECODE': '1',
                         'PYTHONPATH': str(ROOT / 'bindings/python'), **(env or {}),
                         **(more or {}).get(rank, {})}
            found = library()
            if found:
                variables['REIGEN_LIBRARY'] = found
            self.processes.append(begin(interpreter or python(), argv, variables,
                                        self.files[rank]))

    def wait(self, limit=LIMIT_S):
        """The exit statuses; the test fails when a rank does not end within so many seconds, or
        more where the machine is busy."""
        try:
            until(lambda: all(p.poll() is not None for p in self.processes),
                  'the end of all ranks', limit / LEAST, self.output)
        except AssertionError:
            self.close()
            raise
        return [p.poll() for p in self.processes]

    def text(self, rank):
        return preloaded.text(self.files[rank])

    def output(self):
        return '\n'.join(f'--- rank {rank}\n{self.text(rank)[-6000:]}'
                         for rank in range(len(self.files)))

    def wait_for(self, rank, text, limit=30):
        """Until a rank has printed the text."""
        def is_there():
            there = self.processes[rank].poll() is None
            assert text in self.text(rank) or there, f'rank {rank} has ended\n{self.output()}'
            return text in self.text(rank)
        until(is_there, f'{text!r} of rank {rank}', limit, self.output)

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
