# SPDX-License-Identifier: Apache-2.0
"""What reigen render mpijob prints, before the API server with the definition of MPIJobs that the
real mpi-operator has; and an elastic job that the operator itself looks after."""
import json
import re
import subprocess

import pytest

from bed import kube_operator
from bed.node import BedError, wait_until
from built import PROGRAMS, ROOT

PROGRAM = ROOT / 'tests/programs/elastic_steps.py'
#: Of this machine, for images that have neither Reigen nor NumPy.
PATHS = {'usr': '/usr', 'names': '/etc/alternatives', 'reigen': str(ROOT)}
VOLUMES = [{'name': name, 'hostPath': {'path': path}} for name, path in PATHS.items()]
MOUNTS = [{'name': name, 'mountPath': path, 'readOnly': True} for name, path in PATHS.items()]
LIMIT = 240  # seconds for what takes two on a quiet machine, or a kubelet's minute
PODS = ('--cpu', '1', '--memory', '1Gi', '--gpus', '2', '--resource', 'example.com/x=1', '--rdma',
        'rdma/hca', '--shm-size', '1g', '--launcher-cpu', '500m', '--launcher-memory', '64Mi',
        '--launcher-image', 'l:1', '--pull', 'always', '--node-selector', 'a=b', '--toleration',
        'k=v:NoSchedule', '--affinity', 'spread', '--service-account', 'me', '--image-pull-secret',
        's', '--host-network', '--volume', 'claim:/data:ro', '--volume', '/mnt:/mnt', '--user',
        '1000:1000', '--scheduler', 's', '--priority-class', 'p', '--env', 'A=b')
FIELDS = ('--queue', 'q', '--label', 'a=b', '--annotation', 'c=d', '--runLauncherAsWorker', 'true',
          '--sshAuthMountPath', '/keys', '--launcherCreationPolicy',
          'WaitForWorkersReady', '--mpiImplementation', 'MPICH', '--cleanPodPolicy', 'All',
          '--ttlSecondsAfterFinished', '60', '--activeDeadlineSeconds', '900', '--backoffLimit',
          '2', '--suspend', 'true', '--managedBy', 'kubeflow.org/mpi-operator', '--minAvailable',
          '2', '--schedulingQueue', 'q', '--minResources', 'cpu=4', '--schedulingPriorityClass',
          'p', '--scheduleTimeoutSeconds', '30', '--launcherRestartPolicy', 'OnFailure',
          '--workerRestartPolicy', 'OnFailure')


@pytest.fixture(scope='session')
def mpijobs(kube3):
    """The cluster takes MPIJobs."""
    text = (kube_operator.source() / 'manifests/base/kubeflow.org_mpijobs.yaml').read_text()
    kube3.kubectl('apply', '--server-side', '-f', '-', input=text)
    wait_until(lambda: kube3.asks('get', 'mpijobs.kubeflow.org'), 60, 'MPIJobs')
    yield
    kube3.kubectl('delete', 'crd', 'mpijobs.kubeflow.org', '--wait=false')


@pytest.mark.parametrize('words', [(), PODS, FIELDS])
def test_the_operators_definition_takes_every_field(kube, mpijobs, words):
    made = kube.run([PROGRAMS.reigen, 'render', 'mpijob', 'pi', '-np', '8', '--image', 'i', *words,
                     '--', 'reigen', 'run', '--', 'python', 'train.py'], check=True).stdout
    apply = ['kubectl', 'apply', '--dry-run=server', '--validate=strict', '-f', '-']
    done = kube.run(apply, input=made)
    assert (done.returncode, done.stderr) == (0, ''), done
    wrong = made.replace('slotsPerWorker', 'slotPerWorker')
    done = kube.run(apply, input=wrong)
    assert done.returncode != 0 and 'unknown field "spec.slotPerWorker"' in done.stderr, done


# ---------------------------------------------------------------------------- the operator itself

@pytest.fixture(scope='session')
def operator(kube3, mpijobs):
    """It runs beside the control plane, as its only instance."""
    program = kube_operator.program()
    with open(kube3.control.folder / 'mpi-operator.log', 'ab') as log:
        child = kube3.control.popen(
            [program, f'--kubeConfig={kube3.pki}/admin.conf', '--lock-namespace=kube-system'],
            user='root', stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    yield
    child.kill_all()
    child.wait(30)


class MpiJob:
    """An MPIJob `pi`. Its image has neither Reigen nor NumPy: pods have those of this machine,
    and our build."""

    def __init__(self, kube, *options):
        self.kube = kube
        pod = {'spec': {'volumes': VOLUMES, 'containers': [{'volumeMounts': MOUNTS}]}}
        pods = kube.cluster.laptop.write('pods.json', json.dumps(pod))
        pod['spec']['containers'][0]['command'] = [
            'sh', '-c', 'ssh-keygen -A && exec /usr/sbin/sshd -De -o StrictModes=no']
        workers = kube.cluster.laptop.write('workers.json', json.dumps(pod))
        made = kube.run([PROGRAMS.reigen, 'render', 'mpijob', 'pi', '--image', 'localhost/base:1',
                         '--pod-template', pods, '--worker-pod-template', workers, *options],
                        check=True).stdout
        kube.kubectl('apply', '--server-side', '--validate=strict', '-f', '-', input=made)

    def said(self):
        return self.kube.said('job/pi-launcher')

    def wait(self, pattern, count=1):
        def find():
            return len(re.findall(pattern, self.said(), re.M)) >= count
        try:
            wait_until(find, LIMIT, pattern)
        except BedError as error:
            raise BedError(f'{error}\n{self.said()}\n{self.kube.state()}') from None

    def exec(self, pod, *words):
        self.kube.kubectl('exec', pod, '--', *words)


@pytest.mark.timeout(600)
def test_an_elastic_job_of_the_operator_loses_gets_and_gains_workers(kube, operator):
    """A deleted worker comes back under its name; another one is of a larger number of them."""
    job = MpiJob(kube, '-np', '2', '--', PROGRAMS.reigen, 'run', '-np', '2', '--min-np', '1',
                 '--chaos', 'slow:rank=0@step=3 by 50ms',  # or its log becomes long
                 '--host-discovery-script', '/etc/mpi/discover_hosts.sh', '--', PROGRAMS.python,
                 PROGRAM, '/tmp/stop')
    job.wait('step 3 size 2')
    kube.kubectl('delete', 'pod', 'pi-worker-1', '--grace-period=1', '--wait=false')
    job.wait(r'step \d+ size 1$')
    job.wait('train 1 of 2', 2)
    kube.kubectl('patch', 'mpijob', 'pi', '--type=merge', '-p', json.dumps(
        {'spec': {'mpiReplicaSpecs': {'Worker': {'replicas': 3}}}}))
    job.wait(r'step \d+ size 3$')
    job.exec('pi-worker-0', 'touch', '/tmp/stop')
    kube.wait('condition=Succeeded', 'mpijob/pi', timeout=LIMIT)
    text = job.said()
    assert len(re.findall('done . of 3', text)) == 3 and 'set aside' not in text, text
    assert len(re.findall('place . pid', text)) == 4, 'survivors keep their processes: ' + text
    numbers = [int(step) for step in re.findall(r'step (\d+) size', text)]
    assert numbers == sorted(set(numbers)), text
