# SPDX-License-Identifier: Apache-2.0
"""A job file of OpenPAI's on simulated hosts, by ssh: its mpirun finds tasks by their names, with
five real MPIs; its image, its rules, and its ports there; and nothing left."""
import json
import re

import pytest
from bed import Cluster

import mpis
from built import PROGRAMS
from test_engines import TRIES, placed, program, path_of

LIMIT = 90

pytestmark = pytest.mark.timeout(600)


def role(name, command, tasks=1, **more):
    return {'name': name, 'taskNumber': tasks, 'cpuNumber': 1, 'memoryMB': 512, 'shmMB': 96,
            'gpuNumber': 0, 'command': command, **more}


def job(*roles, **more):
    """As the original's, whose master waits blindly and whose worker sleeps."""
    return {'jobName': 'horovod-job', 'image': 'base', 'virtualCluster': 'default',
            'taskRoles': list(roles), 'jobEnvs': {'paiAzRDMA': True}, **more}


def of_original(command, workers=1):
    return job(role('master', f'sleep 1000 && {command}', minFailedTaskCount=1,
                    minSucceededTaskCount=1),
               role('worker', 'sleep infinity', workers, minFailedTaskCount=1,
                    minSucceededTaskCount=1))


@pytest.fixture(scope='module')
def plain3():
    with Cluster(3) as cluster:
        yield cluster


@pytest.fixture
def run(plain3):
    """run(job, *options): from node1, on node1 to node3 as they are."""
    def begin(what, *options, hosts='node1,node2,node3'):
        plain3[1].write('job.json', json.dumps(what))
        return plain3[1].run([PROGRAMS.reigen, 'run', '--config', 'job.json', '-H', hosts,
                              '--tag-output', *options], timeout=LIMIT)

    yield begin
    plain3.assert_clean()


@pytest.mark.parametrize('name', mpis.NAMES)
def test_the_masters_mpirun_finds_tasks_by_their_names(run, name):
    command = mpis.mpirun(name, 4, program(name), hosts=['master-0', 'worker-0'])
    found = ['-x', f'PATH={path_of(name)}', *(['-x', 'NO_FINALIZE=1'] if name == 'mpich4' else [])]
    for left in reversed(range(TRIES.get(name, 1))):
        done = run(of_original(' '.join(command)), '--image', 'none', '--timeout', '40', *found)
        if done.returncode == 0 or not left:
            break
    assert done.returncode == 0, done.stdout + done.stderr
    assert placed(done.stdout, 10) == {0: 'node1', 1: 'node1', 2: 'node2', 3: 'node2'}


#: A worker names its host, and the master waits until all have: the job ends with the master.
NAMED = 'hostname; touch named-$PAI_TASK_INDEX; sleep infinity'


def when_named(count, command):
    return (f'for i in $(seq 0 {count - 1}); do '
            'until ssh worker-$i test -e named-$i; do sleep 0.1; done; '
            f'ssh worker-$i rm named-$i; done; {command}')


def test_each_task_has_a_host_and_knows_those_of_all(run):
    done = run(job(role('worker', NAMED, 2),
                   role('master', when_named(2, 'hostname; env; ssh worker-1 hostname'),
                        minSucceededTaskCount=1)), '--image', 'none')
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {'[master-0] node1', '[worker-0] node2', '[worker-1] node3'} <= set(lines)
    assert lines[-1] == '[master-0] node3'
    found = dict(line.split('] ', 1)[1].split('=', 1) for line in lines if '=' in line)
    addresses = [found[f'PAI_HOST_IP_{task}'] for task in ('master_0', 'worker_0', 'worker_1')]
    assert len(set(addresses)) == 3
    assert all(re.fullmatch(r'\d+\.\d+\.\d+\.\d+', address) for address in addresses)
    assert found['PAI_TASK_ROLE_LIST'] == 'worker,master'
    for place in found['PAI_TASK_ROLE_worker_HOST_LIST'].split(','):
        assert re.fullmatch(r'[\d.]+:[1-9]\d+', place)


def test_more_tasks_than_hosts_are_dealt_out(run):
    done = run(job(role('worker', NAMED, 3),
                   role('master', when_named(3, 'true'), minSucceededTaskCount=1)),
               '--image', 'none', hosts='node1,node2')
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        '[worker-0] node2', '[worker-1] node1', '[worker-2] node2']


def test_a_workers_failure_is_the_jobs(run):
    done = run(job(role('master', 'sleep infinity'), role('worker', 'sleep 1; exit 9', 2)),
               '--image', 'none')
    assert done.returncode == 9
    assert re.search(r'worker-[01] on node[23] failed: exit code 9|both tasks|tasks .* same error|'
                     r'worker-0, worker-1 of 3 failed with the same error', done.stderr)


def test_tasks_run_in_the_files_image(clean2):
    """With its size of /dev/shm; hosts are reached by the names of tasks in containers, too."""
    command = ('echo $PAI_TASK_ROLE_LIST; df -m /dev/shm | tail -1; '
               'ssh worker-0 cat /etc/os-release | grep -c Debian')
    clean2[1].write('job.json', json.dumps(of_original(command)))
    done = clean2[1].run([PROGRAMS.reigen, 'run', '--config', 'job.json', '-H', 'node1,node2',
                          '--tag-output'], timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '[master-0] master,worker' in done.stdout
    assert re.search(r'^\[master-0\] \S+ +96 +\d+ +\d+ +\d+% /dev/shm$', done.stdout, re.M)
    assert 'role master: "sleep 1000" is left out' in done.stderr
