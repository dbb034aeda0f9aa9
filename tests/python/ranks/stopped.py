# SPDX-License-Identifier: Apache-2.0
"""Ranks that are told to stop: rank 0 waits for the others, which stand somewhere else. What a rank
says and where it stands is one line, so that it is there when somebody has heard it."""
import os
import signal
import sys
import time

from reigen import _core
from stands import allreduce


def step():
    print('there', flush=True); allreduce('grad')  # noqa: E702


def rest():
    print('there', flush=True); time.sleep(1000)  # patient: it stands # noqa: E702


_core.init()
if sys.argv[1] == 'waits' and _core.rank() == 0:
    step()
if sys.argv[1] == 'stopped' and _core.rank() == 1:
    print('there', os.getpid(), flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
rest()
