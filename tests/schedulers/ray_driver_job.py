# SPDX-License-Identifier: Apache-2.0
"""A cluster of Ray's with two nodes that outlives its drivers, and drivers that are to be killed.

usage: ray_driver_job.py FOLDER TEMP cluster           until SIGTERM
       ray_driver_job.py FOLDER TEMP fixed|elastic     TEMP: a short path, for Ray's sockets
"""
import os
import signal
import sys
import threading
from pathlib import Path

FOLDER, TEMP = map(Path, sys.argv[1:3])
os.environ.update(RAY_USAGE_STATS_ENABLED='0', RAY_TMPDIR=str(TEMP), RAY_worker_niceness='0',
                  TMPDIR=str(FOLDER / 'tmp'))

import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

from horovod.ray import RayExecutor  # noqa: E402

NODE = {'num_cpus': 1, 'object_store_memory': 80 << 20, 'include_dashboard': False}


def write(name, text):
    """A reader finds all of it, or no file."""
    (FOLDER / f'.{name}').write_text(text, encoding='utf-8')
    (FOLDER / f'.{name}').rename(FOLDER / name)


def waits(kind):
    """One rank waits for a tensor of the other, which waits for ever."""
    import numpy as np

    import reigen
    reigen.init()
    write(f'{kind}-{reigen.rank()}', f'{os.getpid()} {ray.get_runtime_context().get_node_id()}')
    if reigen.rank() == 1:
        threading.Event().wait()
    reigen.allreduce(np.zeros(4))


def cluster():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    nodes = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        nodes.add_node(**NODE)
        write('address', nodes.address)
        signal.pause()
    finally:
        nodes.shutdown()


def drive(kind):
    ray.init(address=(FOLDER / 'address').read_text(encoding='utf-8'))
    size = {'min_workers': 2} if kind == 'elastic' else {'num_hosts': 2}
    executor = RayExecutor(RayExecutor.create_settings(timeout_s=60), **size)
    executor.start()
    executor.run(waits, [kind])


if __name__ == '__main__':
    (FOLDER / 'tmp').mkdir(exist_ok=True)
    if sys.argv[3] == 'cluster':
        cluster()
    else:
        drive(sys.argv[3])
