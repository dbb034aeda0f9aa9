# SPDX-License-Identifier: Apache-2.0
"""Ranks of which one stands still: some steps, then what is asked for. Without NumPy, so that any
Python runs it."""
import array
import ctypes
import faulthandler
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

from reigen import _core
from reigen._lib import lib

FIFO = os.environ.get('TEST_FIFO', '')


def allreduce(name):
    values = array.array('f', [1.0])
    shape = (ctypes.c_int64 * 1)(1)
    handle = ctypes.c_int64()
    address = values.buffer_info()[0]
    float32 = 7
    rc = lib.reigen_allreduce_async(name.encode(), address, address, float32, shape, 1, None,
                                    ctypes.byref(handle))
    assert rc == 0, _core.last_error()
    rc = lib.reigen_wait(handle, -1)
    assert rc == 0, _core.last_error()
    lib.reigen_release(handle)
    assert values[0] == _core.size(), values


def train():
    """Steps, so that there is something to derive the time from."""
    for _ in range(20):
        allreduce('grad')
        time.sleep(0.05)  # patient: a step


def load_batch():
    with open(FIFO, 'rb') as pipe:
        return pipe.read(1)


def compute():
    end = time.monotonic() + 8
    while time.monotonic() < end:   # patient: it computes
        pass


def late(where):
    """The last rank comes when the test lets it."""
    train()
    if _core.rank() == _core.size() - 1:
        print('elsewhere', flush=True)
        where()
    train()
    train()


def late_in_a_thread(where):
    """Everything happens in a thread that is not the main one."""
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(late(where)))
    thread.start()
    thread.join()
    assert outcome == [None]


def crossed():
    train()
    allreduce('a' if _core.rank() == 0 else 'b')


def around(where):
    """The program has uses of its own for signals, faulthandler, forks and children."""
    faulthandler.enable()
    own = open(os.devnull, 'w')
    faulthandler.register(signal.SIGUSR1, file=own)
    child = os.fork()
    if child == 0:
        time.sleep(0.1)  # patient: lives beside it
        os._exit(0 if not _core.is_initialized() else 1)
    with multiprocessing.get_context('fork').Pool(1) as pool:
        late(where)
        assert pool.apply(len, ('abc',)) == 3
    assert os.waitpid(child, 0) == (child, 0)
    # Nothing of it is left in a program that is started.
    shown = subprocess.run(['grep', '-h', 'SigCgt', '/proc/self/status'], stdout=subprocess.PIPE,
                           check=True)
    assert int(shown.stdout.split()[1], 16) >> 33 == 0, shown


def twice():
    """The same once more, as with an evaluation in each epoch."""
    late(load_batch)
    late(load_batch)


def taken():
    """The program has had SIGUSR1 for itself since before init, and has it still."""
    late(load_batch)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert heard == [signal.SIGUSR1], heard


heard = []
PROGRAMS = {'taken': taken, 'twice': twice,
            'load': lambda: late(load_batch), 'compute': lambda: late(compute), 'crossed': crossed,
            'thread': lambda: late_in_a_thread(load_batch), 'around': lambda: around(load_batch)}

if __name__ == '__main__':
    if sys.argv[1] == 'taken':
        signal.signal(signal.SIGUSR1, lambda signum, frame: heard.append(signum))
    _core.init()
    PROGRAMS[sys.argv[1]]()
    _core.shutdown()
    print('done', flush=True)
