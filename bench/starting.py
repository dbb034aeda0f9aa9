# SPDX-License-Identifier: Apache-2.0
"""What hosts.py and containers.py share: the built programs, and how a command is timed."""
import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get('REIGEN_TEST_BUILD', ROOT / 'build'))
REIGEN = BUILD / 'src/programs/reigen'


def build_barrier():
    program = BUILD / 'bench-barrier'
    library = BUILD / 'src/coll'
    subprocess.run(['cc', '-O2', '-I', ROOT / 'include', '-o', program, ROOT / 'bench/barrier.c',
                    '-L', library, '-lreigen', f'-Wl,-rpath,{library}'], check=True)
    return program


def timed(node, argv):
    began = time.monotonic()
    done = node.run(argv, timeout=300)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - began, done.stdout
