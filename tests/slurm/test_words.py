# SPDX-License-Identifier: Apache-2.0
"""What reigen says of a real Slurm's queue and allocations, and asks of it."""
import re

import pytest
from bed import SlurmCluster

from built import PROGRAMS
from jobs import end, start, wait_for
from test_on_slurm import lines, run


@pytest.fixture(scope='module')
def slurm():
    """Three nodes without Docker."""
    with SlurmCluster(3) as cluster:
        yield cluster


def test_what_would_ask_for_an_allocation_is_told_to_have_no_effect_in_one(slurm):
    options = ['--nodes', '1', '--time', '10', '--partition', 'none']
    done = run(slurm, *options, inside=['-N1', '-n1'])
    assert lines(done) and '--time, --partition: no effect, as this runs in an allocation already' \
        in done.stderr, done.stderr
    done = run(slurm, '--nodes', '1', '-np', '1', '--time', '10')
    assert lines(done) and 'no effect' not in done.stderr, done.stderr


def test_ranks_without_a_number_get_the_gpus_that_each_is_to_have(slurm):
    """One on each node, as nobody says how many."""
    slurm.wait_idle()  # else Slurm takes other nodes
    done = run(slurm, '--nodes', '2', '--gpus-per-rank', '2',
               command=['sh', '-c', 'echo $REIGEN_RANK $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES'])
    assert lines(done) == {0: ['node1', '0,1'], 1: ['node2', '0,1']}, done.stderr


def test_who_follows_a_job_in_the_queue_reads_why_it_waits(slurm):
    slurm.head.run(['salloc', '--quiet', '-N3', '--exclusive', '--no-shell'], check=True)
    wait_for(lambda: 'RUNNING' in slurm.squeue().values(), 'the allocation')
    others = set(slurm.squeue())
    number = run(slurm, '--submit', '--nodes', '2', '-np', '2',
                 command=['echo', 'hello']).stdout.strip()
    following = start(slurm.head, [PROGRAMS.reigen, 'attach', number])
    try:
        said = next(line for line in following.stderr
                    if re.search(r'pending since .*: (Resources|Priority)', line))
        assert re.match(rf'reigen: job {number} is pending since \d{{4}}-\d\d-\d\dT[\d:]{{8}}: ',
                        said), said
        slurm.ask('scancel', *map(str, others))
        done = end(following)
        assert done.returncode == 0 and done.stdout.count('hello') == 2, done
    finally:
        following.kill_all()
        slurm.cancel_all()
