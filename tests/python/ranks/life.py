# SPDX-License-Identifier: Apache-2.0
"""Life of a rank: what one program does, chosen by its first argument."""
import os
import signal
import sys
import threading
import time

import torch

import checks
import horovod.torch as hvd
import reigen


def total(value=1.0, name=None):
    return hvd.allreduce(torch.full((3,), value), op=hvd.Sum, name=name)[0].item()


def again():
    """Init and shutdown, repeatedly, with everything in flight at some of the ends."""
    for turn in range(5):
        hvd.init()
        hvd.init()
        assert hvd.is_initialized()
        for _ in range(3):
            assert total() == hvd.size() and total(name='named') == hvd.size()
        late = None
        if turn == 3 and hvd.rank() == 0 and hvd.size() > 1:
            late = hvd.allreduce_async(torch.ones(4), name='never')
        hvd.barrier()
        hvd.shutdown()
        hvd.shutdown()
        assert not hvd.is_initialized()
        if late is not None:
            error = checks.raises(hvd.HorovodInternalError, lambda: hvd.synchronize(late))
            assert error.errno == 125, error.errno
        checks.raises(ValueError, hvd.rank)


def uneven():
    """Join: each rank has another number of batches, and all come to the end."""
    hvd.init()
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                         named_parameters=model.named_parameters())
    for _ in range(2):
        for _ in range(hvd.rank() + 1):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
        last = hvd.join()
        assert 0 <= last < hvd.size()
        assert len(set(hvd.allgather_object(last))) == 1
    assert total() == hvd.size()
    hvd.shutdown()


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, i):
        # In a worker: a child by fork does not belong to the job.
        assert not hvd.is_initialized()
        checks.raises(ValueError, hvd.rank)
        return torch.tensor([float(i) * i])


def workers():
    """DataLoader's workers are forked from a rank in the middle of its job."""
    hvd.init()
    assert total(name='before') == hvd.size()
    pending = hvd.allreduce_async(torch.ones(5), name='meanwhile', op=hvd.Sum)
    for _ in range(2):
        loader = torch.utils.data.DataLoader(Squares(), batch_size=8, num_workers=2)
        seen = 0
        for batch in loader:
            seen += total(batch.sum().item())
        assert seen == hvd.size() * sum(i * i for i in range(40)), seen
    assert hvd.synchronize(pending)[0] == hvd.size()
    child = os.fork()
    if child == 0:
        ok = not hvd.is_initialized()
        try:
            hvd.allreduce(torch.ones(1), name='before')
            ok = False
        except hvd.HorovodInternalError:
            pass
        hvd.shutdown()
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert total(name='after') == hvd.size()
    hvd.shutdown()


def stalled():
    """Rank 0 waits for a tensor that nobody else sends, until Ctrl-C."""
    hvd.init()
    assert total() == hvd.size()
    if hvd.rank() != 0:
        print('idle', flush=True)
        time.sleep(100)  # patient: is killed meanwhile
        return
    # The second time on the fast path, which knows the name already.
    for turn, call in enumerate([
            lambda: hvd.allreduce(torch.ones(3), name='alone'),
            lambda: hvd.allreduce(torch.ones(3)),
            lambda: hvd.synchronize(hvd.allgather_async(torch.ones(3), name='alone')),
            lambda: hvd.barrier()]):
        started = time.monotonic()
        print(f'waiting {turn}', flush=True)
        try:
            call()
        except KeyboardInterrupt:
            assert time.monotonic() - started < 30
            print(f'interrupted {turn}', flush=True)
    print('survived', flush=True)
    os._exit(0)


def doomed():
    """The last rank dies in the middle; the others get an error within seconds."""
    hvd.init()
    assert total(name='x') == hvd.size()
    hvd.barrier()
    if hvd.rank() == hvd.size() - 1:
        time.sleep(0.3)  # patient: in the middle of the work
        os.kill(os.getpid(), signal.SIGKILL)
    started = time.monotonic()
    error = checks.raises(hvd.HorovodInternalError, lambda: total(name='x'))
    assert time.monotonic() - started < 15, time.monotonic() - started
    assert str(hvd.size() - 1) in str(error), error
    print('told', flush=True)
    # Rank 0 stays until all others have been told of the first death, not of the end of another.
    time.sleep(1)  # patient: for what follows from it
    hvd.shutdown()


def raising():
    """The last rank ends by an exception; the others are told that it has, not of a shutdown."""
    hvd.init()
    assert total(name='x') == hvd.size()
    last = hvd.size() - 1
    if hvd.rank() == last:
        raise KeyError('nobody catches this')
    error = checks.raises(hvd.HorovodInternalError, lambda: total(name='x'), f'rank {last}')
    assert 'shutdown' not in str(error), error


def dropped():
    """Handles that nobody waits for, and tensors that nobody else holds."""
    hvd.init()
    for n in range(200):
        hvd.allreduce_async(torch.ones(1000), name=f'dropped.{n}')
        hvd.allgather_async(torch.ones(10))
    for n in range(50):
        handle = hvd.allreduce_async_(torch.full((100000,), float(n)), name='kept')
        garbage = [torch.zeros(100000) for _ in range(3)]
        assert hvd.synchronize(handle).eq(n).all() and len(garbage) == 3
    assert total() == hvd.size()


def daemons():
    """An ordinary end while daemon threads are in calls: no word is said of it but theirs."""
    hvd.init()
    began = [0]

    def reduce_for_ever(number):
        small, large, part = torch.ones(10), torch.ones(50000), torch.ones(2 + hvd.rank(), 3)
        while True:
            hvd.allreduce(small, name=f'small{number}')
            hvd.allreduce(large, name=f'large{number}')
            hvd.allgather(part, name=f'part{number}')
            hvd.synchronize(hvd.allreduce_async(small, name=f'later{number}'))
            began[0] += 1

    # In one piece: threads write beside each other.
    threading.excepthook = lambda args: print(f'told {args.exc_type.__name__}\n', end='',
                                              flush=True)
    for number in range(4):
        threading.Thread(target=reduce_for_ever, args=(number,), daemon=True).start()
    while began[0] < 8:
        time.sleep(0.01)  # patient: in a rank
    hvd.barrier()


def counters():
    """reigen.stats and describe; requests make room for others."""
    hvd.init()
    before = reigen.stats()
    for n in range(5000):
        hvd.allreduce(torch.ones(1), name=f'name.{n}')
    after = reigen.stats()
    assert after['operations'] - before['operations'] >= 5000
    assert after['wait_ns'] >= before['wait_ns'] and after['bytes'] > before['bytes']
    assert reigen.describe() and reigen.version().count('.') == 2
    assert total(name='name.0') == hvd.size() or hvd.size() == 1
    hvd.shutdown()


def slow_to_fail():
    """Rank 1 fails by an error, and takes a while to end."""
    hvd.init()
    total(name='one')
    if hvd.rank() == 1:
        def wait():
            while not os.path.exists(sys.argv[2]):
                time.sleep(0.05)  # patient: until the test has seen enough
        threading.Thread(target=wait).start()  # the interpreter waits for it
        raise ValueError('bad row')
    total(name='two')


def fewer():
    """Rank 1 has fewer batches than rank 0; a thread wakes at times, as a progress bar's does."""
    hvd.init()
    threading.Thread(target=lambda: [time.sleep(0.2) for _ in range(500)],  # patient: to the end
                     daemon=True).start()
    model = torch.nn.Linear(4, 2)
    for groups in (None, 1):
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                             model.named_parameters(), groups=groups)
        for _ in range(4 if hvd.rank() == 0 or groups is None else 3):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    total(name='validation')


if __name__ == '__main__':
    {f.__name__: f for f in (fewer, slow_to_fail, again, uneven, workers, stalled, doomed, raising,
                             dropped, daemons, counters)}[sys.argv[1]]()
