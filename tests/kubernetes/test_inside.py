# SPDX-License-Identifier: Apache-2.0
"""reigen run --on kubernetes from inside the cluster, as from a notebook: a pod with Reigen,
libcurl and a service account, and no kubectl."""
import re

import pytest

import definitions
from bed.node import wait_until
from built import PROGRAMS, ROOT

LIMIT = 120
IMAGE = 'localhost/base:1'
KINDS = ('jobs', 'configmaps', 'secrets', 'services')
ENV = ('PATH=/nowhere', 'HOME=/tmp', f'REIGEN_AGENT={PROGRAMS.agent}')
# As a terminal's Ctrl-C: in the background SIGINT would be ignored.
INTERRUPT = '''env --default-signal=INT {run} >/tmp/out 2>&1 & pid=$!
until grep -q '] up' /tmp/out; do kill -0 $pid || break; sleep 0.1; done
kill -INT $pid; wait $pid; echo "code $?"; cat /tmp/out'''


def role():
    """The Role that docs/kubernetes.md tells users to ask for, as kubectl takes it."""
    text = (ROOT / 'docs/kubernetes.md').read_text()
    return re.search(r'```yaml\n(apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n.*?)```',
                     text, re.S)[1]


class Notebook:
    """A pod that has this machine's /usr, with libcurl, and our build."""

    def __init__(self, kube):
        self.kube = kube
        self.looks = f'{kube.name}-looks'
        self.account = f'system:serviceaccount:{kube.name}:notebook'
        paths = {'usr': '/usr', 'reigen': str(ROOT)}
        kube.apply(
            {'apiVersion': 'v1', 'kind': 'ServiceAccount', 'metadata': {'name': 'notebook'}},
            {'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'notebook'}, 'spec': {
                'serviceAccountName': 'notebook', 'terminationGracePeriodSeconds': 0,
                'volumes': [{'name': name, 'hostPath': {'path': path}}
                            for name, path in paths.items()],
                'containers': [{
                    'name': 'notebook', 'image': IMAGE, 'command': ['sleep', '100000'],
                    'volumeMounts': [{'name': name, 'mountPath': path, 'readOnly': True}
                                     for name, path in paths.items()]}]}})
        kube.wait('condition=Ready', 'pod/notebook')

    def permit(self):
        self.kube.kubectl('create', '-f', '-', input=role())
        self.kube.kubectl('create', 'rolebinding', 'notebook', '--role=reigen',
                          f'--serviceaccount={self.kube.name}:notebook')

    def permit_looks(self):
        """What reigen plan looks at beyond that role."""
        group = 'rbac.authorization.k8s.io'
        rules = {'Role': [['kueue.x-k8s.io', ''], ['localqueues', 'persistentvolumeclaims']],
                 'ClusterRole': [[''], ['nodes', 'pods']]}
        for kind, (groups, resources) in rules.items():
            made = {'apiVersion': f'{group}/v1', 'metadata': {'name': self.looks}}
            self.kube.apply(
                {**made, 'kind': kind, 'rules': [{'apiGroups': groups, 'resources': resources,
                                                  'verbs': ['get', 'list']}]},
                {**made, 'kind': f'{kind}Binding',
                 'roleRef': {'apiGroup': group, 'kind': kind, 'name': self.looks},
                 'subjects': [{'kind': 'ServiceAccount', 'name': 'notebook',
                               'namespace': self.kube.name}]})

    def exec(self, *words):
        return self.kube.run(['kubectl', 'exec', 'notebook', '--', *words], timeout=LIMIT)

    def __call__(self, *words):
        return self.exec('env', *ENV, str(PROGRAMS.reigen), *words)

    def plan(self, *words):
        done = self(*words)
        return done.returncode, re.sub(r'\n {10,}', ' ', done.stdout)

    def left(self):
        return [name for kind in KINDS
                for name in self.kube.names(kind, '--selector=app.kubernetes.io/name=reigen')]

    def wait_gone(self):
        wait_until(lambda: not self.left(), 10, 'nothing left of the job')


@pytest.fixture(scope='module', autouse=True)
def kueue(kube3):
    with definitions.installed(kube3, 'kueue'):
        yield


@pytest.fixture
def notebook(kube):
    notebook = Notebook(kube)
    yield notebook
    kube.kubectl('delete', 'jobs,pods', '--all', '--wait=false')
    kube.kubectl('delete', 'clusterrole,clusterrolebinding', notebook.looks, '--ignore-not-found')


def on(*words):
    return ('run', '--on', 'kubernetes', '--image', IMAGE, '-np', '2', *words)


def test_a_pod_runs_follows_and_ends_jobs_by_its_service_account(notebook):
    done = notebook(*on('--', 'true'))
    assert done.returncode == 77, done
    assert f'User "{notebook.account}" cannot create resource "jobs" in API group "batch"' \
        in done.stderr and 'docs/kubernetes.md has it' in done.stderr, done
    plan = ('plan', *on('--queue', 'q', '--volume', 'c:/c', '--', 'true')[1:])
    done = notebook(*plan)
    assert done.returncode == 77 and 'you may not create services, create configmaps, ' in \
        re.sub(r'\n {10,}', ' ', done.stdout), done
    notebook.permit()
    code, told = notebook.plan(*plan)
    assert code == 0 and re.search(r"would take the job's \d objects", told) and \
        'you may not get localqueues' in told and 'you may not list nodes' in told, told
    notebook.permit_looks()
    code, told = notebook.plan(*plan)
    assert code == 2 and 'there is no claim c;' in told and 'there is no queue q in' in told and \
        'room for all pods on' in told, told

    done = notebook(*on('--', 'sh', '-c', 'for i in 1 2 3; do echo line $i of $RANK; done'))
    own = sorted(line for line in done.stdout.splitlines() if not line.startswith('reigen: '))
    assert (done.returncode, own) == (0, [f'[{r}] line {i} of {r}' for r in (0, 1)
                                          for i in (1, 2, 3)]), done
    notebook.wait_gone()

    done = notebook(*on('--submit', '--name', 'night', '--', 'sh', '-c', 'echo up; sleep 1000'))
    assert (done.returncode, done.stdout) == (0, 'night\n'), done
    wait_until(lambda: '[1] up\n' in notebook('logs', 'night').stdout, 60, 'the job to run')
    status = notebook('status', 'night').stdout
    assert 'RUNNING' in status and 'output: reigen logs night' in status, status
    done = notebook('stop', 'night')
    assert done.stdout == 'stopped night\n' and notebook.left() == [], done

    run = ' '.join([*ENV, str(PROGRAMS.reigen), *on('--', 'sh', '-c', '"echo up; sleep 1000"')])
    done = notebook.exec('sh', '-c', INTERRUPT.format(run=run))
    assert 'code 130\n' in done.stdout and 'nothing of it is left' in done.stdout, done
    assert notebook.left() == []
    assert notebook(*on('--context', 'work', '--', 'true')).returncode == 2
