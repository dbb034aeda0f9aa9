# SPDX-License-Identifier: Apache-2.0
"""reigen render mpijob: what it prints, compared as a tree. Whether mpi-operator's own definition
takes it: tests/kubernetes."""
import re

import pytest
import yaml

CONTAINER = {'image': 'train:1', 'imagePullPolicy': 'IfNotPresent'}
LABELS = {'labels': {'app.kubernetes.io/instance': 'pi'}}


@pytest.fixture
def render(reigen):
    """render(*words): the only object."""
    def make(*words, name='pi', command=('mpirun', 'python', 'train.py')):
        done = reigen('render', 'mpijob', name, *words, '--', *command)
        assert (done.returncode, done.stderr) == (0, ''), done
        return yaml.safe_load(done.stdout)
    return make


def replica(count, container, **spec):
    return {'replicas': count, 'restartPolicy': 'Never',
            'template': {'metadata': LABELS,
                         'spec': {'containers': [{**CONTAINER, **container}],
                                  'automountServiceAccountToken': False, **spec}}}


def test_little_is_said_and_the_rest_is_left_to_the_operator(render):
    assert render('-np', 4, '--image', 'train:1') == {
        'apiVersion': 'kubeflow.org/v2beta1', 'kind': 'MPIJob', 'metadata': {'name': 'pi'},
        'spec': {'slotsPerWorker': 1, 'runPolicy': {'cleanPodPolicy': 'Running'},
                 'mpiReplicaSpecs': {
                     'Launcher': replica(1, {'name': 'launcher',
                                             'command': ['mpirun', 'python', 'train.py']}),
                     'Worker': replica(4, {'name': 'worker'})}}}


def test_an_images_entry_point_gets_the_words_as_its_arguments(render):
    """Those of the operator's images for Intel MPI and MPICH set paths."""
    made = render('-np', 2, '--mpiImplementation', 'Intel', '--image', 'pi:intel', '--as-args')
    specs = made['spec']['mpiReplicaSpecs']
    launcher, = specs['Launcher']['template']['spec']['containers']
    assert launcher['args'] == ['mpirun', 'python', 'train.py'] and 'command' not in launcher
    worker, = specs['Worker']['template']['spec']['containers']
    assert 'args' not in worker and 'command' not in worker


def test_every_field_of_an_mpijob_can_be_set(render):
    said = render(
        '-np', 8, '--image', 'train:1', '--namespace', 'team', '--label', 'a=b,c=d',
        '--annotation', 'note=mine', '--queue', 'night', '--slotsPerWorker', 2,
        '--runLauncherAsWorker', 'true', '--sshAuthMountPath', '/keys',
        '--launcherCreationPolicy', 'WaitForWorkersReady', '--mpiImplementation', 'Intel',
        '--cleanPodPolicy', 'All', '--ttlSecondsAfterFinished', 60, '--activeDeadlineSeconds', 900,
        '--backoffLimit', 2, '--suspend', 'false', '--managedBy', 'kueue.x-k8s.io/multikueue',
        '--minAvailable', 3, '--schedulingQueue', 'q', '--minResources', 'cpu=4,memory=8Gi',
        '--schedulingPriorityClass', 'high', '--scheduleTimeoutSeconds', 30,
        '--launcherRestartPolicy', 'OnFailure', '--workerRestartPolicy', 'OnFailure')
    spec = said['spec']
    replicas = spec.pop('mpiReplicaSpecs')
    assert said['metadata'] == {
        'name': 'pi', 'namespace': 'team', 'annotations': {'note': 'mine'},
        'labels': {'a': 'b', 'c': 'd', 'kueue.x-k8s.io/queue-name': 'night'}}
    assert spec == {
        'slotsPerWorker': 2, 'runLauncherAsWorker': True, 'sshAuthMountPath': '/keys',
        'launcherCreationPolicy': 'WaitForWorkersReady', 'mpiImplementation': 'Intel',
        'runPolicy': {
            'cleanPodPolicy': 'All', 'ttlSecondsAfterFinished': 60, 'activeDeadlineSeconds': 900,
            'backoffLimit': 2, 'suspend': False, 'managedBy': 'kueue.x-k8s.io/multikueue',
            'schedulingPolicy': {'minAvailable': 3, 'queue': 'q', 'priorityClass': 'high',
                                 'minResources': {'cpu': '4', 'memory': '8Gi'},
                                 'scheduleTimeoutSeconds': 30}}}
    assert {role: (each['replicas'], each['restartPolicy']) for role, each in replicas.items()} \
        == {'Launcher': (1, 'OnFailure'), 'Worker': (3, 'OnFailure')}
    assert render('-np', 1, '--image', 'i', '--queue', 'q')['spec']['runPolicy']['suspend'] is True


def test_pods_are_asked_for_as_with_reigen_run(render, tmp_path):
    template, mine = tmp_path / 'pod.yaml', tmp_path / 'worker.yaml'
    template.write_text('''
metadata: {labels: {team: a}}
spec:
  hostAliases: [{ip: 10.0.0.1, hostnames: [files]}]
  containers: [{name: sidecar, image: s}, {name: reigen, env: [{name: A, value: b}]}]
''')
    mine.write_text('spec: {containers: [{command: [/usr/sbin/sshd, -De, -p, "2222"]}]}')
    said = render('-np', 4, '--gpus', 2, '--image', 'train:1', '--pod-template', template,
                  '--worker-pod-template', mine, '--cpu', 2, '--memory', '8Gi', '--resource',
                  'x.io/y=1', '--shm-size', '1g', '--launcher-cpu', '500m', '--launcher-image',
                  'small:1', '--node-selector', 'pool=a', '--toleration', '*', '--affinity',
                  'spread', '--service-account', 'me', '--image-pull-secret', 'one',
                  '--host-network', '--volume', 'claim:/data:ro', '--user', '1000',
                  '--scheduler', 's', '--priority-class', 'high', '--pull', 'always',
                  '--env', 'C=d=e')
    launcher, worker = (said['spec']['mpiReplicaSpecs'][role]['template']
                        for role in ('Launcher', 'Worker'))
    assert said['spec']['slotsPerWorker'] == 2
    assert launcher['metadata']['labels'] == {'team': 'a', 'app.kubernetes.io/instance': 'pi'}
    assert launcher['spec']['hostAliases'] and 'hostAliases' not in worker['spec']
    one, sidecar = launcher['spec']['containers']
    assert (one['name'], sidecar) == ('launcher', {'name': 'sidecar', 'image': 's'})
    assert one['env'] == [{'name': 'A', 'value': 'b'}, {'name': 'C', 'value': 'd=e'}]
    assert (one['image'], one['resources']) == \
        ('small:1', {'requests': {'cpu': '500m'}, 'limits': {'cpu': '500m'}})
    two, = worker['spec']['containers']
    assert two['command'] == ['/usr/sbin/sshd', '-De', '-p', '2222']
    wants = {'cpu': '2', 'memory': '8Gi', 'nvidia.com/gpu': '2', 'x.io/y': '1'}
    assert two['resources'] == {'requests': wants, 'limits': wants}
    for pod, container in ((launcher, one), (worker, two)):
        spec = pod['spec']
        assert spec['nodeSelector'] == {'pool': 'a'} and spec['hostNetwork'] is True
        assert spec['tolerations'] == [{'operator': 'Exists'}]
        assert 'podAntiAffinity' in spec['affinity'] and spec['serviceAccountName'] == 'me'
        assert spec['imagePullSecrets'] == [{'name': 'one'}]
        assert (spec['schedulerName'], spec['priorityClassName']) == ('s', 'high')
        assert container['securityContext']['runAsUser'] == 1000
        assert container['imagePullPolicy'] == 'Always'
        claims = [v for v in spec['volumes'] if 'persistentVolumeClaim' in v]
        assert claims[0]['persistentVolumeClaim'] == {'claimName': 'claim'}
    assert [m['mountPath'] for m in one['volumeMounts']] == ['/data']
    assert [m['mountPath'] for m in two['volumeMounts']] == ['/dev/shm', '/data']


GRACE = 'spec: {terminationGracePeriodSeconds: 90, containers: [{name: reigen}]}'
KNOWN = GRACE.replace('reigen', 'reigen, env: [{name: REIGEN_POD_GRACE, value: "40"}]')


@pytest.mark.parametrize('template, words, seconds', [
    ('', ('reigen', 'run', 'x'), '30'), (GRACE, ('sh', '-c', 'cd /d && horovodrun x'), '90'),
    (KNOWN, ('reigen', 'run', 'x'), '40'), (GRACE, ('mpirun', 'x'), None)])
def test_the_launcher_is_told_what_time_its_pod_has(render, tmp_path, template, words, seconds):
    path = tmp_path / 'pod.yaml'
    path.write_text(template)
    said = render('-np', 1, '--image', 'i', *(('--pod-template', path) if template else ()), '--',
                  *words)
    specs = said['spec']['mpiReplicaSpecs']
    one, = specs['Launcher']['template']['spec']['containers']
    found = [each['value'] for each in one.get('env', ()) if each['name'] == 'REIGEN_POD_GRACE']
    assert found == ([seconds] if seconds else [])


def test_the_launcher_may_be_the_only_worker(render):
    said = render('-np', 2, '--slotsPerWorker', 2, '--runLauncherAsWorker', 'true', '--image', 'i',
                  '--cpu', 3)
    assert set(said['spec']['mpiReplicaSpecs']) == {'Launcher'}
    pod = said['spec']['mpiReplicaSpecs']['Launcher']['template']['spec']
    assert pod['containers'][0]['resources']['limits'] == {'cpu': '3'}


@pytest.mark.parametrize('words, says', [
    (('-np', '0'), '--np'), (('-np', '3', '--slotsPerWorker', '2'), '-np 3: no multiple of the 2'),
    (('--slotsPerWorker', 'many'), '--slotsPerWorker'), (('--cpu', 'two'), '--cpu two'),
    (('--mpiImplementation', 'LAM'), '--mpiImplementation LAM: write one of: OpenMPI Intel MPICH'),
    (('--cleanPodPolicy', 'Some'), '--cleanPodPolicy Some'),
    (('--suspend', 'maybe'), '--suspend maybe'), (('--managedBy', 'me'), '--managedBy me'),
    (('--launcherRestartPolicy', 'Always'), '--launcherRestartPolicy Always'),
    (('--sshAuthMountPath', 'ssh'), '--sshAuthMountPath ssh'),
    (('--backoffLimit', '-1'), '--backoffLimit'), (('--minResources', 'cpu=x'), '--minResources'),
    (('--gpus', 'all'), '--gpus'), (('--launcher-cpu', 'x'), '--launcher-cpu x'),
    (('--toleration', ':Never'), '--toleration :Never'), (('--env', 'NAME'), '--env NAME'),
    (('--user', 'bob'), '--user bob'), (('--volume', 'a:b'), '--volume: mount a:b'),
    (('--affinity', 'none.yaml'), 'none.yaml'), (('--name', '1st'), 'NAME 1st'),
    (('--cleanPodPolciy', 'All'), 'did you mean --cleanPodPolicy?'),
])
def test_wrong_values_are_refused_by_name(reigen, words, says):
    name = () if '--name' in words else ('pi',)
    first = ('1st',) if '--name' in words else ()
    extra = () if '--name' in words else words
    done = reigen('render', 'mpijob', *name, *first, '-np', 4, '--image', 'i', *extra, '--', 'true')
    assert (done.returncode, done.stdout) == (2, ''), done
    assert says in done.stderr, done


def test_what_is_missing_is_named(reigen):
    for words, says in ((('pi', '--image', 'i'), '--np is missing'),
                        (('-np', 1), 'NAME is missing'), (('pi', '-np', 1), '--image')):
        done = reigen('render', 'mpijob', *words)
        assert (done.returncode, done.stdout) == (2, '') and says in done.stderr, done


def test_every_parameter_is_described_and_completed(reigen):
    said = reigen('render', 'mpijob', '--describe').stdout
    names = re.findall(r'^  (--[\w-]+)', said, re.MULTILINE)
    assert len(names) == len(set(names)) and '--slotsPerWorker' in names and '--np' in names
    words = set(reigen('completion', '--render', 'mpijob', 'train').stdout.split())
    assert set(names) - words == set()
