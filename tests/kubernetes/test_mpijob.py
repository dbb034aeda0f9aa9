# SPDX-License-Identifier: Apache-2.0
"""What reigen render mpijob prints, before the API server with the definition of MPIJobs that the
real mpi-operator has. The operator itself takes five minutes to build, so no test runs it:
docs/mpijob.md says how it was tried."""
import pytest

from bed import kube_build
from bed.node import wait_until
from built import PROGRAMS

OPERATOR = ('github.com/kubeflow/mpi-operator@v0.8.2',
            'h1:7PVtV31iX3LSVW0BqRQ64w/NYNfAgP86Bmua2OEi5lg=')
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
    folder = kube_build.module(*OPERATOR)
    text = (folder / 'manifests/base/kubeflow.org_mpijobs.yaml').read_text()
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
