# SPDX-License-Identifier: Apache-2.0
"""Jobs on a cluster of Dask's with three workers; what became of each, as a line of JSON."""
import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path

from distributed import Client, LocalCluster

from reigen import dask

FOLDER = Path(sys.argv[1])


def work(base):
    """Within the worker's process."""
    import numpy as np

    import reigen
    reigen.init(process_sets=[[0], [1]] if base == 7 else [])
    assert len(reigen.process_set_ids()) == (3 if base == 7 else 1)
    total = reigen.allreduce(np.array([base + reigen.rank()]), op=reigen.Sum)
    return [reigen.rank(), reigen.size(), reigen.local_rank(), float(total[0]), os.getpid()]


def fails():
    import numpy as np

    import reigen
    reigen.init()
    if reigen.rank() == 1:
        raise KeyError('a bad column')
    reigen.allreduce(np.zeros(4), name='never')


def dies():
    import reigen
    reigen.init()
    if reigen.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    reigen.barrier()


def dies_alone():
    if not (FOLDER / 'died').exists():
        (FOLDER / 'died').touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 'came again'


def waits_for_a_tensor():
    import numpy as np

    import reigen
    reigen.init()
    (FOLDER / f'waits-{reigen.rank()}').touch()
    if reigen.rank() == 0:
        reigen.allreduce(np.zeros(4), name='never')
    else:
        reigen.allreduce(np.zeros(4), name='other')


def tell(name, call):
    """What it returns, or how it fails."""
    try:
        found = {'result': call()}
    except KeyboardInterrupt:
        found = {'error': 'KeyboardInterrupt', 'text': ''}
    except Exception as error:
        found = {'error': type(error).__name__, 'text': str(error)}
    print(json.dumps({'name': name, **found}), flush=True)


def interrupted(client):
    """Ctrl-C while both ranks wait in operations that do not meet; then another job."""
    def press():
        while not all((FOLDER / f'waits-{rank}').exists() for rank in range(2)):
            threading.Event().wait(0.01)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=press).start()
    dask.run(client, waits_for_a_tensor, np=2)


async def asynchronous(address):
    async with Client(address, asynchronous=True) as client:
        dask.run(client, work, (0,))


def main():
    with LocalCluster(n_workers=3, threads_per_worker=2, processes=True, dashboard_address=None,
                      local_directory=FOLDER) as cluster, Client(cluster) as client:
        tell('all', lambda: dask.run(client, work, (7,)))
        tell('two', lambda: dask.run(client, work, kwargs={'base': 1}, np=2))
        tell('named', lambda: dask.run(client, work, (0,), workers=[*client.nthreads()][:1]))
        tell('fails', lambda: dask.run(client, fails))
        tell('dies', lambda: dask.run(client, dies))
        client.wait_for_workers(3)
        tell('after', lambda: dask.run(client, work, (0,), np=3))
        tell('alone', lambda: dask.run(client, dies_alone, np=1))
        client.wait_for_workers(3)
        tell('interrupted', lambda: interrupted(client))
        tell('again', lambda: dask.run(client, work, (0,), np=2))
        tell('few', lambda: dask.run(client, work, (0,), np=4, timeout=1))
        tell('none', lambda: dask.run(client, work, (0,), workers=['tcp://127.0.0.1:1']))
        tell('twice', lambda: dask.run(client, work, (0,), workers=[*client.nthreads()] * 2))
        tell('async', lambda: asyncio.run(asynchronous(cluster.scheduler_address)))
        tell('zero', lambda: dask.run(client, work, (0,), np=0))


if __name__ == '__main__':
    main()
