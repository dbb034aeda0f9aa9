# SPDX-License-Identifier: Apache-2.0
"""Exceptions that come while a process group is made, from a signal or another thread, and groups
that end beside others. Whatever comes next finds nothing of them.

usage: distributed_interrupted.py FOLDER, two ranks of torchrun
"""
import contextlib
import ctypes
import datetime
import gc
import itertools
import os
import sys
import threading
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist
from reigen import _core
from reigen.distributed import _groups, _store, _world

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from wait import until  # noqa: E402

FOLDER, ME = Path(sys.argv[1]), int(os.environ['RANK'])
LIMIT = datetime.timedelta(seconds=100)
TURNS = itertools.count()


class Interrupt(BaseException):
    """What no handler of ordinary errors holds up."""


def begin(name, rank=ME, size=2):
    dist.init_process_group('reigen', init_method=f'file://{FOLDER}/{name}', rank=rank,
                            world_size=size, timeout=LIMIT)


def works():
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert (tensor == dist.get_world_size()).all(), tensor


def interrupted(*args, **kwargs):
    raise Interrupt


def together():
    """All ranks are here: one that leaves a job would be told to another one that still joins."""
    turn = next(TURNS)
    (FOLDER / f'{turn}.{ME}').touch()
    until(lambda: all((FOLDER / f'{turn}.{rank}').exists() for rank in (0, 1)), 'the other rank')


def after(function):
    """It, and the exception when it is through on all ranks."""
    def both(*args, **kwargs):
        function(*args, **kwargs)
        together()
        raise Interrupt
    return both


def meets():
    return any(thread.name == 'reigen-init' and thread.is_alive()
               for thread in threading.enumerate())


def interrupt_main():
    main = ctypes.c_ulong(threading.main_thread().ident)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(main, ctypes.py_object(Interrupt))


@contextlib.contextmanager
def interrupt_meeting():
    """Rank 0 gets it while it waits for rank 1, which never comes to the meeting."""
    if ME == 1:
        with mock.patch.object(_core, 'init_meeting', interrupted):
            yield
        return
    thread = threading.Thread(target=lambda: (until(meets, 'the meeting'), interrupt_main()))
    thread.start()
    yield
    thread.join()


@contextlib.contextmanager
def interrupt_met():
    """It comes when the ranks have met, and the thread that has done it does not know yet."""
    meet, stop = _core.lib.reigen_init_meeting, _store.Exchanges.stop
    stopped = threading.Event()

    def met(*args):
        rc = meet(*args)
        together()
        interrupt_main()
        stopped.wait(LIMIT.total_seconds())
        return rc

    with mock.patch.object(_core.lib, 'reigen_init_meeting', met), \
            mock.patch.object(_store.Exchanges, 'stop', lambda it: (stop(it), stopped.set())):
        yield


#: Where the exception comes.
PLACES = {
    'meeting': interrupt_meeting,
    'met': interrupt_met,
    'joined': lambda: mock.patch.object(_core, '_renumber', after(_core._renumber)),
    'engine': lambda: mock.patch.object(_groups, 'Engine', after(_groups.Engine)),
    'entered': lambda: mock.patch.object(_world, 'enter', after(_world.enter)),
}


def lose(name):
    try:
        begin(name)
    except Interrupt:
        return
    raise AssertionError(f'no exception: {name}')


def places():
    """The next group is one of other ranks, and then one of the same."""
    for name, place in PLACES.items():
        with place():
            lose(name)
        gc.collect()
        assert not meets(), name
        begin(f'{name}.alone.{ME}', 0, 1)
        works()
        dist.destroy_process_group()
        begin(f'{name}.again')
        works()
        dist.destroy_process_group()
        assert not _core.is_initialized(), name


def stale():
    """A group of a job that has been left is ended when there is a new job."""
    def group(name):
        return _groups.alone(dist.FileStore(f'{FOLDER}/{name}.{ME}', 1), 0, 1, LIMIT)

    one, other = group('one'), group('other')
    one.abort()
    new = group('new')
    other.abort()
    tensor = torch.ones(3)
    new.allreduce([tensor]).wait()
    new.shutdown()
    assert not _core.is_initialized()


def crowd():
    """Two threads of rank 0 make groups, in vain, when the first one of all ends."""
    begin('crowd')
    works()
    if ME == 0:
        failures = []

        def make():
            try:
                _groups.alone(dist.PrefixStore(f'{threading.get_ident()}', store), 0, 2, LIMIT)
            except RuntimeError as error:
                failures.append(str(error))

        store = dist.FileStore(f'{FOLDER}/nobody', 2)
        threads = [threading.Thread(target=make) for _ in range(2)]
        for thread in threads:
            thread.start()
        until(lambda: len(_world._making) == 2, 'two groups that are being made')
        dist.destroy_process_group()
        for thread in threads:
            thread.join()
        assert len(failures) == 2 and all('aborted' in text for text in failures), failures
        (FOLDER / 'crowd.over').touch()
    else:
        until((FOLDER / 'crowd.over').exists, 'the end of the others')
        dist.destroy_process_group()


places()
stale()
crowd()
if ME == 0:
    print('all begun again', flush=True)
