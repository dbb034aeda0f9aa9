# SPDX-License-Identifier: Apache-2.0
"""reigen render kubeflow-openmpi without a cluster: field by field what the prototype gave for the
same parameters, and what is refused. docs/kubeflow.md has the differences.
"""
import re
import stat
import subprocess

import pytest
import yaml
from built import PROGRAMS, ROOT

NEEDED = ('--image', 'registry/image:1', '--secret', 'openmpi-secret')
ROOT_PATH = '/kubeflow/openmpi'
INIT = f'{ROOT_PATH}/assets/init.sh'
#: Of the prototype, version 0.4.1: type and default.
PROTOTYPE = {
    'name': ('string', None), 'image': ('string', None), 'secret': ('string', None),
    'workers': ('number', '4'), 'init': ('string', 'null'), 'exec': ('string', 'null'),
    'imagePullPolicy': ('string', 'IfNotPresent'), 'imagePullSecrets': ('string', 'null'),
    'gpu': ('number', '0'), 'cpu': ('string', 'null'), 'memory': ('string', 'null'),
    'customResources': ('string', 'null'), 'serviceAccountName': ('string', 'null'),
    'schedulerName': ('string', 'default-scheduler'), 'controllerImage': ('string', 'null'),
    'initTimeout': ('number', '300'), 'nodeSelector': ('string', 'null'),
    's3Secret': ('string', 'null'), 'downloadDataFrom': ('string', 'null'),
    'downloadDataTo': ('string', 'null'), 'uploadDataFrom': ('string', 'null'),
    'uploadDataTo': ('string', 'null'), 'runAsUser': ('number', 'null'),
    'runAsGroup': ('number', 'null'), 'supplementalGroups': ('string', 'null'),
    'volumes': ('array', '[]'), 'volumeMounts': ('array', '[]'),
    'useHostNetwork': ('boolean', 'false')}


def words(*given, name='openmpi', needed=NEEDED):
    return ['render', 'kubeflow-openmpi', name, *needed, *map(str, given)]


@pytest.fixture
def render(reigen):
    """render(...): the objects, by kind and name, in their order."""
    def make(*given, **how):
        done = reigen(*words(*given, **how))
        assert done.returncode == 0 and not done.stderr, done
        objects = {(each['kind'], each['metadata']['name']): each
                   for each in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader)}
        assert len(objects) == done.stdout.count('\n---\n') + 1
        return objects
    return make


def spec(objects, pod):
    return objects['Pod', f'openmpi-{pod}']['spec']


def containers(objects, pod='worker-0'):
    return {each['name']: each for each in spec(objects, pod)['containers']}


def test_the_objects_are_those_of_the_prototype_in_their_order(render):
    objects = render('--workers', 2, '--namespace', 'kubeflow')
    assert list(objects) == [
        ('ConfigMap', 'openmpi-assets'), ('Service', 'openmpi'), ('ServiceAccount', 'openmpi'),
        ('RoleBinding', 'openmpi'), ('Pod', 'openmpi-master'), ('Pod', 'openmpi-worker-0'),
        ('Pod', 'openmpi-worker-1')]
    for (kind, name), each in objects.items():
        role = {'role': name.split('-')[1]} if kind == 'Pod' else {}
        assert each['metadata'] == {'name': name, 'namespace': 'kubeflow',
                                    'labels': {'app': 'openmpi', **role}}
    assert objects['Service', 'openmpi']['spec'] == {
        'clusterIP': 'None', 'selector': {'app': 'openmpi'},
        'ports': [{'name': 'openmpi', 'port': 12345, 'targetPort': 12345}]}
    binding = objects['RoleBinding', 'openmpi']
    assert binding['roleRef']['name'] == 'view'
    assert binding['subjects'] == [{'kind': 'ServiceAccount', 'name': 'openmpi',
                                    'namespace': 'kubeflow'}]
    data = objects['ConfigMap', 'openmpi-assets']['data']
    assert data['hostfile'] == ('openmpi-worker-0.openmpi.kubeflow slots=1\n'
                                'openmpi-worker-1.openmpi.kubeflow slots=1\n')
    assert data['mca-params.conf'].splitlines() == [
        'hwloc_base_binding_policy=none', 'rmaps_base_mapping_policy=slot',
        'btl_tcp_if_exclude=lo,docker0', 'orte_keep_fqdn_hostnames=t',
        'mca_base_env_list=LD_LIBRARY_PATH']
    assert {'StrictHostKeyChecking no', 'Port 2022', 'UserKnownHostsFile=/dev/null'} <= set(
        data['ssh_config'].splitlines())
    assert 'Port 2022' in data['sshd_config'].splitlines()
    for name, text in data.items():
        if name.endswith('.sh'):
            subprocess.run(['sh', '-n'], input=text, text=True, check=True)


def test_pods_are_those_of_the_prototype(render):
    objects = render('--exec', "mpiexec -n 4 sh -c 'echo \"$HOME\"'")
    assert len(objects) == 8 and ('RoleBinding', 'openmpi') not in objects
    for pod in ('master', 'worker-0', 'worker-3'):
        whole = spec(objects, pod)
        plain = {key: value for key, value in whole.items()
                 if key not in ('containers', 'volumes', 'hostNetwork')}
        assert plain == {
            'hostname': f'openmpi-{pod}', 'subdomain': 'openmpi', 'restartPolicy': 'Never',
            'terminationGracePeriodSeconds': 30, 'dnsPolicy': 'ClusterFirstWithHostNet',
            'automountServiceAccountToken': False, 'serviceAccountName': 'openmpi',
            'schedulerName': 'default-scheduler'}
        assert whole.get('hostNetwork') == (None if pod == 'master' else False)
        data, secrets, assets = whole['volumes']
        assert data == {'name': 'openmpi-data', 'emptyDir': {}}
        assert secrets == {'name': 'openmpi-secrets', 'secret': {
            'secretName': 'openmpi-secret', 'defaultMode': stat.S_IRUSR}}
        files = assets['configMap']
        assert (files['name'], files['defaultMode']) == ('openmpi-assets', 0o644)
        keys = objects['ConfigMap', 'openmpi-assets']['data']
        assert [each['key'] for each in files['items']] == list(keys)
        assert {each['path'] for each in files['items'] if each['mode'] == 0o555} == {'init.sh'}
        job = containers(objects, pod)['openmpi-job']
        assert job == {
            'name': 'openmpi-job', 'image': 'registry/image:1', 'imagePullPolicy': 'IfNotPresent',
            'workingDir': f'{ROOT_PATH}/data', 'ports': [{'containerPort': 2022}],
            'command': ['sh', INIT, pod.split('-')[0], '4', "mpiexec -n 4 sh -c 'echo \"$HOME\"'",
                        '300'],
            'volumeMounts': [{'name': f'openmpi-{name}', 'mountPath': f'{ROOT_PATH}/{name}'}
                             for name in ('data', 'secrets', 'assets')]}
    assert list(containers(objects, 'master')) == ['openmpi-job']
    controller = containers(objects)['openmpi-controller']
    assert controller['command'] == [
        'sh', f'{ROOT_PATH}/assets/controller.sh', '--worker', 'openmpi-worker-0.openmpi',
        '--master', 'openmpi-master.openmpi', '--num-gpus', '0', '--timeout-secs', '300']
    assert controller['image'] == 'registry/image:1' and 'env' not in controller
    # Names that are found wherever kubectl puts the pods.
    hosts = objects['ConfigMap', 'openmpi-assets']['data']['hostfile']
    assert hosts.splitlines()[3] == 'openmpi-worker-3.openmpi slots=1'


@pytest.mark.parametrize('words, with_token', [
    ((), []), (('--serviceAccountName', 'own'), ['master', 'worker-0']),
    (('--controllerImage', 'theirs:1'), ['worker-0'])])
def test_a_token_is_where_somebody_may_ask_for_it(render, words, with_token):
    objects = render(*words)
    assert [pod for pod in ('master', 'worker-0')
            if spec(objects, pod).get('automountServiceAccountToken', True)] == with_token


def test_each_parameter_does_what_it_did(render):
    objects = render(
        '--workers=2', '--gpu', 2, '--cpu', '500m', '--memory=8Gi', '--customResources',
        'example.com/fpga=1,hugepages-2Mi=4Mi', '--nodeSelector', 'zone=a,example.com/kind=k80',
        '--serviceAccountName', 'own', '--schedulerName', 'kube-batch', '--imagePullPolicy',
        'Always', '--imagePullSecrets', 'one,two', '--init', '/mine.sh', '--initTimeout', 7,
        '--useHostNetwork', 'True', '--runAsUser', 0, '--runAsGroup', 20,
        '--supplementalGroups', '30,40', '--volumes', '[{name: code, emptyDir: {}}]',
        '--volumeMounts', '[{"name": "code", "mountPath": "/code"}]', '--controllerImage', 'aws:1',
        '--namespace', 'kubeflow')
    assert not {kind for kind, _ in objects} & {'ServiceAccount', 'RoleBinding'}
    for pod in ('master', 'worker-1'):
        whole = spec(objects, pod)
        assert whole['schedulerName'] == 'kube-batch' and whole['serviceAccountName'] == 'own'
        assert whole['imagePullSecrets'] == [{'name': 'one'}, {'name': 'two'}]
        assert whole['securityContext'] == {'runAsUser': 0, 'runAsGroup': 20, 'fsGroup': 20,
                                            'supplementalGroups': [30, 40]}
        assert whole['volumes'][-1] == {'name': 'code', 'emptyDir': {}}
        for each in whole['containers']:
            assert each['volumeMounts'][-1] == {'name': 'code', 'mountPath': '/code'}
            assert each['imagePullPolicy'] == 'Always'
        assert containers(objects, pod)['openmpi-job']['command'] == [
            'sh', '/mine.sh', pod.split('-')[0], '2', 'sleep infinity', '7']
    master, worker = spec(objects, 'master'), spec(objects, 'worker-1')
    assert 'nodeSelector' not in master and 'hostNetwork' not in master
    assert 'resources' not in containers(objects, 'master')['openmpi-job']
    assert worker['nodeSelector'] == {'zone': 'a', 'example.com/kind': 'k80'}
    assert worker['hostNetwork'] is True
    assert containers(objects)['openmpi-job']['resources'] == {'limits': {
        'nvidia.com/gpu': 2, 'cpu': '500m', 'memory': '8Gi', 'example.com/fpga': '1',
        'hugepages-2Mi': '4Mi'}}
    controller = containers(objects)['openmpi-controller']
    assert controller['image'] == 'aws:1' and controller['command'][-3:] == ['2', '--timeout-secs',
                                                                             '7']
    data = objects['ConfigMap', 'openmpi-assets']['data']
    assert data['hostfile'].splitlines()[0] == 'openmpi-worker-0.openmpi.kubeflow slots=2'
    assert data['settings.sh'] == 'gpus=2\nwatch=name\n'


def test_transfers_get_their_keys_and_a_place_for_each_worker(render):
    given = ('--s3Secret', 's3', '--downloadDataFrom', 's3://b/in', '--downloadDataTo', 'in',
             '--uploadDataFrom', 'out', '--uploadDataTo', 's3://b/out/', '--namespace', 'kubeflow')
    controller = containers(render(*given), 'worker-3')['openmpi-controller']
    assert controller['command'][-8:] == [
        '--download-data-from', 's3://b/in', '--download-data-to', 'in', '--upload-data-from',
        'out', '--upload-data-to', 's3://b/out/kubeflow/openmpi/openmpi-worker-3']
    keys = {each['name']: each['valueFrom']['secretKeyRef'] for each in controller['env']}
    assert [name for name, key in keys.items() if not key.get('optional')] == [
        'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']
    assert all(key['name'] == 's3' and key['key'] == name for name, key in keys.items())
    # Two jobs of one name, in two namespaces, are apart there, too.
    other = containers(render(*given[:-1], 'other'), 'worker-3')['openmpi-controller']
    assert other['command'][-1] == 's3://b/out/other/openmpi/openmpi-worker-3'


def test_another_user_gets_a_name_and_fits_restricted_pods(render):
    objects = render('--runAsUser', 12345)
    for pod in ('master', 'worker-0'):
        whole = spec(objects, pod)
        assert whole['securityContext'] == {'runAsUser': 12345, 'fsGroup': 12345}
        for each in (*whole['initContainers'], *whole['containers']):
            context = each['securityContext']
            assert context['runAsNonRoot'] is True and context['capabilities'] == {'drop': ['ALL']}
            assert context['allowPrivilegeEscalation'] is False
            assert context['seccompProfile'] == {'type': 'RuntimeDefault'}
        assert {'name': 'openmpi-user', 'mountPath': '/etc/passwd', 'subPath': 'passwd',
                'readOnly': True} in containers(objects, pod)['openmpi-job']['volumeMounts']


def test_modes_of_files_are_octal_as_kubernetes_reads_them(render):
    volume = ('{name: a, configMap: {name: a, defaultMode: 0555, items: [{key: k, path: "0555", '
              'mode: 0o400}]}}')
    found = spec(render('--volumes', f'[{volume}]'), 'master')['volumes'][-1]['configMap']
    assert found == {'name': 'a', 'defaultMode': 0o555, 'items': [
        {'key': 'k', 'path': '0555', 'mode': 0o400}]}


#: What YAML 1.1 takes for something else than a text, ends lines or indents with, or refuses.
ODD = ('yes', '1e3', '0x10', '~', '1_000', '2024-01-01', '1:30', '0o17', '017', '.inf', '=', '<<',
       *(f'{sign}a' for sign in '*&!%@`?-|>:{[#"\'\\'), '? a', '- b', 'a: b', 'a #b', 'a\n  \n',
       ' first\nlast\n', 'tab\tin\n two \n', 'two ends\n\n', 'line\r\nend\r\n', '---\n...\n',
       '\u00e9\U0001f600', '\u0085y\u0085z', 'a\u2028b\u2029\n', '\ufeffa\ufffe', '\x7f\x80\x9f',
       'x' * 20000)


def test_every_text_is_read_back_as_it_was(render):
    """By a reader of YAML 1.1, as Kubernetes' own is."""
    for text in (*ODD, '\n'.join(ODD), '\n'.join(ODD[:20]) + '\n'):
        whole = render('--workers', 1, '--exec', text, '--nodeSelector', f'{text[:9]}=1'
                       if '=' not in text[:9] and ',' not in text else 'a=1')
        assert containers(whole, 'master')['openmpi-job']['command'][4] == text
        key, = spec(whole, 'worker-0')['nodeSelector']
        assert key in (text[:9], 'a')


def test_null_is_no_value(render):
    given = [word for name, (_, value) in PROTOTYPE.items() if value
             for word in (f'--{name}', value)]
    assert render(*given) == render()


def test_each_parameter_is_described_with_type_and_default(reigen):
    told = re.sub(r'\s+', ' ', reigen('render', 'kubeflow-openmpi', '--describe').stdout)
    found = {name: (kind, initial or None) for name, initial, kind in re.findall(
        r'--(\w+)=<\1> [^][]*(?:\[\]\. )?\[(?:default: ([^ ]+), )?type: (\w+)\]', told)}
    assert found == {**PROTOTYPE, 'namespace': ('string', 'null')}
    required, _, optional = told.partition('Optional parameters')
    assert all((f'--{name}=' in required) == (value is None)
               for name, (_, value) in PROTOTYPE.items()) and '--gpu=' in optional
    # The shells know them, too.
    shell = reigen('completion', '--render', 'kubeflow-openmpi', 'pi').stdout.split()
    assert all(f'--{name}' in shell for name in PROTOTYPE) and '--slotsPerWorker' not in shell
    assert told == re.sub(r'\s+', ' ', reigen('render', 'kubeflow-openmpi', '--help').stdout)


WRONG = [
    (['--workers', 'four'], '--workers four: not a whole number; give 1 to 10000'),
    (['--workers', '0'], '--workers 0'), (['--gpu', '-1'], '--gpu -1'),
    (['--initTimeout', '0'], '--initTimeout 0'), (['--runAsUser', 'root'], '--runAsUser root'),
    (['--supplementalGroups', '1,x'], '--supplementalGroups x'),
    (['--supplementalGroups', '1,,2'], 'nothing between two commas'),
    (['--cpu', 'much'], '--cpu much: no quantity'), (['--memory', '8GB'], '--memory 8GB'),
    (['--customResources', 'a=1,b'], '--customResources a=1,b: b is no KEY=VALUE'),
    (['--customResources', 'a=x'], '--customResources x: no quantity'),
    (['--nodeSelector', '=a'], '--nodeSelector =a'),
    (['--nodeSelector', 'a=1,a=2'], '--nodeSelector a=1,a=2: a is there twice'),
    (['--imagePullPolicy', 'Sometimes'], 'write one of: IfNotPresent Always Never'),
    (['--useHostNetwork', 'yes'], '--useHostNetwork yes: write true or false'),
    (['--s3Secret', 'My_Secret'], '--s3Secret My_Secret: no name for Kubernetes'),
    (['--imagePullSecrets', 'a,B'], '--imagePullSecrets B: no name for Kubernetes'),
    (['--namespace', 'a.b'], '--namespace a.b'), (['--image', 'a b'], '--image a b'),
    (['--volumes', '{}'], '--volumes {}: no list of mappings'),
    (['--volumes', '[{'], '--volumes'), (['--volumes', '[{emptyDir: {}}]'], 'entry 1 has no name'),
    (['--volumes', '[{name: openmpi-data}]'], 'openmpi-data is a name of the job'),
    (['--volumeMounts', '[{name: a}]'], 'entry 1 has no mountPath'),
    (['--volumes', '[{name: a}, {name: a}]'], '--volumes: a is there twice'),
    (['--volumeMounts', '[{name: a, mountPath: /a}]'], '--volumeMounts: a is no volume'),
    (['--downloadDataFrom', 's3://a'], '--downloadDataTo is missing'),
    (['--uploadDataTo', 's3://a'], '--uploadDataFrom is missing'),
    (['--worker', '2'], 'did you mean --workers?'), (['--exec'], '--exec needs a value'),
    (['--image', ''], '--image: the value is empty'),
    (['--exec', b'\xff'], '--exec: the value is no UTF-8'),
    (['train.py'], 'train.py: one argument too many'), (['--', 'true'], 'takes no command'),
]


@pytest.mark.parametrize('given, text', WRONG, ids=[text[:40] for _, text in WRONG])
def test_a_wrong_value_is_refused_by_name_before_anything_is_printed(given, text):
    # As bytes, as one of them is no text.
    argv = [PROGRAMS.reigen, *words(), *given]
    done = subprocess.run(argv, capture_output=True, timeout=60, check=False)
    told = done.stderr.decode()
    assert done.returncode == 2 and not done.stdout, done
    assert text in told and "Try 'reigen render --help'" in told


@pytest.mark.parametrize('name', ['Openmpi', '1st', '-a', 'a-', 'a' * 52, 'a_b'])
def test_a_wrong_name_is_refused(reigen, name):
    done = reigen(*words(needed=(*NEEDED, '--name', name)))
    assert done.returncode == 2 and not done.stdout and f'NAME {name}' in done.stderr or (
        f'--name {name}' in done.stderr), done


def test_what_is_missing_is_named(reigen):
    for given, text in ((['openmpi', '--secret', 's'], '--image is missing'),
                        (['openmpi', '--image', 'i'], '--secret is missing'),
                        (['--image', 'i', '--secret', 's'], 'NAME is missing')):
        done = reigen('render', 'kubeflow-openmpi', *given)
        assert done.returncode == 2 and text in done.stderr and not done.stdout


def test_formats_are_listed_and_a_file_is_written(reigen, tmp_path):
    assert 'kubeflow-openmpi ' in reigen('render').stdout
    done = reigen('render', 'kubeflow')
    assert done.returncode == 2 and 'no such format' in done.stderr
    assert 'did you mean' in reigen('render', 'kubeflow-openmp').stderr
    to, printed = tmp_path / 'made.yaml', reigen(*words()).stdout
    done = reigen(*words('-o', to))
    assert done.returncode == 0 and not done.stdout and to.read_text() == printed
    assert reigen(*words('-o', '-')).stdout == printed
    done = reigen(*words('-o', tmp_path / 'no' / 'folder'))
    assert done.returncode != 0 and 'No such file' in done.stderr


def test_the_page_maps_every_command_of_the_original():
    """Of its README: the quick start is what tests/kubernetes runs, the rest is in the table."""
    page = (ROOT / 'docs/kubeflow.md').read_text()
    block = re.search(r'^```\n(.*?)^```', page, re.S | re.M)[1]
    table = page.partition('\n## Line by line\n')[2].partition('\n## ')[0]
    for line in ('ks init', 'ks env set', 'ks registry add', 'ks pkg install',
                 'ks prototype describe', 'ks generate openmpi', 'ks apply', 'ks delete',
                 'kubectl create namespace', 'kubectl delete secret', 'kubectl create secret',
                 'kubectl get pod', 'kubectl logs'):
        assert f'`{line}' in table, line
        assert line.startswith('ks ') or line in block, line
    described = subprocess.run([PROGRAMS.reigen, 'render', 'kubeflow-openmpi', '--describe'],
                               capture_output=True, text=True, timeout=60, check=True).stdout
    assert set(re.findall(r'--(\w+)=<', described)) == {*PROTOTYPE, 'namespace'}
