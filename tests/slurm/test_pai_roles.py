# SPDX-License-Identifier: Apache-2.0
"""A job file of OpenPAI's on Slurm: its tasks on nodes of an allocation, followed and submitted."""
import json
import re

import everywhere
import mpis
import pai_example
import pytest
from built import PROGRAMS

LIMIT = 120


def of_original(command):
    """The original's job, whose master waits blindly and whose worker sleeps."""
    return {
        'jobName': 'horovod-job', 'image': 'base', 'virtualCluster': 'default',
        'taskRoles': [
            {'name': name, 'taskNumber': 1, 'cpuNumber': 2, 'memoryMB': 1024, 'shmMB': 256,
             'gpuNumber': 1, 'minFailedTaskCount': 1, 'minSucceededTaskCount': 1, 'command': what}
            for name, what in (('master', f'sleep 1000 && {command}'),
                               ('worker', 'sleep infinity'))],
        'jobEnvs': {'paiAzRDMA': True}}


def run(slurm, command, *options):
    slurm.head.write('job.json', json.dumps(of_original(command)))
    return slurm.head.run([PROGRAMS.reigen, 'run', '--config', 'job.json', '--on', 'slurm',
                           '--gpus', '0', '--tag-output', *options], timeout=LIMIT)


def test_the_masters_mpirun_runs_on_both_nodes(slurm):
    """Intel MPI's, as the original's image has it."""
    command = f'{mpis.prefix("impi")}/bin/mpirun -hosts master-0,worker-0 -n 2 -ppn 1 hostname'
    done = run(slurm, command, '--image', 'none')
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r'^\[master-0\] (\S+)$', done.stdout, re.M)
    assert len(set(found)) == 2 and 'role master: "sleep 1000" is left out' in done.stderr


def test_tasks_run_in_the_files_image(slurm):
    done = run(slurm, 'df -m /dev/shm | tail -1; ssh worker-0 hostname; hostname')
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert re.match(r'\[master-0\] \S+ +256 ', lines[0])
    assert lines[1] != lines[2]


def test_more_tasks_than_nodes_share_them(slurm):
    """Without an allocation of more than the two nodes that are asked for."""
    job = {'jobName': 'four', 'image': 'base', 'taskRoles': [
        {'name': 'master', 'minSucceededTaskCount': 1,
         'command': "for i in 0 1 2; do ssh worker-$i 'echo $PAI_TASK_INDEX $(hostname)'; done"},
        {'name': 'worker', 'taskNumber': 3, 'command': 'sleep infinity'}]}
    slurm.head.write('four.json', json.dumps(job))
    done = slurm.head.run([PROGRAMS.reigen, 'run', '--config', 'four.json', '--on', 'slurm',
                           '--nodes', '2', '--image', 'none', '--tag-output'], timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r'^\[master-0\] (\d) (\S+)$', done.stdout, re.M)
    assert [index for index, _ in found] == ['0', '1', '2']
    assert len({host for _, host in found}) == 2


@pytest.mark.timeout(400)
def test_the_examples_own_file_starts_its_ranks(slurm):
    """As it is, but for the name of the image, which is a placeholder there, and for the GPUs.
    tests/hosts/test_openpai.py has the training."""
    slurm.head.write('image/Your', pai_example.CODE, mode=0o755)
    mounts = [f'--mount={folder}:{folder}:ro' for folder in pai_example.folders()]
    done = slurm.head.run(
        [PROGRAMS.reigen, 'run', '--config', pai_example.ORIGINAL, '--on', 'slurm', '--image',
         everywhere.IMAGE, '--gpus', '0', *mounts,
         f'--mount={slurm.head.home()}/image:{pai_example.PLACE}:ro',
         *(word for name, value in pai_example.environment().items()
           for word in ('-x', f'{name}={value}'))], timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(set(re.findall(r'rank on (\S+)$', done.stdout, re.M))) == 2, done.stdout
    assert 'role master: "sleep 1000" is left out' in done.stderr
