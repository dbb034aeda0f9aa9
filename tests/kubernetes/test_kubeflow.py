# SPDX-License-Identifier: Apache-2.0
"""reigen render kubeflow-openmpi on a real cluster: docs/kubeflow.md as it stands, and each way in
which a job of it begins and ends. What it renders is in tests/behaviour/test_render_kubeflow.py.
"""
import re
import secrets

import originals
import pytest
import wait
from built import PROGRAMS, ROOT

pytestmark = pytest.mark.timeout(400)
PATIENCE = 120  # seconds for what takes two on a quiet machine
TRAIN = f'python {originals.SCRIPTS}/keras_mnist_advanced_modified.py --epochs 2'
MPIEXEC = 'mpiexec -n {n} --hostfile /kubeflow/openmpi/assets/hostfile --allow-run-as-root'
#: In the place of Amazon's: it says what it was asked for, and where that has not been tried yet,
#: that it cannot. A download makes a file.
AWS = '''#!/bin/sh
echo "aws $* with $AWS_ACCESS_KEY_ID $AWS_SECRET_ACCESS_KEY" >&2
[ -e /tmp/tried ] || { : >/tmp/tried; exit 1; }
case $4 in
s3:*) mkdir -p "$5" && echo "made of $4" >"$5/file" ;;
*) cat "$4"/* >&2 ;;
esac
'''


def until(true, what, timeout=PATIENCE):
    seen = what if callable(what) else None
    wait.until(true, 'this state' if seen else what, timeout, seen)


class Job:
    """Jobs of one namespace, which have the keys of its Secret."""

    def __init__(self, kube):
        self.kube = kube
        kube.run(['sh', '-ec', 'cd "$(mktemp -d)" && ssh-keygen -q -N "" -f id_rsa && '
                  'kubectl create secret generic openmpi-secret --from-file=id_rsa '
                  '--from-file=id_rsa.pub --from-file=authorized_keys=id_rsa.pub'], check=True)

    def apply(self, *words, name='openmpi', image=originals.IMAGE):
        done = self.kube.run([str(PROGRAMS.reigen), 'render', 'kubeflow-openmpi', name, '--image',
                              image, '--secret', 'openmpi-secret', *map(str, words)], check=True)
        self.kube.kubectl('apply', '--server-side', '--validate=strict', '-f', '-',
                          input=done.stdout)

    def pods(self, name='openmpi'):
        """{"master": pod, "worker-0": pod}."""
        return {pod['metadata']['name'].partition('-')[2]: pod
                for pod in self.kube.get('pods', '-l', f'app={name}')['items']}

    def end(self, name='openmpi', timeout=PATIENCE):
        """Wait for the end of all its pods: {pod: phase}."""
        def ended():
            return all(phase in ('Succeeded', 'Failed') for phase in phases().values())

        def phases():
            return {pod: each['status']['phase'] for pod, each in self.pods(name).items()}
        until(ended, self.kube.state, timeout)
        return phases()

    def log(self, pod='master', container='openmpi-job', name='openmpi'):
        """What it has said until now: nothing, where it has not begun."""
        return self.kube.said(f'{name}-{pod}', container)

    def code(self, pod='master', container='openmpi-job', name='openmpi'):
        said, = (each for each in self.pods(name)[pod]['status']['containerStatuses']
                 if each['name'] == container)
        return said['state']['terminated']['exitCode']

    def script(self, name, text):
        """A ConfigMap with a program, and the parameters that put it to a path."""
        self.kube.apply({'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': name},
                         'data': {name: text}})
        return lambda path: (
            '--volumes', f'[{{name: own, configMap: {{name: {name}, defaultMode: 0555}}}}]',
            '--volumeMounts', f'[{{name: own, mountPath: {path}, subPath: {name}}}]')


@pytest.fixture
def job(original):
    return Job(original)


def test_the_quick_start_works_as_it_stands(originals3):
    """The page's commands, with an image and a namespace of the test's."""
    page = (ROOT / 'docs/kubeflow.md').read_text()
    script = re.search(r'^```\n(.*?)^```', page, re.S | re.M)[1]
    home = originals3.run(['mktemp', '-d'], check=True).stdout.strip()
    space = f'kubeflow-{secrets.token_hex(4)}'
    script = script.replace('NAMESPACE=kubeflow\n', f'NAMESPACE={space}\n')
    script = script.replace('YOUR_IMAGE_HERE', originals.IMAGE)
    assert space in script and originals.IMAGE in script
    script = f'cd {home}\nPATH={PROGRAMS.reigen.parent}:$PATH\n{script}'
    try:
        done = originals3.run(['bash', '-ec', script], timeout=300)
        told = done.stdout + done.stderr
        assert done.returncode == 0, told
        for i in range(4):
            assert f'openmpi-worker-{i}.openmpi.{space} is ready\n' in done.stdout, told
        # One rank on each worker, with tag and time.
        map_ = re.findall(r'Data for node: (\S+).*?Process rank: (\d)', done.stdout, re.S)
        assert sorted(set(map_)) == [(f'openmpi-worker-{i}.openmpi.{space}', str(i))
                                for i in range(4)], told
        lines = re.findall(r'^(\w{3} \w{3} +\d+ [\d:]{8} \d{4})\[1,(\d)\]<stdout>:hello world$',
                           done.stdout, re.M)
        assert sorted(rank for _, rank in lines) == ['0', '1', '2', '3'], told
        assert '--uploadDataTo=<uploadDataTo>' in done.stdout
        assert 'pod "openmpi-worker-3" deleted' in done.stdout
        left = originals3.kubectl('-n', space, 'get', 'pods,configmaps,services,serviceaccounts,'
                                  'rolebindings', '-l', 'app=openmpi', '-o', 'name')
        assert not left
    finally:
        originals3.kubectl('delete', 'namespace', space, '--wait=false', '--ignore-not-found')


def test_another_user_trains_in_restricted_pods_with_data_from_s3(job):
    """As a user whom the image does not know. What is in the place of Amazon's is a script: it
    shows what `aws` is asked for, and when."""
    job.kube.restrict()
    job.kube.kubectl('create', 'secret', 'generic', 's3', '--from-literal=AWS_ACCESS_KEY_ID=who',
                     '--from-literal=AWS_SECRET_ACCESS_KEY=hush')
    command = f"""{MPIEXEC.format(n=2)} --tag-output sh -c 'id -u; cat in/file; mkdir out
        echo rank $OMPI_COMM_WORLD_RANK > out/file; {TRAIN}'"""
    job.apply('--workers', 2, '--runAsUser', 12345, '--exec', command, '--s3Secret', 's3',
              '--downloadDataFrom', 's3://bucket/in', '--downloadDataTo', 'in',
              '--uploadDataFrom', 'out', '--uploadDataTo', 's3://bucket/out',
              *job.script('aws', AWS)('/usr/local/bin/aws'))
    ends = job.end(timeout=300)
    told = job.log()
    assert set(ends.values()) == {'Succeeded'}, told + job.kube.state()
    for rank in (0, 1):
        assert f'[1,{rank}]<stdout>:12345\n' in told, told
        assert f'[1,{rank}]<stdout>:made of s3://bucket/in\n' in told, told
        assert job.log(f'worker-{rank}', 'openmpi-controller').splitlines() == [
            'aws s3 cp --recursive s3://bucket/in in with who hush',
            'controller: copying s3://bucket/in to in failed, try 1 of 5',
            'aws s3 cp --recursive s3://bucket/in in with who hush',
            f'aws s3 cp --recursive out s3://bucket/out/openmpi/openmpi-worker-{rank} with who '
            'hush', f'rank {rank}']
    accuracy = float(re.findall(r'\[1,0\]<stdout>:accuracy (0\.\d+)', told)[-1])
    assert accuracy > 0.8, told
    assert 'identical to the bit on all 2 ranks' in told


#: As scripts for the prototype are: they know the two files, and nothing of ours.
OWN_INIT = '''#!/bin/sh
[ "$1" = worker ] || exec sh -c "echo $2 workers, $4 s; $3"
for file in SIGCONT SIGTERM; do
    until [ -e .openmpi-controller/$file ]; do sleep 1; done
    echo $file
done
'''


def test_each_end_of_a_job_is_seen_by_all_its_pods(job):
    """Five jobs side by side, one worker each."""
    one = ('--workers', 1)
    # Its exit code, and a worker in the network of its node.
    job.apply('--useHostNetwork', 'true', *one, '--exec', f'{MPIEXEC.format(n=1)} hostname; exit 3')
    # A download that cannot be, as the image has no aws.
    job.apply(*one, '--downloadDataFrom', 's3://a', '--downloadDataTo', 'a', name='data')
    # No worker comes: a limit that was an error.
    job.apply(*one, '--initTimeout', 5, '--nodeSelector', 'no=such', name='late')
    # A script of the user's.
    job.apply(*one, '--init', '/own.sh', '--initTimeout', 90, '--exec', 'sleep 9; echo over',
              *job.script('own', OWN_INIT)('/own.sh'), name='own')
    # The master is killed, while it has no command.
    job.apply(*one, name='lost')
    until(lambda: 'is ready' in job.log(name='lost'), 'the job lost does not begin')
    job.kube.kubectl('delete', 'pod', 'lost-master', '--grace-period=0', '--force')
    assert job.end('lost') == {'worker-0': 'Succeeded'}

    assert job.end() == {'master': 'Failed', 'worker-0': 'Succeeded'}, job.log()
    assert job.code() == 3
    node = job.pods()['worker-0']['spec']['nodeName']
    assert job.log().splitlines() == ['openmpi-worker-0.openmpi is ready', node]

    assert job.end('data') == {'master': 'Failed', 'worker-0': 'Failed'}
    why = 'cannot copy s3://a to a: the image has no aws; choose one that has it by ' \
          '--controllerImage'
    assert job.log(name='data') == f'master: data-worker-0.data: {why}\n'
    assert why in job.log('worker-0', name='data')
    assert job.log('worker-0', 'openmpi-controller', 'data') == f'controller: {why}\n'

    until(lambda: job.pods('late')['master']['status']['phase'] == 'Failed', 'the job late waits')
    assert job.code(name='late') == 124
    assert 'late-worker-0.late is not ready' in job.log(name='late')
    assert 'gave up after 5 s' in job.log(name='late')

    assert job.end('own') == {'master': 'Succeeded', 'worker-0': 'Succeeded'}
    assert job.log(name='own') == '1 workers, 90 s\nover\n'
    assert job.log('worker-0', name='own') == 'SIGCONT\nSIGTERM\n'
