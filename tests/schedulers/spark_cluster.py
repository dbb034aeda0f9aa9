# SPDX-License-Identifier: Apache-2.0
"""Spark's standalone cluster, whose hosts are addresses of the loopback: to Spark, other computers.
Within a Python that has pyspark.

usage: spark_cluster.py FOLDER ADDRESS...    prints its URL; it ends with the standard input
"""
import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyspark

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from wait import until  # noqa: E402

LIMIT = 60
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
LIBC = ctypes.CDLL(None)


#: A host's discovery of GPUs, of which it has one.
GPUS = """#!/bin/sh
echo '{"name": "gpu", "addresses": ["GPU-'$SPARK_LOCAL_IP'"]}'
"""


def _end_with_us():
    """Also where this program is killed. Executors end with their workers."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def _daemon(log, address, name, *words, **variables):
    """One of Spark's processes, and what its log says."""
    home = Path(pyspark.__file__).parent
    env = {**os.environ, 'SPARK_HOME': str(home), 'SPARK_LOCAL_IP': address, **variables}
    with open(log, 'wb') as out:
        child = subprocess.Popen(
            [home / 'bin/spark-class', f'org.apache.spark.deploy.{name}', *words, '--host', address,
             '--port', '0', '--webui-port', '0'], env=env, stdin=subprocess.DEVNULL, stdout=out,
            stderr=out, preexec_fn=_end_with_us)
    try:
        yield lambda: log.read_text(errors='replace')
    finally:
        child.terminate()
        try:
            child.wait(LIMIT)
        finally:
            child.kill()
            child.wait()


@contextlib.contextmanager
def cluster(folder, *addresses):
    """The URL of a master with a worker at each of the addresses, which has a GPU of that name."""
    discovery = folder / 'gpus'
    discovery.write_text(GPUS)
    discovery.chmod(0o755)
    gpus = ' '.join(f'-Dspark.worker.resource.gpu.{name}={value}' for name, value in (
        ('amount', 1), ('discoveryScript', discovery)))
    with contextlib.ExitStack() as stack:
        says = stack.enter_context(_daemon(folder / 'master.log', '127.0.0.1',
                                           'master.Master'))
        url, = until(lambda: re.findall(r'Starting Spark master at (\S+)', says()),
                     'Spark\'s master', LIMIT)
        until(lambda: 'New state: ALIVE' in says(), 'a master that is ready', LIMIT)
        for address in addresses:
            stack.enter_context(_daemon(
                folder / f'worker-{address}.log', address, 'worker.Worker', '--cores', '2',
                '--memory', '1g', '--work-dir', folder / f'work-{address}', url,
                SPARK_WORKER_OPTS=gpus))
        until(lambda: says().count('Registering worker') == len(addresses), 'Spark\'s workers',
              LIMIT)
        yield url


@contextlib.contextmanager
def master_of(word, folder):
    """The URL of a master: what was said, or that of a cluster of two `hosts`, which ends here."""
    if word != 'hosts':
        yield word
        return
    with cluster(folder, '127.0.0.2', '127.0.0.3') as url:
        yield url


def main():
    with cluster(Path(sys.argv[1]), *sys.argv[2:]) as url:
        print(url, flush=True)
        sys.stdin.read()


if __name__ == '__main__':
    main()
