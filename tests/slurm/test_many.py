# SPDX-License-Identifier: Apache-2.0
"""Sixteen nodes without containers, GPUs and munge."""
import re

import pytest
from bed import SlurmCluster

from built import PROGRAMS
from jobs import READY, end, seconds_until_gone, start, write_script

NNODES = 16
NAMES = [f'node{i}' for i in range(1, NNODES + 1)]
# As a job's key stands on standard input of its agents.
KEY = re.compile(r'\b[0-9a-f]{64}\b')


@pytest.fixture(scope='module')
def sixteen():
    with SlurmCluster(NNODES, gpus=0, munge=False) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def nothing_stays(sixteen):
    yield
    sixteen.assert_clean()
    sixteen.wait_idle(timeout=30)


def on_all(*command):
    return ['salloc', '--quiet', f'-N{NNODES}', f'-n{NNODES}', PROGRAMS.reigen, 'run', '--on',
            'slurm', '--', *command]


def test_ranks_are_numbered_in_the_nodes_order(sixteen):
    done = sixteen.head.run(on_all('sh', '-c', 'echo $REIGEN_RANK $(hostname)'), timeout=READY)
    assert done.returncode == 0, done.stderr
    told = [re.sub(r'^\[\d+\] ', '', line).split() for line in done.stdout.splitlines()]
    assert sorted(told, key=lambda each: int(each[0])) == [[str(r), name]
                                                           for r, name in enumerate(NAMES)]


def test_srun_docker_runs_its_script_once_for_all_nodes(sixteen):
    script = write_script(sixteen, 'echo $np $hostlist; hostname; exit 3')
    done = sixteen.head.run(['srun', f'-N{NNODES}', f'-n{NNODES}', PROGRAMS.reigen, 'srun-docker',
                             '--container-runtime=none', f'--script={script}'], timeout=READY)
    hosts = ','.join(f'{name}:1' for name in NAMES)
    assert (done.returncode, done.stdout) == (3, f'{NNODES} {hosts}\nnode1\n'), done.stderr


def test_the_death_of_one_of_many_agents_ends_all_and_no_key_is_seen(sixteen):
    job = start(sixteen.head, on_all('sh', '-c', 'echo here; sleep 1000'))
    try:
        for _ in NAMES:
            assert 'here' in job.stdout.readline()
        seen = [text for node in sixteen.hosts for text in words_and_variables(node)]
        assert any('reigen-agent' in text for text in seen)
        assert not [text for text in seen if KEY.search(text)]
        node = sixteen[NNODES // 2]
        agents = [pid for pid, line in node.processes().items()
                  if re.match(r'\S*reigen-agent agent', line)]
        node.run(['kill', '-KILL', str(max(agents))], user='root', check=True)
        done = end(job)
    finally:
        if job.poll() is None:
            job.kill_all()
            sixteen.cancel_all()
    assert done.returncode == 76 and node.name in done.stderr, done.stderr
    seconds_until_gone(sixteen.nodes)


def words_and_variables(node):
    """Command line and environment of each of the node's processes."""
    for entry in node.path('/proc').iterdir():
        for name in ('cmdline', 'environ') if entry.name.isdigit() else ():
            try:
                yield (entry / name).read_text(errors='replace').replace('\0', ' ')
            except OSError:
                pass  # It has ended.
