# SPDX-License-Identifier: Apache-2.0
"""A job file of OpenPAI's on a real Kubernetes: its tasks are pods."""
import json
import re

import everywhere
import pai_example
import pytest
from test_run import IMAGE, reigen  # noqa: F401 (a fixture)


def of_original(command, **more):
    """The original's job, whose master waits blindly and whose worker sleeps."""
    return {
        'jobName': 'horovod-job', 'image': IMAGE, 'virtualCluster': 'default',
        'taskRoles': [
            {'name': name, 'taskNumber': 1, 'cpuNumber': 1, 'memoryMB': 256, 'shmMB': 64,
             'gpuNumber': 1, 'minFailedTaskCount': 1, 'minSucceededTaskCount': 1, 'command': what,
             **more}
            for name, what in (('master', f'sleep 1000 && {command}'),
                               ('worker', 'sleep infinity'))],
        'jobEnvs': {'paiAzRDMA': True}}


def run(reigen, job):  # noqa: F811
    path = reigen.kube.cluster.laptop.write('pai.json', json.dumps(job))
    return reigen('run', '--on', 'kubernetes', '--config', path, '--gpus', '0', '--cpu', '100m',
                  '--tag-output')


def test_tasks_are_pods_and_find_one_another(reigen):  # noqa: F811
    command = 'echo $PAI_TASK_ROLE_worker_HOST_LIST; hostname; ssh worker-0 hostname; ' \
              'df -m /dev/shm | tail -1'
    done = run(reigen, of_original(command))
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith('[master-0] ')]
    assert re.fullmatch(r'\[master-0\] \d+\.\d+\.\d+\.\d+:[1-9]\d+', lines[0])
    assert lines[1] != lines[2] and lines[1].endswith('-0') and lines[2].endswith('-1')
    assert re.match(r'\[master-0\] \S+ +64 ', lines[3])
    reigen.wait_gone()


def test_a_workers_failure_is_the_jobs(reigen):  # noqa: F811
    job = of_original('sleep infinity')
    job['taskRoles'][1]['command'] = 'exit 9'
    done = run(reigen, job)
    assert done.returncode == 9
    said = done.stdout + done.stderr  # the head's words are in its pod's log
    assert re.search(r'worker-0 on \S+ failed: exit code 9', said), said


def what_the_image_has(kube):
    """A pod template: the example's program from a ConfigMap, and folders of the nodes."""
    kube.apply({'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'image'},
                'data': {'Your': pai_example.CODE}})
    volumes = [{'name': 'image', 'configMap': {'name': 'image', 'defaultMode': 0o755}}]
    mounts = [{'name': 'image', 'mountPath': pai_example.PLACE}]
    for number, folder in enumerate(pai_example.folders()):
        volumes.append({'name': f'folder{number}', 'hostPath': {'path': folder}})
        mounts.append({'name': f'folder{number}', 'mountPath': folder, 'readOnly': True})
    return {'spec': {'volumes': volumes, 'containers': [{'volumeMounts': mounts}]}}


@pytest.mark.timeout(400)
def test_the_examples_own_file_starts_its_ranks(reigen):  # noqa: F811
    """As it is, but for the name of the image, which is a placeholder there, for the GPUs, and for
    cpus and memory, of which these nodes have less. tests/hosts/test_openpai.py has the
    training."""
    path = reigen.kube.cluster.laptop.write('pod.json',
                                            json.dumps(what_the_image_has(reigen.kube)))
    done = reigen('run', '--config', pai_example.ORIGINAL, '--on', 'kubernetes', '--image',
                  everywhere.IMAGE, '--gpus', '0', '--cpu', '100m', '--memory', '1Gi',
                  '--pod-template', path,
                  *(word for name, value in pai_example.environment().items()
                    for word in ('-x', f'{name}={value}')), timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(set(re.findall(r'rank on (\S+)$', done.stdout, re.M))) == 2, done.stdout
    reigen.wait_gone()
