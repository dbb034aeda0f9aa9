# SPDX-License-Identifier: Apache-2.0
"""The bed itself: what the other tests of this folder rely on."""
import base64
import os
import subprocess
import sys
from pathlib import Path

import prepare
import pytest
from bed import cluster as clusters, kube_build, kube_store
from bed.kube import TUNABLES
from bed.kube_store import tag
from bed.node import wait_until
from built import PROGRAMS

TESTS = Path(__file__).resolve().parents[1]
UID = 12345
RESTRICTED = {
    'runAsUser': UID, 'runAsNonRoot': True, 'allowPrivilegeEscalation': False,
    'readOnlyRootFilesystem': True, 'capabilities': {'drop': ['ALL']},
    'seccompProfile': {'type': 'RuntimeDefault'}}


def indexed_job(name, image, command, pods, security):
    """A Job of `pods` pods at once, with the ConfigMap `name` in /reigen/agent."""
    container = {'name': 'rank', 'image': tag(image), 'command': command,
                 'securityContext': security,
                 'volumeMounts': [{'name': 'agent', 'mountPath': '/reigen/agent'}]}
    spread = {'maxSkew': 1, 'topologyKey': 'kubernetes.io/hostname',
              'whenUnsatisfiable': 'DoNotSchedule',
              'labelSelector': {'matchLabels': {'job-name': name}}}
    return {'apiVersion': 'batch/v1', 'kind': 'Job', 'metadata': {'name': name}, 'spec': {
        'completionMode': 'Indexed', 'completions': pods, 'parallelism': pods, 'backoffLimit': 0,
        'template': {'spec': {
            'restartPolicy': 'Never', 'containers': [container],
            'topologySpreadConstraints': [spread],
            'volumes': [{'name': 'agent', 'configMap': {'name': name, 'defaultMode': 0o555}}]}}}}


def agent_of(name):
    data = base64.b64encode(Path(PROGRAMS.agent).read_bytes()).decode()
    return {'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': name},
            'binaryData': {'reigen-agent': data}}


def test_an_image_with_nothing_runs_the_agent_at_any_uid_on_every_node(kube):
    kube.restrict()
    kube.apply(agent_of('job'), indexed_job(
        'job', 'scratch-static', ['/reigen/agent/reigen-agent', 'version'], 3, RESTRICTED))
    assert kube.end_of('job') == 'Complete'
    pods = kube.get('pods')['items']
    assert sorted(pod['spec']['nodeName'] for pod in pods) == ['node1', 'node2', 'node3']
    said = subprocess.run([PROGRAMS.agent, 'version'], capture_output=True, text=True,
                          check=True).stdout
    for index in range(3):
        assert kube.kubectl('logs', f'--selector=job-name=job,batch.kubernetes.io/'
                            f'job-completion-index={index}') == said


def test_restricted_pod_security_refuses_root(kube):
    kube.restrict()
    kube.apply(indexed_job('job', 'scratch-static', ['/program'], 1,
                           {**RESTRICTED, 'runAsNonRoot': False}))
    wait_until(lambda: any('violates PodSecurity "restricted' in event['message']
                           for event in kube.get('events')['items']), 60, 'a refusal')


TALK = """
import os, socket, time
if os.environ['JOB_COMPLETION_INDEX'] == '0':
    with socket.create_server(('', 7000)) as door:
        for _ in range(2):
            door.accept()[0].sendall(b'hello')
else:
    for host in os.environ['JOB_SERVICE_HOST'], 'job':
        while True:
            try:
                with socket.create_connection((host, 7000)) as link:
                    print(link.recv(5).decode(), flush=True)
                break
            except OSError:
                time.sleep(0.1)
"""


def test_pods_reach_a_service_by_its_address_and_by_its_name(kube):
    job = indexed_job('job', 'base', ['python3', '-c', TALK], 2, RESTRICTED)
    kube.apply(agent_of('job'), {
        'apiVersion': 'v1', 'kind': 'Service', 'metadata': {'name': 'job'},
        'spec': {'ports': [{'port': 7000}],
                 'selector': {'batch.kubernetes.io/job-completion-index': '0'}}})
    kube.apply(job)
    assert kube.end_of('job') == 'Complete'
    assert kube.kubectl('logs', '--selector=batch.kubernetes.io/job-completion-index=1') == \
        'hello\nhello\n'


def test_the_api_server_goes_and_comes_back(kube):
    kube.cluster.stop_api()
    try:
        assert kube.run(['kubectl', 'get', 'pods', '--request-timeout=5s']).returncode == 1
    finally:
        kube.cluster.start_api()
        kube.cluster.wait_api()
    assert kube.names('pods') == []


def test_helm_3_and_4_and_kubectl_are_on_the_users_path(kube):
    for helm, version in (('helm', 'v3.'), ('helm4', 'v4.')):
        assert kube.run([helm, 'version', '--short'], check=True).stdout.startswith(version)
        assert kube.run([helm, 'list', '-q'], check=True).stdout == ''
    assert kube.kubectl('config', 'view', '--minify', '-o', 'jsonpath={..namespace}') == kube.name


OTHER = """
import sys
sys.path.insert(0, sys.argv[1])
from bed import KubeCluster
cluster = KubeCluster(1, images=['scratch-static'])
print(cluster.folder, flush=True)
print(cluster.kubectl('get', 'nodes', '-o', 'name'), end='', flush=True)
sys.stdin.read()
"""


def test_a_second_cluster_stands_beside_it_and_goes_with_its_maker(kube3):
    maker = subprocess.Popen([sys.executable, '-c', OTHER, TESTS], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    folder = Path(maker.stdout.readline().strip())
    assert maker.stdout.readline() == 'node/node1\n'
    assert len(kube3.kubectl('get', 'nodes', '-o', 'name').split()) == 3
    maker.terminate()
    maker.communicate(timeout=60)
    clusters.sweep()
    assert not folder.exists()
    assert list(Path('/sys/fs/cgroup').rglob(f'*{folder.name}*')) == []


def test_a_kubelet_changes_no_setting_of_the_machine(kube3):
    for node in kube3.nodes:
        mounts = node.run(['cat', '/proc/mounts'], check=True).stdout
        assert [name for name in TUNABLES if f' /proc/sys/{name} ' not in mounts] == []


def test_the_last_cluster_gives_back_each_setting_of_the_machine(tmp_path, monkeypatch):
    settings = [tmp_path / 'one-setting', tmp_path / 'other-setting']
    monkeypatch.setattr(clusters, 'RUNS', tmp_path / 'run')
    for setting in settings:
        setting.write_text('128')
    one, two = (tmp_path / 'run' / name for name in ('one', 'two'))
    for folder in (one, two):
        folder.mkdir(parents=True)
        for setting in settings:
            clusters.borrow_setting(folder, setting, 1024)
    for folder, value in ((one, '1024'), (two, '128')):
        assert [setting.read_text() for setting in settings] == ['1024', '1024']
        clusters.remove(folder)
        assert [setting.read_text() for setting in settings] == [value, value]


def test_sets_of_programs_and_images_stay_that_are_in_use_or_new(tmp_path, monkeypatch):
    for name, value in (('FOLDER', tmp_path), ('KEPT', {'set': 2}), ('ROOM_MIB', {'set': 0}),
                        ('HELD', {})):
        monkeypatch.setattr(kube_build, name, value)

    def make(number):
        return kube_build.made('set', number, lambda new: (new / 'file').touch())

    def let_go(folder):
        os.close(kube_build.HELD.pop(folder))

    def there():
        return {each for each in made if (each / 'file').exists()}
    made = []
    for number in range(4):
        made.append(make(number))
        os.utime(made[-1], (number, number))
        if number:
            let_go(made[-1])
    assert there() == {made[0], made[2], made[3]}
    let_go(made[0])
    assert make(0) == made[0]  # which now is the last one that was used
    let_go(made[0])
    kube_build.prune('set')
    assert there() == {made[0], made[3]} == {path for path in tmp_path.iterdir() if path.is_dir()}
    monkeypatch.setitem(kube_build.ROOM_MIB, 'set', 1 << 40)
    with pytest.raises(kube_build.BuildError, match=r'MiB of free space.*\(set\).*REIGEN_BED_DIR'):
        make(5)


def test_images_that_are_there_are_not_made_again(kube3, monkeypatch):
    assert kube3.store in kube_store.roots()
    monkeypatch.setattr(kube_store, 'make', None)
    for names in (prepare.IMAGES, ('base',), ['distroless', 'scratch-static']):
        assert kube_store.prepare(names) in kube_store.roots()
