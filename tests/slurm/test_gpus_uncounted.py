# SPDX-License-Identifier: Apache-2.0
"""A cluster whose Slurm counts no GPUs (no GresTypes), though its nodes have two each: as with the
original srun_docker.sh, a job has all GPUs of its nodes, and a rank for each."""
import pytest
from bed import SlurmCluster
from built import PROGRAMS

from jobs import KILL_WAIT, READY, srun_docker, write_script

ASK = 'echo "$(hostname) $hostlist $np $NVIDIA_VISIBLE_DEVICES"'


@pytest.fixture(scope='module')
def uncounted():
    with SlurmCluster(2, gpus=2, gres=False, dockerd=True, images=['base'],
                      kill_wait=KILL_WAIT) as cluster:
        yield cluster


@pytest.fixture
def slurm(uncounted):
    uncounted.wait_idle()
    yield uncounted
    uncounted.assert_clean()


def with_smi(slurm, **more):
    return {'PATH': f'{slurm.tools}:/usr/local/bin:/usr/bin:/bin', **more}


def test_srun_docker_gives_all_gpus_and_a_slot_for_each(slurm):
    script = write_script(slurm, f"{ASK}; for h in node1 node2; do "
                                 "$REIGEN_RSH $h 'echo on $(hostname) $NVIDIA_VISIBLE_DEVICES'; "
                                 "done")
    done = slurm.head.run(srun_docker(script), timeout=READY, env=with_smi(slurm))
    assert done.stdout.splitlines() == ['node1 node1:2,node2:2 4 all', 'on node1 all',
                                        'on node2 all'], done.stdout + done.stderr


@pytest.mark.parametrize('words, env, wanted', [
    (['--slots_per_node=3'], {}, 'node1:3 3 all'),
    ([], {'NV_GPU': '1'}, 'node1:1 1 1'),
    ([], {'NVIDIA_VISIBLE_DEVICES': 'none', 'SLURM_CPUS_PER_TASK': '1'}, 'node1:1 1 void')])
def test_what_the_user_says_of_gpus_and_slots_counts(slurm, words, env, wanted):
    script = write_script(slurm, ASK)
    done = slurm.head.run(srun_docker(script, *words, srun=('-N1', '-n1', '-w', 'node1')),
                          timeout=READY, env=with_smi(slurm, **env))
    assert done.stdout == f'node1 {wanted}\n', done.stdout + done.stderr


def test_a_node_without_gpus_has_a_slot_for_each_core_as_ever(slurm):
    script = write_script(slurm, ASK)
    done = slurm.head.run(srun_docker(script, srun=('-N1', '-n1', '-w', 'node1')), timeout=READY)
    assert done.stdout == 'node1 node1:1 1 \n', done.stdout + done.stderr


def test_reigen_run_does_the_same_from_a_node_of_the_job(slurm):
    slurm.head.write('batch.sh', f"#!/bin/sh\n{PROGRAMS.reigen} run --on slurm --image base -- "
                                 "sh -c 'echo $REIGEN_RANK $(hostname) $NVIDIA_VISIBLE_DEVICES'\n",
                     mode=0o755)
    done = slurm.head.run(['sbatch', '--quiet', '--wait', '-N2', '-o', 'said', '-e', 'told',
                           './batch.sh'], timeout=READY, env=with_smi(slurm))
    said, told = (slurm.head.path(name).read_text(encoding='utf-8') for name in ('said', 'told'))
    found = sorted(line.split('] ')[-1] for line in said.splitlines())
    assert done.returncode == 0 and found == ['0 node1 all', '1 node1 all', '2 node2 all',
                                              '3 node2 all'], said + told + done.stderr
