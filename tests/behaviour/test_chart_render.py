# SPDX-License-Identifier: Apache-2.0
"""deploy/chart, rendered by Helm 3 and 4 without a cluster: what stable/horovod makes of the same
values, by field, without what is wrong there.
"""
import base64
import gzip
import json
import re
import resource
import subprocess

import charts
import pytest
import yaml
from built import ROOT
from charts import CHART, env, helm, pod, render

EXAMPLES = [CHART / 'examples/values.yaml', CHART / 'examples/values-host-network.yaml']
NAME = 'mnist-horovod'
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope='module', params=charts.HELMS)
def each_helm(request):
    return charts.program(request.param)


@pytest.fixture(scope='module')
def one_helm():
    return charts.program('helm')


def hostfile(objects, name=NAME):
    return objects['ConfigMap', name]['data']['hostfile.config'].splitlines()


def test_the_objects_have_the_names_and_labels_of_the_original(each_helm):
    objects = render(each_helm, '-f', EXAMPLES[0])
    originals = {('ConfigMap', NAME), ('Secret', NAME), ('Service', NAME),
                 ('Service', f'{NAME}-master'), ('StatefulSet', NAME), ('Job', NAME)}
    ours = {('ServiceAccount', NAME), ('Role', NAME), ('RoleBinding', NAME),
            ('Pod', f'{NAME}-test', 'hook')}
    # No other hook, which kubectl apply and Argo CD would take for the object of its name.
    assert set(objects) == originals | ours
    objects = render(each_helm, '-f', EXAMPLES[0], '--is-upgrade')
    ours |= {('Job', NAME, 'hook'), ('StatefulSet', NAME, 'hook')}
    assert set(objects) == originals | ours
    for key, each in objects.items():
        labels = each['metadata']['labels']
        assert (labels['app'], labels['release'], labels['heritage']) == \
            ('horovod', 'mnist', 'Helm'), key
        assert re.fullmatch(r'reigen-\d+\.\d+\.\d+', labels['chart']), key
    assert objects['StatefulSet', NAME]['metadata']['labels']['role'] == 'worker'
    assert objects['Job', NAME]['metadata']['labels']['role'] == 'master'
    for name, role in ((NAME, 'worker'), (f'{NAME}-master', 'master')):
        spec = objects['Service', name]['spec']
        assert spec['selector'] == {'app': 'horovod', 'release': 'mnist', 'role': role}
        assert spec['clusterIP'] == 'None'
        assert spec['ports'] == [{'name': 'ssh', 'port': 22, 'targetPort': 22}]


def test_pods_find_files_keys_and_variables_where_the_original_had_them(each_helm):
    objects = render(each_helm, '-f', EXAMPLES[0])
    head, worker = pod(objects, 'Job', NAME), pod(objects, 'StatefulSet', NAME)
    files = {'Job': {'hostfile', 'run.sh', 'waitWorkersReady.sh'},
             'StatefulSet': {'hostfile', 'run.sh', 'check.sh'}}
    data = objects['ConfigMap', NAME]['data']
    for kind, spec in (('Job', head), ('StatefulSet', worker)):
        items = spec['volumes'][0]['configMap']['items']
        assert files[kind] <= {item['path'] for item in items}
        assert all(item['key'] in data for item in items)
        assert {i['mode'] for i in items if i['path'] == 'hostfile'} == {0o666}
        assert spec['volumes'][1]['secret']['defaultMode'] == 0o700
        container = spec['containers'][0]
        mounts = {m['mountPath']: m['name'] for m in container['volumeMounts']}
        assert mounts['/horovod/generated'] == f'{NAME}-cm'
        assert mounts['/etc/secret-volume'] == f'{NAME}-secret'
        assert env(container)['SSHPORT'] == '22' and env(container)['USESECRETS'] == 'true'
        assert container['image'] == 'uber/horovod:0.12.1-tf1.8.0-py3.5'
        assert container['imagePullPolicy'] == 'IfNotPresent'
        assert container['command'] == ['/horovod/generated/run.sh']
        assert container['ports'] == [{'containerPort': 22}]
    assert head['containers'][0]['name'] == 'horovod-master'
    assert worker['containers'][0]['name'] == 'worker'
    assert head['initContainers'][0]['name'] == 'wait-workers'
    assert head['restartPolicy'] == 'Never'
    assert 'readinessProbe' in worker['containers'][0]
    assert hostfile(objects) == [f'{NAME}-master slots=1', f'{NAME}-0.{NAME} slots=1',
                                 f'{NAME}-1.{NAME} slots=1']
    assert head['containers'][0]['args'][0].startswith('mpirun -np 3 --hostfile /horovod/generated')


def test_the_host_networks_sample_gives_each_pod_a_port_and_needs_no_node_for_each(each_helm):
    objects = render(each_helm, '-f', EXAMPLES[1])
    for kind in ('Job', 'StatefulSet'):
        spec = pod(objects, kind, NAME)
        assert spec['hostNetwork'] is True and spec['dnsPolicy'] == 'ClusterFirstWithHostNet'
        assert 'ports' not in spec['containers'][0], 'a port would be reserved on the node'
        assert 'requiredDuringSchedulingIgnoredDuringExecution' not in json.dumps(spec)
        assert env(spec['containers'][0])['SSHPORT'] == '32222'
        assert env(spec['containers'][0])['REIGEN_CHART_PORTS'] == 'true'
    assert objects['Service', NAME]['spec']['ports'][0]['port'] == 32222


def test_both_helms_render_the_same():
    fixed = ['-f', EXAMPLES[1], '--set-string', 'ssh.hostKey=-----BEGIN X PRIVATE KEY-----']
    three, four = (render(charts.program(name), *fixed) for name in charts.HELMS)
    assert three == four


@pytest.mark.parametrize('values, expected', [
    ({}, 5), ({'worker': {'number': 2}}, 2), ({'worker': {'number': '3'}}, 3),
    ({'worker': {'number': 0}}, 0)])
def test_the_number_of_workers_is_5_or_as_given(one_helm, values, expected):
    objects = render(one_helm, values=values)
    assert objects['StatefulSet', NAME]['spec']['replicas'] == expected
    assert len(hostfile(objects)) == expected + 1


@pytest.mark.parametrize('resources, slots', [
    ({}, 1), ({'limits': {'nvidia.com/gpu': 4}}, 4), ({'limits': {'nvidia.com/gpu': '2'}}, 2),
    ({'requests': {'nvidia.com/gpu': 3}}, 3), ({'limits': {'amd.com/gpu': 8, 'cpu': 1.5}}, 8),
    ({'limits': {'cpu': 2, 'nvidia.com/gpu': 0}}, 1)])
def test_slots_are_the_gpus_of_a_pod(one_helm, resources, slots):
    objects = render(one_helm, values={'worker': {'number': 1}, 'resources': resources})
    assert hostfile(objects) == [f'{NAME}-master slots={slots}', f'{NAME}-0.{NAME} slots={slots}']
    for kind in ('Job', 'StatefulSet'):
        assert resources.items() <= pod(objects, kind, NAME)['containers'][0]['resources'].items()


@pytest.mark.parametrize('args, expected', [
    (None, None), ({}, None), ([], None), ('', None), ('mpirun -np 3 hostname', 1),
    (['mpirun', '-np', 3, 'x: "y"'], ['mpirun', '-np', '3', 'x: "y"'])])
def test_arguments_are_nothing_a_string_or_a_list(each_helm, args, expected):
    objects = render(each_helm, values={'master': {'args': args}})
    spec = pod(objects, 'Job', NAME)
    expected = [args] if expected == 1 else expected
    assert spec['containers'][0].get('args') == expected
    assert ('initContainers' in spec) == bool(expected), 'a command waits for the workers'


def test_env_of_the_master_is_everybodys_and_that_of_a_worker_its_own(one_helm):
    objects = render(one_helm, values={
        'master': {'env': {'A': 'quote " $x', 'N': 3, 'T': True, 'F': 0.5}, 'args': 'x'},
        'worker': {'env': {'A': 'worker', 'B': 1}}})
    head, worker = (pod(objects, k, NAME) for k in ('Job', 'StatefulSet'))
    wanted = {'A': 'quote " $x', 'N': '3', 'T': 'true', 'F': '0.5'}
    for container in (head['containers'][0], head['initContainers'][0]):
        assert wanted.items() <= env(container).items() and 'B' not in env(container)
    assert {**wanted, 'A': 'worker', 'B': '1'}.items() <= env(worker['containers'][0]).items()


def test_driver_of_horovods_own_chart_stands_for_master(each_helm):
    objects = render(each_helm, values={'ssh': {'useSecrets': True}, 'driver': {
        'image': {'repository': 'horovod/horovod', 'tag': '0.24.3'}, 'args': ['mpiexec -n 3 x'],
        'env': {'A': 1}}})
    head = pod(objects, 'Job', NAME)
    assert ('Service', f'{NAME}-driver') in objects and ('Service', f'{NAME}-master') not in objects
    assert objects['Service', f'{NAME}-driver']['spec']['selector']['role'] == 'driver'
    assert objects['Job', NAME]['metadata']['labels']['role'] == 'driver'
    assert head['containers'][0]['name'] == 'horovod-driver'
    assert head['containers'][0]['args'] == ['mpiexec -n 3 x']
    assert hostfile(objects)[0] == f'{NAME}-driver slots=1'
    assert {'driver.run', 'driver.waitWorkerReady', 'worker.run'} <= \
        set(objects['ConfigMap', NAME]['data'])
    assert env(pod(objects, 'StatefulSet', NAME)['containers'][0])['A'] == '1'
    assert pod(objects, 'StatefulSet', NAME)['containers'][0]['image'] == 'horovod/horovod:0.24.3'


@pytest.mark.parametrize('release, values, name', [
    ('mnist', {}, 'mnist-horovod'), ('my-horovod', {}, 'my-horovod'),
    ('mnist', {'nameOverride': 'hvd'}, 'mnist-hvd'), ('mnist', {'fullnameOverride': 'x'}, 'x')])
def test_names_follow_from_the_release_as_before(one_helm, release, values, name):
    objects = render(one_helm, release=release, values=values)
    assert ('StatefulSet', name) in objects and ('Service', f'{name}-master') in objects
    app = values.get('nameOverride', 'horovod')
    assert objects['Job', name]['metadata']['labels']['app'] == app


RUN = 'reigen run -np 3 x'


@pytest.mark.parametrize('args, ssh, secret', [
    ('mpirun x', {}, None), ('reigenx', {}, None), ('mpirun x && reigen run x', {}, None),
    (RUN, {}, 'key'), ('/opt/bin/horovodrun -np 3 x', {}, 'key'),
    ('sh -c "reigen run"', {}, None),
    (['reigen', 'run', 'x'], {}, 'key'), ('cd /w && A=1 exec reigen run x', {}, 'key'),
    (RUN, {'useSecrets': False}, None), (RUN, {'useSecrets': True}, 'host-key'),
    (RUN, {'enabled': True}, 'host-key'), (RUN, {'hostKey': '-----BEGIN PRIVATE KEY-----'}, None),
    (None, {'enabled': False}, 'key'), ('mpirun x', {'enabled': 'false'}, 'key')])
def test_the_workers_call_the_master_for_a_command_of_reigen_without_a_word_about_ssh(
        one_helm, args, ssh, secret):
    objects = render(one_helm, values={'master': {'args': args}, 'ssh': ssh})
    data = objects.get(('Secret', NAME), {'data': {}})['data']
    assert (secret in data) == bool(secret) and len(data) <= 2, data
    worker, head = (pod(objects, kind, NAME) for kind in ('StatefulSet', 'Job'))
    calls = worker['containers'][0]['command'] == ['/reigen/agent/reigen-agent', 'pod']
    assert calls == (secret == 'key') == (('Service', f'{NAME}-head') in objects)
    for spec in worker, head:
        text = json.dumps(spec)
        assert ('SSHPORT' in text) == ('ssh.sh' in text) == (not calls)
        assert ('REIGEN_POD_SERVICE' in text) == ('/reigen/key' in text) == calls


def test_pods_that_call_the_master_are_told_all_they_need(each_helm):
    values = {'master': {'args': RUN, 'port': '8000', 'startTimeout': 9,
                         'image': {'repository': 'm', 'tag': 1}}, 'worker': {'number': 1},
              'key': 'ab' * 32, 'podSecurityContext': {'runAsUser': 12345},
              'securityContext': {'readOnlyRootFilesystem': True},
              'resources': {'limits': {'cpu': 1}}}
    objects = render(each_helm, values=values)
    worker, head = (pod(objects, kind, NAME) for kind in ('StatefulSet', 'Job'))
    assert base64.b64decode(objects['Secret', NAME]['data']['key']).decode() == values['key']
    service = objects['Service', f'{NAME}-head']['spec']
    assert service['ports'] == [{'name': 'reigen', 'port': 8000, 'targetPort': 8000}]
    assert service['selector'] == {'app': 'horovod', 'release': 'mnist', 'role': 'master'}
    assert 'clusterIP' not in service
    mark = objects['StatefulSet', NAME]['metadata']['annotations']['reigen/template']
    common = {'REIGEN_POD_SERVICE': f'{NAME}-head', 'REIGEN_POD_PORT': '8000',
              'REIGEN_POD_NAME': None, 'REIGEN_POD_MARK': mark}
    assert env(worker['containers'][0]) == common
    assert env(head['containers'][0]) == {
        **common, 'REIGEN_POD_HEAD': f'{NAME}-master', 'REIGEN_POD_START_TIMEOUT': '9',
        'REIGEN_POD_GRACE': '30',
        'XDG_RUNTIME_DIR': '/reigen/run', 'REIGEN_CHART_SET': NAME, 'REIGEN_CHART_AGAIN': '6',
        'REIGEN_CHART_ORDER': 'Parallel'}
    assert 'initContainers' not in head, 'reigen run waits for the workers'
    agent, = worker['initContainers']
    assert agent['image'] == 'm:1' and agent['resources'] == values['resources']
    probe = {'command': ['/reigen/agent/reigen-agent', 'pod', 'ready']}
    assert worker['containers'][0]['readinessProbe']['exec'] == probe
    test = objects['Pod', f'{NAME}-test', 'hook']['spec']
    data = objects['ConfigMap', NAME]['data']
    for spec in worker, head, test:
        assert spec['securityContext'] == {'runAsUser': 12345}
        for container in spec['containers'] + spec.get('initContainers', []):
            assert container['securityContext'] == {'readOnlyRootFilesystem': True}
            mounted = {mount['name'] for mount in container['volumeMounts']}
            assert mounted <= {volume['name'] for volume in spec['volumes']}
        assert all(item['key'] in data for item in spec['volumes'][0]['configMap']['items'])
        key, = (v['secret'] for v in spec['volumes'] if 'secret' in v)
        assert key['defaultMode'] == 0o444, 'any user can read it'
    assert {('Service', NAME), ('Service', f'{NAME}-master')} <= set(objects)


def test_what_must_be_a_string_or_a_limit_in_kubernetes_becomes_one(one_helm):
    objects = render(one_helm, values={
        'nodeSelector': {'rack': 5, 'fast': True}, 'annotations': {'n': 1.5},
        'resources': {'requests': {'nvidia.com/gpu': 2, 'cpu': 1}, 'limits': {'cpu': 2}}})
    spec = pod(objects, 'StatefulSet', NAME)
    assert spec['nodeSelector'] == {'rack': '5', 'fast': 'true'}
    assert objects['Job', NAME]['spec']['template']['metadata']['annotations'] == {'n': '1.5'}
    assert spec['containers'][0]['resources'] == {
        'requests': {'nvidia.com/gpu': 2, 'cpu': 1}, 'limits': {'cpu': 2, 'nvidia.com/gpu': 2}}


def test_a_key_is_made_where_none_is_given(one_helm):
    given = {'useSecrets': True, 'hostKey': '-----BEGIN RSA PRIVATE KEY-----\nabc',
             'hostKeyPub': 'ssh-rsa AAAA me'}
    data = render(one_helm, values={'ssh': given})['Secret', NAME]['data']
    assert base64.b64decode(data['host-key']).decode() == given['hostKey']
    assert base64.b64decode(data['host-key-pub']).decode() == given['hostKeyPub']
    keys = {render(one_helm, values={'ssh': {'useSecrets': True}})['Secret', NAME]['data'][
        'host-key'] for _ in range(2)}
    assert len(keys) == 2
    for key in keys:
        assert base64.b64decode(key).startswith(b'-----BEGIN EC PRIVATE KEY-----\n')


def test_other_values_of_the_original_have_their_effect(one_helm):
    objects = render(one_helm, values={
        'useHostPID': True, 'annotations': {'a': 'b'}, 'capabilities': {'add': ['SYS_PTRACE']},
        'worker': {'privileged': True, 'podManagementPolicy': 'OrderedReady',
                   'image': {'repository': 'r:5000/w', 'tag': 1.5, 'pullPolicy': 'Always'}},
        'master': {'privileged': True, 'image': {'pullPolicy': 'Never'}},
        'volumes': [{'name': 'd', 'emptyDir': {}}],
        'volumeMounts': [{'name': 'd', 'mountPath': '/d'}]})
    head, worker = (pod(objects, k, NAME) for k in ('Job', 'StatefulSet'))
    for spec in (head, worker):
        assert spec['hostPID'] is True and {'name': 'd', 'emptyDir': {}} in spec['volumes']
        assert {'name': 'd', 'mountPath': '/d'} in spec['containers'][0]['volumeMounts']
        assert spec['containers'][0]['securityContext']['privileged'] is True
    assert head['containers'][0]['securityContext']['capabilities'] == {'add': ['SYS_PTRACE']}
    assert head['containers'][0]['imagePullPolicy'] == 'Never'
    assert worker['containers'][0]['image'] == 'r:5000/w:1.5'
    assert worker['containers'][0]['imagePullPolicy'] == 'Always'
    assert objects['StatefulSet', NAME]['spec']['podManagementPolicy'] == 'OrderedReady'
    template = objects['Job', NAME]['spec']['template']
    assert template['metadata']['annotations'] == {'a': 'b'}


def test_values_of_our_own_have_their_effect(one_helm):
    objects = render(one_helm, values={
        'imagePullSecrets': ['a', {'name': 'b'}], 'nodeSelector': {'k': 'v'},
        'tolerations': [{'operator': 'Exists'}], 'affinity': {'nodeAffinity': {}},
        'priorityClassName': 'high', 'terminationGracePeriodSeconds': '90',
        'worker': {'endWithJob': False},
        'master': {'backoffLimit': 0, 'startTimeout': 9, 'rerun': 'again', 'args': 'x'}})
    head, worker = (pod(objects, k, NAME) for k in ('Job', 'StatefulSet'))
    for spec in (head, worker):
        assert spec['imagePullSecrets'] == [{'name': 'a'}, {'name': 'b'}]
        assert spec['nodeSelector'] == {'k': 'v'} and spec['priorityClassName'] == 'high'
        assert spec['tolerations'] == [{'operator': 'Exists'}]
        assert spec['affinity'] == {'nodeAffinity': {}}
        assert spec['terminationGracePeriodSeconds'] == 90
    assert env(head['containers'][0])['REIGEN_POD_GRACE'] == '90'
    assert ('Role', NAME) not in objects and 'serviceAccountName' not in head
    assert objects['Job', NAME]['spec']['backoffLimit'] == 0
    assert env(head['initContainers'][0])['REIGEN_CHART_TIMEOUT'] == '9'
    objects = render(one_helm, values={'serviceAccountName': 'mine'})
    assert pod(objects, 'Job', NAME)['serviceAccountName'] == 'mine'
    assert ('Role', NAME) not in objects and ('ServiceAccount', NAME) not in objects


@pytest.mark.parametrize('policy, resource, verb', [
    ('Parallel', 'statefulsets/scale', 'patch'), ('OrderedReady', 'statefulsets', 'delete')])
def test_the_master_may_end_its_workers_read_its_job_and_no_more(one_helm, policy, resource, verb):
    objects = render(one_helm, f'--set=worker.podManagementPolicy={policy}')
    assert objects['Role', NAME]['rules'] == [
        {'apiGroups': ['apps'], 'resources': [resource], 'resourceNames': [NAME], 'verbs': [verb]},
        {'apiGroups': ['batch'], 'resources': ['jobs'], 'resourceNames': [NAME],
         'verbs': ['get']}]
    master = pod(objects, 'Job', NAME)['containers'][0]
    assert env(master)['REIGEN_CHART_ORDER'] == policy
    assert pod(objects, 'Job', NAME)['serviceAccountName'] == NAME
    assert 'serviceAccountName' not in pod(objects, 'StatefulSet', NAME)


def test_selectors_say_nothing_of_helm_or_the_charts_version(one_helm):
    objects = render(one_helm)
    assert objects['StatefulSet', NAME]['spec']['selector']['matchLabels'] == {
        'app': 'horovod', 'release': 'mnist', 'role': 'worker'}
    assert 'selector' not in pod(objects, 'StatefulSet', NAME)
    labels = objects['Job', NAME]['spec']['template']['metadata']['labels']
    assert 'chart' not in labels and 'heritage' not in labels


def test_the_job_changes_with_its_command_and_its_workers_but_not_with_their_number(one_helm):
    def mark(**values):
        values['master'] = {'args': 'mpirun x', **values.get('master', {})}
        job = render(one_helm, values=values)['Job', NAME]
        return job['metadata']['annotations']['reigen/template']

    same = mark(worker={'number': 3})
    assert mark(worker={'number': 4}) == same
    others = [mark(master={'args': 'x'}), mark(worker={'env': {'A': 1}}), mark(useHostPID=True),
              mark(worker={'image': {'tag': 'x'}}), mark(master={'rerun': 1})]
    assert len({same, *others}) == 6


def test_a_release_that_lacks_our_defaults_is_rendered(one_helm):
    """`helm upgrade --reuse-values` brings the values of the older chart, and no others."""
    gone = [f'--set={key}=null' for key in ('ssh', 'worker', 'master', 'resources', 'annotations',
                                            'useHostNetwork', 'volumes', 'nameOverride')]
    objects = render(one_helm, *gone)
    assert objects['StatefulSet', NAME]['spec']['replicas'] == 5
    assert pod(objects, 'Job', NAME)['containers'][0]['image'].startswith('uber/horovod:')


# Helm tells of all wrong values at once, so each row is one question; no path is in a row twice.
WRONG = [{
    'worker.number': -1, 'worker.image.pullPolicy': 'Sometimes', 'worker.image.tag': 'a b',
    'worker.image.repository': 'image:tag', 'worker.podManagementPolicy': 'Serial',
    'worker.env.1A': 'x', 'worker.endWithJob': 'perhaps', 'worker.privileged': 1,
    'worker.numbr': 3, 'master.args': {'x': 1}, 'master.env.A': {'b': 1},
    'master.backoffLimit': -1, 'master.startTimeout': 0, 'master.privileged': 'yes',
    'master.port': 0, 'master.rerun': [], 'driver.image': 'x', 'ssh.port': 0,
    'ssh.hostKey': 'key', 'ssh.hostKeyPub': 'key', 'ssh.useSecrets': 1, 'ssh.enabled': 'maybe',
    'key': 'abc', 'resources.limits.cpu': 'many', 'resources.limits.memory': -1,
    'resources.limit': {}, 'resources.claims': [{'x': 1}], 'useHostNetwork': 'yes',
    'useHostPID': 2, 'volumes': {'name': 'x'}, 'volumeMounts': [{'name': 'x'}],
    'capabilities.ad': ['X'], 'fullnameOverride': 'A_b', 'nameOverride': 'a.b',
    'imagePullSecrets': [''], 'nodeSelector': 'x', 'tolerations': [{'x': 1}], 'affinity.x': {},
    'priorityClassName': 'A_b', 'serviceAccountName': 'A_b', 'annotations.a b': 'x',
    'podSecurityContext.runAsUser': -1, 'securityContext.runAsUsr': 1, 'nonsense': 1,
}, {
    'worker.number': 'two', 'worker.env': ['A=1'], 'worker.image': 'x', 'master.args': 5,
    'master.backoffLimit': '9999', 'master.startTimeout': '0', 'master.port': '70000',
    'ssh.port': 65536, 'ssh.hostKeyPub': 5, 'resources.requests.cpu': '1 core',
    'volumes': [{'name': 'A_b'}], 'volumeMounts': [{'name': 'x', 'mountPath': 'relative'}],
    'capabilities.add': 'X', 'imagePullSecrets': [{'name': 'a', 'x': 1}], 'nodeSelector.a/b/c': 1,
    'tolerations': [{'effect': 'Nothing'}], 'key': 5, 'podSecurityContext.fsGroup': 'users',
    'securityContext.capabilities': {'add': ['SYS ADMIN']},
}, {'worker.number': 1.5, 'ssh.port': '70000', 'master.args': True, 'resources.limits.cpu': True},
    {'worker.number': 10001, 'ssh.port': 'ssh'}]


@pytest.mark.parametrize('wrong', WRONG)
def test_wrong_values_are_refused_by_their_names(each_helm, wrong):
    values = {}
    for path, value in wrong.items():
        *above, last = path.split('.')
        place = values
        for part in above:
            place = place.setdefault(part, {})
        place[last] = value
    done = helm(each_helm, 'template', 'm', CHART, values=values)
    assert done.returncode != 0 and not done.stdout, done.stdout
    said = done.stderr.replace('/', '.')
    missing = [path for path in wrong
               if not re.search(r'\b' + re.escape(path.replace('/', '.')) + r'\b', said) and
               not all(part in said for part in path.replace('/', '.').split('.'))]
    assert not missing, done.stderr


@pytest.mark.parametrize('release, values, text', [
    ('a' * 50, {}, 'at most 52'), ('1a', {}, 'begins with a letter'),
    ('m', {'ssh': {'useSecrets': True, 'hostKeyPub': 'ssh-rsa AAAA'}},
     'ssh.hostKeyPub is set without ssh.hostKey'),
    ('m', {'driver': {'args': 'x'}, 'master': {'args': 'y'}},
     'master.args and driver are both set'),
    ('m', {'ssh': {'port': 65535}, 'useHostNetwork': True}, 'ssh.port'),
    ('m', {'ssh': {'enabled': False, 'useSecrets': True}}, 'ssh.enabled is false'),
    ('m', {'volumes': [{'name': 'a'}] * 2}, 'volumes: the name "a" is there twice'),
    ('m', {'volumeMounts': [{'name': 'a', 'mountPath': '/a'}]}, 'volumeMounts: "a" is none of'),
    ('m', {'volumes': [{'name': 'a'}], 'volumeMounts': [
        {'name': 'a', 'mountPath': '/horovod/generated/'}]}, '"/horovod/generated/" is taken'),
    ('m', {'worker': {'env': {'SSHPORT': 1}}}, 'worker.env.SSHPORT: the chart sets this'),
    ('m', {'resources': {'requests': {'nvidia.com/gpu': 2}, 'limits': {'nvidia.com/gpu': 1}}},
     'nvidia.com/gpu is 2 in requests and 1 in limits')])
def test_what_does_not_fit_together_is_refused(each_helm, release, values, text):
    done = helm(each_helm, 'template', release, CHART, values=values)
    assert done.returncode != 0 and text in done.stderr, done.stderr


def test_rendering_takes_less_than_a_second(each_helm):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    render(each_helm, '-f', EXAMPLES[0], '--set', 'worker.number=100')
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # What it computes, since other tests run at the same time.
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert took < 1, took


def test_the_package_renders_as_the_folder_does_and_its_release_is_small(each_helm, tmp_path):
    done = helm(each_helm, 'package', CHART, '-d', tmp_path)
    assert done.returncode == 0, done.stderr
    package, = tmp_path.glob('*.tgz')
    values = ['--set', 'worker.number=100', '--set', 'master.args=mpirun x']
    assert render(each_helm, *values, chart=package) == render(each_helm, *values)
    # A release is a Secret with the chart and what was rendered.
    text = helm(each_helm, 'template', 'm', CHART, *values).stdout
    files = b''.join(p.read_bytes() for p in sorted(CHART.rglob('*')) if p.is_file())
    release = base64.b64encode(gzip.compress(base64.b64encode(files) + text.encode()))
    assert len(release) < 700_000


def test_the_charts_version_is_that_of_reigen():
    chart = yaml.safe_load((CHART / 'Chart.yaml').read_text())
    version = re.search(r"version: '([^']*)'", (ROOT / 'meson.build').read_text())[1]
    assert chart['version'] == chart['appVersion'] == version


def test_every_value_has_a_description_and_stands_in_the_documentation():
    schema = json.loads((CHART / 'values.schema.json').read_text())
    page = (ROOT / 'docs/chart.md').read_text()

    def names(node, prefix):
        node = schema['definitions'][node['$ref'].rsplit('/', 1)[1]] if '$ref' in node else node
        below = node.get('properties')
        if not below or node.get('description'):
            yield prefix
            return
        for name, child in below.items():
            yield from names(child, f'{prefix}.{name}' if prefix else name)

    missing = [name for name in names(schema, '') if not re.search(
        rf'`{re.escape(name.replace("driver.", "master."))}`', page) and name != 'global']
    assert not missing


@pytest.mark.parametrize('script', sorted(p.name for p in (CHART / 'scripts').glob('*.sh')))
def test_scripts_are_for_any_shell(script):
    for shell in ('sh', 'bash'):
        done = subprocess.run([shell, '-n', CHART / 'scripts' / script], capture_output=True,
                              text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize('values, limit, containers', [
    ({'master': {'args': 'mpirun x'}}, 7, {'horovod-master', 'wait-workers'}),
    ({'master': {'args': 'reigen run x', 'backoffLimit': 0}}, 1, {'horovod-master'}),
    ({'driver': {'args': 'mpirun x'}, 'worker': {'endWithJob': False}}, 6,
     {'horovod-driver', 'wait-workers'}),
    ({'master': {'args': 'x'}, 'serviceAccountName': 'mine'}, 6,
     {'horovod-master', 'wait-workers'})])
def test_the_pod_of_a_master_that_failed_stays_with_its_log(one_helm, values, limit, containers):
    """So it tries again by itself. What is left to the Job is a pod that was killed, and one more
    than that, which ends the workers where it can learn that it is one more."""
    objects = render(one_helm, values=values)
    job = objects['Job', NAME]['spec']
    spec = job['template']['spec']
    assert spec['restartPolicy'] == 'Never' and job['backoffLimit'] == limit
    evicted, *rules = job['podFailurePolicy']['rules']
    assert evicted == {'action': 'Ignore',
                       'onPodConditions': [{'type': 'DisruptionTarget', 'status': 'True'}]}
    assert all(rule == {'action': 'FailJob', 'onExitCodes': {
        'containerName': rule['onExitCodes']['containerName'], 'operator': 'NotIn',
        'values': [128, 137, 143, 255]}} for rule in rules)
    assert {rule['onExitCodes']['containerName'] for rule in rules} == containers
    again = str(next(iter(values.values())).get('backoffLimit', 6))
    for container in [*spec.get('initContainers', []), *spec['containers']]:
        assert env(container)['REIGEN_CHART_AGAIN'] == again
    may = [rule['resources'] for rule in objects.get(('Role', NAME), {}).get('rules', [])]
    assert (['jobs'] in may) == (('Role', NAME) in objects)


def test_kubernetes_before_1_26_starts_the_masters_container_again(one_helm):
    objects = render(one_helm, '--kube-version', '1.25.9', values={'master': {'args': 'mpirun x'}})
    job = objects['Job', NAME]['spec']
    assert job['backoffLimit'] == 6 and 'podFailurePolicy' not in job
    spec = job['template']['spec']
    assert spec['restartPolicy'] == 'OnFailure'
    assert env(spec['containers'][0])['REIGEN_CHART_TRIES'] == '6'
    assert 'REIGEN_CHART_AGAIN' not in env(spec['containers'][0])
