# SPDX-License-Identifier: Apache-2.0
"""What a rank with a GPU may meet. Argument: which case; test_python_cuda.py tells the rest."""
import contextlib
import os
import sys
import traceback

import gpu
import torch

import checks
import horovod.torch as hvd
from horovod.common.exceptions import HorovodInternalError
from reigen.torch import _device


def killed():
    """The stand-in kills rank 1 in its third operation by NCCL."""
    hvd.init()
    gpu.set_device(hvd.rank())

    def forever():
        for turn in range(1000):
            hvd.allreduce(torch.ones(1000).cuda(), name=f'k{turn}')

    error = checks.raises(HorovodInternalError, forever, 'rank 1')
    assert not isinstance(error, ValueError)
    checks.raises(HorovodInternalError, lambda: hvd.allgather(torch.ones(3).cuda()), 'rank 1')
    hvd.shutdown()


def memory():
    """More than the device has is an error on all ranks."""
    hvd.init()
    gpu.set_device(hvd.rank())
    tensor = torch.ones(3 << 18).cuda()  # 3 MiB of 8, and as many again of the other rank
    checks.raises((HorovodInternalError, gpu.OutOfMemory), lambda: hvd.allgather(tensor),
                  'memory')
    hvd.shutdown()


@contextlib.contextmanager
def no_memory():
    """The device has none for results."""
    def refuse(*_):
        raise gpu.OutOfMemory('CUDA out of memory')

    _device.empty, before = refuse, _device.empty
    try:
        yield
    finally:
        _device.empty = before


def shutdown():
    """What is in flight then is told of, and after another init all works again."""
    for turn in range(3):
        hvd.init()
        gpu.set_device(hvd.rank())
        if hvd.rank() == 0:
            handle = hvd.allreduce_async(torch.ones(9).cuda(), name='never')
        total = hvd.allreduce(torch.ones(5).cuda(), name='x', op=hvd.Sum)
        assert (total.cpu() == hvd.size()).all()
        # One that has ended, and whose name is another one's, has its outcome still.
        late = hvd.allreduce_async(torch.ones(5).cuda(), name='late', op=hvd.Sum)
        hvd.barrier()
        hvd.synchronize(hvd.allreduce_async(torch.ones(6).cuda(), name='late', op=hvd.Sum))
        lost = hvd.allgather_async(torch.ones(5).cuda(), name='lost')
        hvd.barrier()
        hvd.synchronize(hvd.allgather_async(torch.ones(6).cuda(), name='lost'))
        size, rank = hvd.size(), hvd.rank()
        with no_memory():
            hvd.shutdown()
        assert (hvd.synchronize(late).cpu() == size).all()
        checks.raises(HorovodInternalError, lambda: hvd.synchronize(lost), 'out of memory')
        if rank == 0:
            checks.raises(HorovodInternalError, lambda: hvd.synchronize(handle), 'shut down')


def forked():
    """A child of a process that uses a GPU cannot use it; its CPU tensors work."""
    hvd.init()
    hvd.allreduce(torch.ones(3).cuda(), name='x')
    hvd.shutdown()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for name in ('RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT'):
                os.environ.pop(name, None)
            hvd.init()
            assert (hvd.allreduce(torch.ones(3)) == 1).all()
            assert (hvd.allgather(torch.ones(0)).shape) == (0,)
            checks.raises(ValueError, lambda: _device.enter(0, 0), 'fork')
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def refused():
    """No driver, one that is too old, or no device: the text is the second argument's."""
    hvd.init()
    try:
        _device.enter(0, 0)
    except ValueError as error:
        assert sys.argv[2] in str(error), error
    else:
        raise AssertionError('the device can be used')
    assert hvd.cuda_built() == (sys.argv[3] == 'driver')
    assert (hvd.allreduce(torch.ones(3), op=hvd.Sum) == hvd.size()).all()
    hvd.shutdown()


def broken():
    """An uncorrectable error of the GPU's memory is told of, and nobody hangs."""
    hvd.init()
    gpu.set_device(hvd.rank())

    def forever():
        for turn in range(2000):
            hvd.allreduce(torch.ones(1000).cuda(), name=f'b{turn}')

    try:
        forever()
    except (HorovodInternalError, AssertionError, RuntimeError) as error:
        print(f'as wanted: {error}', flush=True)
        # What cannot be given back to a broken device stays.
        os._exit(0)
    raise AssertionError('the GPU has not failed')


globals()[sys.argv[1]]()
