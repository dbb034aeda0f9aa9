# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder start, and how they look for what a job leaves."""
import subprocess
import time

from bed.node import finish
from built import PROGRAMS
from wait import until

READY = 60  # s, for whatever comes soon on an idle machine
# Seconds that Slurm leaves a job from SIGTERM to SIGKILL, as it does by itself: so many that what
# ends in time has been ended by us. Less than READY, since an srun whose job is cancelled before
# its step runs waits so long for that step.
KILL_WAIT = 30
GONE = 5  # s from a job's end, within which nothing of it may be left on any node
# What a machine with other work may need more.
SLACK = 15


def srun_docker(script, *words, srun=('-N2',), image='base'):
    """The command line of a user of srun_docker.sh."""
    return ['srun', *srun, PROGRAMS.reigen, 'srun-docker', f'--container={image}',
            f'--script={script}', *words]


def write_script(cluster, text, name='job.sh'):
    """A job's script in alice's home; how she names it."""
    cluster.head.write(name, f'#!/bin/sh\n{text}\n', mode=0o755)
    return f'./{name}'


def start(node, argv, **options):
    options = {'stdin': subprocess.DEVNULL, **options}
    return node.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                      errors='replace', **options)


def end(job, timeout=READY):
    """Wait for a job that start() began: a CompletedProcess; killed when its time is over."""
    try:
        out, err = job.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        job.kill_all()
        out, err = finish(job)
        raise AssertionError(f'no end within {timeout} s:\n{out}{err}') from None
    return subprocess.CompletedProcess(job.args, job.returncode, out, err)


def wait_for(done, what, timeout=READY):
    """Poll until done() is true; what it came to."""
    return until(done, what, timeout)


def left_on(nodes):
    """What runs on the nodes or lies in their dockerds."""
    found = []
    for node in nodes:
        found += [f'{node.name}: {pid} {line}' for pid, line in node.processes().items()]
        if node.dockerd:
            found += [f'{node.name}: container {name}' for name in node.containers()]
    return found


def seconds_until_gone(nodes, limit=GONE + SLACK):
    """How long it takes from now on until nothing is left on the nodes."""
    since = time.monotonic()
    while True:
        left = left_on(nodes)
        took = time.monotonic() - since
        if not left:
            return took
        assert took < limit, f'left after {took:.1f} s:\n' + '\n'.join(left)
        time.sleep(0.05)


def clean_up(cluster):
    """So that one test's failure is not another's: end what is left on the nodes."""
    if cluster.squeue():
        cluster.cancel_all()
    for node in cluster.hosts:
        pids = [str(pid) for pid in node.processes()]
        if pids:
            node.run(['kill', '-KILL', *pids], user='root')
        left = node.containers() if node.dockerd else []
        if left:
            node.docker('rm', '-f', *left)
