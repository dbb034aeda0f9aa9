# SPDX-License-Identifier: Apache-2.0
"""What other charts, older files and people's fingers give deploy/chart: it is rendered, or told
what takes its place; and what its notes say, works."""
import os
import re
import subprocess

import charts
import pytest
import yaml
from built import environment
from charts import CHART, env, helm, pod, render
from test_chart_render import NAME, hostfile

pytestmark = pytest.mark.timeout(120)
LIMIT = 60


@pytest.fixture(scope='module', params=charts.HELMS)
def each_helm(request):
    return charts.program(request.param)


@pytest.fixture(scope='module')
def one_helm():
    return charts.program('helm')


def test_resources_and_slots_of_a_role_win_over_those_of_all(each_helm):
    gpus = {'limits': {'nvidia.com/gpu': 2}}
    values = {'resources': {'limits': {'cpu': 1}}, 'worker': {'number': 1, 'resources': gpus},
              'master': {'resources': {'requests': {'memory': '1Gi'}}}}
    objects = render(each_helm, values=values)
    assert hostfile(objects) == [f'{NAME}-master slots=1', f'{NAME}-0.{NAME} slots=2']
    assert pod(objects, 'StatefulSet', NAME)['containers'][0]['resources'] == gpus
    assert pod(objects, 'Job', NAME)['containers'][0]['resources'] == \
        {'requests': {'memory': '1Gi'}}
    values['worker']['slots'] = '4'
    values['driver'] = {'slots': 3, 'resources': gpus}
    del values['master']
    objects = render(each_helm, values=values)
    assert hostfile(objects) == [f'{NAME}-driver slots=3', f'{NAME}-0.{NAME} slots=4']


def test_variables_may_be_a_list_as_in_a_pod(each_helm):
    values = {'worker': {'number': 1, 'env': [{'name': 'B', 'value': 2}, {'name': 'E'}]},
              'master': {'env': [{'name': 'A', 'value': 'x y'}, {'name': 'B', 'value': 'z'}]}}
    done = helm(each_helm, 'template', 'mnist', CHART, values=values)
    assert 'warning' not in done.stderr, done.stderr
    objects = render(each_helm, values=values)
    head, worker = (env(pod(objects, kind, NAME)['containers'][0])
                    for kind in ('Job', 'StatefulSet'))
    assert (head['A'], head['B'], worker['A'], worker['B']) == ('x y', 'z', 'x y', '2')
    assert 'E' in worker and 'E' not in head and not worker['E']
    for wrong, said in (([{'name': 'SSHPORT', 'value': 1}], 'sets this variable itself'),
                        ([{'name': 'A', 'valueFrom': {}}], 'valueFrom'), ([{'value': 1}], 'name')):
        done = helm(each_helm, 'template', 'm', CHART, values={'master': {'env': wrong}})
        assert done.returncode != 0 and said in done.stderr, done.stderr


@pytest.mark.parametrize('path, said', [
    ('image.repository', 'image: the chart has no such value; give worker.image and master.image'),
    ('env.A', 'env: the chart has no such value; give master.env'),
    ('hostNetwork', 'give useHostNetwork'), ('replicaCount', 'give worker.number'),
    ('slotsPerWorker', 'give worker.slots'), ('gpus', 'give resources.limits'),
    ('worker.replicas', 'worker.replicas: the chart has no such value; give worker.number'),
    ('worker.nodeSelector.a', 'give nodeSelector, at the top'),
    ('master.volumes', 'give volumes, at the top'), ('driver.gpu', 'driver.gpu: '),
    ('worker.args', 'the chart runs the workers itself'), ('master.command', 'give master.args'),
    ('master.number', 'there is one master'), ('ssh.existingSecret', 'give ssh.hostKey'),
    ('worker.image.name', 'worker.image.name: the chart has no such value; give repository'),
    ('master.image.pullSecrets', 'give imagePullSecrets, at the top'),
    ('workersCount', 'give worker.number'), ('master.restartPolicy', 'give master.backoffLimit'),
    ('worker.shmSize', 'at /dev/shm'), ('extraEnv.A', 'give master.env'),
    ('serviceAccount.name', 'give serviceAccountName'), ('rbac.create', 'give worker.endWithJob')])
def test_values_of_other_charts_are_told_what_takes_their_place(one_helm, path, said):
    done = helm(one_helm, 'template', 'm', CHART, '--set-string', f'{path}=x')
    assert done.returncode != 0 and said in done.stderr, done.stderr
    place, name = ([*path.split('.'), ''] if '.' not in path else path.rsplit('.', 1))[:2]
    empty = {place: None} if not name else {place.split('.')[0]: None}
    assert helm(one_helm, 'template', 'm', CHART, values=empty).returncode == 0


@pytest.mark.parametrize('path, names', [
    ('wrker.number', ['worker', 'master', 'useHostNetwork']), ('worker.nubmer', ['number', 'env']),
    ('master.arg', ['args', 'startTimeout']), ('ssh.prot', ['port', 'useSecrets']),
    ('resources.limit', ['limits', 'requests']), ('worker.image.tga', ['tag', 'repository'])])
def test_a_misspelt_value_is_named_with_those_that_there_are(each_helm, path, names):
    done = helm(each_helm, 'template', 'm', CHART, '--set-string', f'{path}=x')
    wrong = path.rsplit('.', 1)[path.split('.')[0] in ('worker', 'master', 'ssh', 'resources')]
    assert done.returncode != 0 and wrong in done.stderr, done.stderr
    assert all(re.search(rf'[\'"]{name}[\'"]', done.stderr) for name in names), done.stderr


def parent(folder, dependencies, values):
    """A chart that has this one in it."""
    (folder / 'templates').mkdir()
    version = yaml.safe_load((CHART / 'Chart.yaml').read_text())['version']
    chart = {'apiVersion': 'v2', 'name': 'platform', 'version': '0.1.0', 'dependencies': [
        {'name': 'reigen', 'version': version, 'repository': f'file://{CHART}', **each}
        for each in dependencies]}
    (folder / 'Chart.yaml').write_text(yaml.safe_dump(chart))
    (folder / 'values.yaml').write_text(yaml.safe_dump(values))
    (folder / 'templates/a.yaml').write_text(
        'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: seen}\n'
        'data: {x: "{{ .Values.seen }}"}\n')
    return folder


def test_a_chart_may_have_this_one_in_it(each_helm, tmp_path):
    """By a condition and by tags, under other names, twice, with global values, and with some of
    its values for the parent's own."""
    folder = parent(tmp_path, [
        {'alias': 'horovod', 'condition': 'horovod.enabled,global.training', 'tags': ['training']},
        {'alias': 'second', 'condition': 'second.enabled',
         'import-values': [{'child': 'worker', 'parent': 'seen'}]},
        {'tags': ['never']}], {
            'tags': {'training': True, 'never': False}, 'global': {'imageRegistry': 'r'},
            'horovod': {'enabled': True, 'worker': {'number': 2}, 'tags': {'a': True},
                        'exports': {'data': {}}, 'global': {'a': 1}},
            'second': {'enabled': True, 'worker': {'number': 1}}})
    done = helm(each_helm, 'dependency', 'build', folder,
                env=environment(HELM_CACHE_HOME=tmp_path / 'cache', HELM_DATA_HOME=tmp_path / 'd',
                                HELM_CONFIG_HOME=tmp_path / 'config'))
    assert done.returncode == 0, done.stderr
    objects = render(each_helm, release='prod', chart=folder)
    for name, number in (('prod-horovod', 2), ('prod-second', 1)):
        assert objects['StatefulSet', name]['spec']['replicas'] == number
    assert len([key for key in objects if key[0] == 'Job']) == 2
    assert 'number:1' in objects['ConfigMap', 'seen']['data']['x']
    off = render(each_helm, '--set', 'horovod.enabled=false,second.enabled=false',
                 release='prod', chart=folder)
    assert set(off) == {('ConfigMap', 'seen')}


def test_a_chart_that_is_not_enabled_and_rendered_is_not_taken_for_one_that_is(one_helm):
    assert render(one_helm, '--set', 'enabled=true')
    done = helm(one_helm, 'template', 'm', CHART, '--set', 'enabled=false')
    assert done.returncode != 0 and '`condition: NAME.enabled`' in done.stderr


def test_a_token_is_where_somebody_asks_for_it(one_helm):
    def mounts(**values):
        objects = render(one_helm, values={'master': {'args': 'mpirun x'}, **values})
        return [pod(objects, kind, NAME).get('automountServiceAccountToken', True)
                for kind in ('Job', 'StatefulSet')] + \
            [objects['Pod', f'{NAME}-test', 'hook']['spec'].get('automountServiceAccountToken')]

    assert mounts() == [True, False, False], 'the master ends its workers'
    assert mounts(worker={'endWithJob': False}) == [False, False, False]
    assert mounts(serviceAccountName='mine') == [True, False, False]


@pytest.mark.parametrize('answers, said, code', [
    (['', 'Complete'], 'Complete\n', 0), (['SuccessCriteriaMet', 'SuccessCriteriaMet Complete'],
                                          'Complete\n', 0),
    (['', 'FailureTarget', 'FailureTarget Failed'], 'Failed\n', 0), (['', None], '', 1)])
def test_who_waits_as_the_notes_say_hears_of_a_failure_too(tmp_path, answers, said, code):
    (tmp_path / 'kubectl').write_text(
        '#!/bin/sh\necho x >>$0.calls\n'
        f'case $(wc -l <$0.calls) in\n' + ''.join(
            f'{i + 1}) ' + ('exit 1' if each is None else f'echo "{each}"') + ' ;;\n'
            for i, each in enumerate(answers)) + 'esac\n')
    (tmp_path / 'sleep').write_text('#!/bin/sh\n')
    for name in ('kubectl', 'sleep'):
        (tmp_path / name).chmod(0o755)
    notes = (CHART / 'templates/NOTES.txt').read_text()     # helm install asks a cluster for more
    line = re.search(r'Wait for its end: *(.*)', notes)[1]
    line = line.replace('{{ $n }}', 'default').replace('{{ $job.fullname }}', NAME)
    assert f'job/{NAME}' in line and '-n default' in line and '{{' not in line
    waited = subprocess.run(
        ['sh', '-c', line], env=environment(PATH=f'{tmp_path}:{os.environ["PATH"]}'),
        capture_output=True, text=True, timeout=LIMIT, check=False)
    assert waited.stdout == said and (tmp_path / 'kubectl.calls').read_text().count('x') == \
        len(answers), waited
    assert code == 0 or 'Complete' not in waited.stdout
