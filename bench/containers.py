# SPDX-License-Identifier: Apache-2.0
"""Starting a job in containers, beside what it is made of: for bench/hosts.py.

ssh      ssh node2 true
docker   docker run --rm --network host base true
reigen   from the command to the last rank's word after the first barrier of a C program: reigen run
         -H node1:2,node2:2 --image base; agent and image are there, the containers are not
end      from that word to the end of reigen, containers removed
"""
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from starting import BUILD, REIGEN, ROOT, build_barrier, timed

sys.path.insert(0, str(ROOT / 'tests'))

from bed import Cluster  # noqa: E402 (needs the path above)

BASE = 'base'


def put_program(node):
    """The program and its library where the containers see them: in the home."""
    folder = Path(node.path('bench'))
    folder.mkdir()
    program = folder / 'barrier'
    shutil.copy(build_barrier(), program)
    shutil.copy(BUILD / 'src/coll/libreigen.so', folder / 'libreigen.so')


def job(node):
    began = time.monotonic()
    child = node.popen([REIGEN, 'run', '-H', 'node1:2,node2:2', '--image', BASE, '--env',
                        f'LD_LIBRARY_PATH={node.home()}/bench', '--',
                        f'{node.home()}/bench/barrier'],
                       stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    lines = [child.stdout.readline() for _ in range(4)]
    met = time.monotonic()
    assert all('met' in line for line in lines), lines
    assert child.wait(60) == 0
    return met - began, time.monotonic() - met


def measure(runs):
    """Medians in seconds, by the names above."""
    with Cluster(2, dockerd=True, images=[BASE]) as cluster:
        node = cluster[1]
        for each in cluster.nodes:
            put_program(each)
        times = {'ssh': [], 'docker': [], 'reigen': [], 'end': []}
        for i in range(runs + 1):  # the first is to warm up
            ssh = timed(node, ['ssh', 'node2', 'true'])[0]
            docker = timed(node, ['docker', 'run', '--rm', '--network', 'host', BASE, 'true'])[0]
            met, end = job(node)
            for name, value in zip(times, (ssh, docker, met, end) if i else ()):
                times[name].append(value)
    return {name: statistics.median(values) for name, values in times.items()}
