# SPDX-License-Identifier: Apache-2.0
"""reigen pai: job files of OpenPAI, checked field by field, and converted there and back."""
import copy
import json
import re
import subprocess

import pytest
import yaml
from built import ROOT

#: The job of OpenPAI's example for Horovod with Intel MPI on RDMA machines, as it stands there.
EXAMPLE = {
    'jobName': 'horovod-job', 'image': 'your/images/url', 'virtualCluster': 'default',
    'taskRoles': [
        {'name': name, 'taskNumber': 1, 'cpuNumber': 2, 'memoryMB': 10240, 'shmMB': 256,
         'gpuNumber': 1, 'minFailedTaskCount': 1, 'minSucceededTaskCount': 1, 'command': command}
        for name, command in (('master', 'sleep 1000 &&  Your code\u00d4\u00ba\u00c5'),
                              ('worker', 'sleep infinity'))],
    'jobEnvs': {'paiAzRDMA': True}}

V2 = {
    'protocolVersion': 2, 'name': 'train', 'type': 'job', 'jobRetryCount': 1,
    'prerequisites': [
        {'name': 'image', 'type': 'dockerimage', 'uri': 'train:1'},
        {'name': 'digits', 'type': 'data', 'uri': ['/one', '/two']}],
    'parameters': {'rate': 0.5},
    'secrets': {'token': 'abc'},
    'taskRoles': {
        'master': {
            'instances': 1, 'dockerImage': 'image', 'data': 'digits',
            'completion': {'minFailedInstances': 1, 'minSucceededInstances': 1},
            'resourcePerInstance': {'cpu': 2, 'memoryMB': 2048, 'gpu': 0, 'ports': {'web': 1}},
            'extraContainerOptions': {'shmMB': 64},
            'commands': ['python train.py --rate <% $parameters.rate %> <% $data.uri[1] %>']},
        'worker': {
            'dockerImage': 'image', 'commands': ['sleep infinity'],
            'resourcePerInstance': {'cpu': 1, 'memoryMB': 2048, 'gpu': 0}}},
    'deployments': [{'name': 'prod', 'taskRoles': {'master': {'preCommands': ['date']}}}],
    'defaults': {'deployment': 'prod', 'virtualCluster': 'default'}}

GONE = object()


def changed(base, path, value):
    """base with the value at path ("taskRoles.0.name") in its place, or GONE."""
    job = copy.deepcopy(base)
    *way, last = [int(step) if step.isdigit() else step for step in path.split('.')]
    at = job
    for step in way:
        at = at[step] if isinstance(at, list) else at.setdefault(step, {})
    if value is GONE:
        del at[last]
    else:
        at[last] = value
    return job


def shown(path):
    return re.sub(r'\.(\d+)\b', r'[\1]', path)


ROLE, INTEGER = 'taskRoles.0.', 'it is an integer'
#: Where, what is put there, and words of the rule; the path of the finding, where it is another.
WRONG_V1 = [
    ('jobName', GONE, 'required'), ('jobName', '', 'not empty'), ('jobName', 7, 'a text'),
    ('jobName', 'a b', '[A-Za-z0-9._-]+'), ('jobName', 'a~b', '[A-Za-z0-9._-]+'),
    ('image', GONE, 'required'), ('image', '', 'not empty'), ('image', None, 'a text'),
    ('authFile', 1, 'a text'), ('dataDir', True, 'a text'), ('outputDir', None, 'a text'),
    ('codeDir', 1.5, 'a text'), ('virtualCluster', 1, 'a text'), ('gpuType', 0, 'a text'),
    ('retryCount', -3, 'at least -2'), ('retryCount', 1.5, INTEGER), ('retryCount', 'x', INTEGER),
    ('killAllOnCompletedTaskNumber', 'all', INTEGER),
    ('jobEnvs', [], 'a mapping'), ('jobEnvs.--', 1, 'a letter, a digit or _'),
    ('extras', 'x', 'a mapping'), ('extras.a-b', 1, '[A-Za-z0-9._]+'),
    ('taskRoles', GONE, 'required'), ('taskRoles', [], 'at least one'),
    ('taskRoles', {}, 'a list'), ('taskRoles.0', 'x', 'a mapping'),
    ('jobname', 'x', 'does not know'), ('protocol', 1, 'does not know'),
    (ROLE + 'name', GONE, 'required'), (ROLE + 'name', '', 'not empty'),
    (ROLE + 'name', 'a-b', 'without a dash'), (ROLE + 'name', 3, 'a text'),
    (ROLE + 'taskNumber', 1.5, INTEGER), (ROLE + 'taskNumber', '1x', INTEGER),
    (ROLE + 'taskNumber', None, INTEGER), (ROLE + 'cpuNumber', 'two', INTEGER),
    (ROLE + 'memoryMB', '8g', INTEGER), (ROLE + 'memoryMB', True, INTEGER),
    (ROLE + 'shmMB', 0.5, INTEGER), (ROLE + 'gpuNumber', [], INTEGER),
    (ROLE + 'shmMB', 10241, 'at most memoryMB, which is 10240'),
    (ROLE + 'memoryMB', GONE, 'at most memoryMB, by default, which is 100', ROLE + 'shmMB'),
    (ROLE + 'command', GONE, 'required'), (ROLE + 'command', '', 'not empty'),
    (ROLE + 'command', ['ls'], 'a text'), (ROLE + 'command', 'a\nb', 'loses a line break'),
    (ROLE + 'minFailedTaskCount', 0, 'at least 1, or null'),
    (ROLE + 'minFailedTaskCount', 2, 'at most taskNumber, which is 1'),
    (ROLE + 'minSucceededTaskCount', -1, 'at least 1, or null'),
    (ROLE + 'minSucceededTaskCount', 2, 'at most taskNumber, which is 1'),
    (ROLE + 'minSucceededTaskCount', 'x', 'at least 1, or null'),
    (ROLE + 'portList', {}, 'a list'),
    (ROLE + 'portList', ['ssh'], 'a mapping', ROLE + 'portList.0'),
    (ROLE + 'portList', [{'beginAt': 1}], 'required', ROLE + 'portList.0.label'),
    (ROLE + 'portList', [{'label': 'a-b'}], '[A-Za-z0-9._~]+', ROLE + 'portList.0.label'),
    (ROLE + 'portList', [{'label': 'a', 'beginAt': 'x'}], INTEGER, ROLE + 'portList.0.beginAt'),
    (ROLE + 'portList', [{'label': 'a', 'portNumber': 0.5}], INTEGER,
     ROLE + 'portList.0.portNumber'),
    (ROLE + 'portList', [{'label': 'a', 'port': 1}], 'does not know', ROLE + 'portList.0.port'),
    (ROLE + 'tasknumber', 1, 'does not know'),
    ('taskRoles.1.name', 'master', 'another role has this name'),
    ('jobEnvs.paiAzRDMA', 'true', 'only true asks for RDMA'),
]

MASTER, RESOURCE = 'taskRoles.master.', 'taskRoles.master.resourcePerInstance.'
WRONG_V2 = [
    ('protocolVersion', 3, 'it is 2'), ('protocolVersion', '1', 'it is 2'),
    ('name', GONE, 'required'), ('name', 'a.b', 'without a dot'), ('name', 'x' * 256, '255'),
    ('name', 1, 'a text'), ('type', GONE, 'required'), ('type', 'data', 'one of: job'),
    ('contributor', 1, 'a text'), ('description', [], 'a text'), ('prerequisites', {}, 'a list'),
    ('prerequisites.0.name', GONE, 'required'), ('prerequisites.0.type', GONE, 'required'),
    ('prerequisites.0.type', 'image', 'one of: dockerimage script output data'),
    ('prerequisites.0.uri', GONE, 'required'), ('prerequisites.0.uri', ['a'], 'a text'),
    ('prerequisites.1.uri', 'a', 'a list of texts'), ('prerequisites.1.uri', [1], 'list of texts'),
    ('prerequisites.1.auth', {'username': 'x'}, 'only a dockerimage'),
    ('prerequisites.0.auth', {'user': 'x'}, 'does not know', 'prerequisites.0.auth.user'),
    ('prerequisites.0.auth', {'password': 1}, 'a text', 'prerequisites.0.auth.password'),
    ('prerequisites.0.kind', 1, 'does not know'),
    ('prerequisites.2', GONE, None), ('parameters', [], 'a mapping'), ('secrets', 1, 'a mapping'),
    ('jobRetryCount', -1, 'at least 0'), ('jobRetryCount', '1', INTEGER),
    ('taskRoles', GONE, 'required'), ('taskRoles', {}, 'at least one'),
    ('taskRoles', [], 'a mapping'),
    ('taskRoles.a-b', 'COPY', '[a-zA-Z_][a-zA-Z0-9_]*'),
    ('taskRoles.1a', 'COPY', '[a-zA-Z_][a-zA-Z0-9_]*'),
    (MASTER + 'instances', 0, 'at least 1'), (MASTER + 'instances', '2', 'at least 1'),
    (MASTER + 'completion.minFailedInstances', 'x', 'or null'),
    (MASTER + 'completion.minSucceededInstances', 1.5, 'or null'),
    (MASTER + 'completion.minSucceededInstances', 2, 'never succeeds'),
    (MASTER + 'completion.min', 1, 'does not know'), (MASTER + 'taskRetryCount', 'x', INTEGER),
    (MASTER + 'dockerImage', GONE, 'required'),
    (MASTER + 'dockerImage', 'other', 'no prerequisite'),
    (MASTER + 'data', 'other', 'no prerequisite'), (MASTER + 'script', 1, 'a text'),
    (MASTER + 'output', 'x', 'no prerequisite'), (MASTER + 'prerequisites', 'x', 'a list'),
    (MASTER + 'extraContainerOptions.shmMB', '1g', INTEGER),
    (MASTER + 'extraContainerOptions.infiniband', 'yes', 'true or false'),
    (MASTER + 'resourcePerInstance', GONE, 'required'), (RESOURCE + 'cpu', GONE, 'required'),
    (RESOURCE + 'memoryMB', GONE, 'required'), (RESOURCE + 'gpu', GONE, 'required'),
    (RESOURCE + 'cpu', '2', INTEGER), (RESOURCE + 'memory', 1, 'does not know'),
    (RESOURCE + 'ports', {}, 'at least one'), (RESOURCE + 'ports.web', 'x', INTEGER),
    (RESOURCE + 'ports.a-b', 1, '[a-zA-Z_][a-zA-Z0-9_]*'),
    (RESOURCE + 'ports.1st', 1, '[a-zA-Z_][a-zA-Z0-9_]*'),
    (RESOURCE + 'ports.x~y', 1, '[a-zA-Z_][a-zA-Z0-9_]*'),
    ('version', [1], 'a text or a number'), ('version', True, 'a text or a number'),
    ('version', None, 'a text or a number'), ('prerequisites.0.version', {}, 'a text or a number'),
    ('prerequisites.0.require', ['x'], 'a dockerimage has none'),
    ('prerequisites.0.plugin', 'x', 'a dockerimage has none'),
    ('deployments', [], 'at least one'), (MASTER + 'instances', 10001, 'which is 10000'),
    ('taskRoles.' + 'r' * 64, 'COPY', 'at most 63'),
    (MASTER + 'commands', GONE, 'required'), (MASTER + 'commands', [], 'at least one'),
    (MASTER + 'commands', 'ls', 'a list'), (MASTER + 'commands.0', 1, 'a text'),
    (MASTER + 'commands.0', 'a <% $parameters.rat %>', 'names nothing'),
    (MASTER + 'commands.0', 'a <% $secrets.x %>', 'names nothing'),
    (MASTER + 'commands.0', 'a <% $script.uri %>', 'names nothing'),
    (MASTER + 'commands.0', 'a <% rate %>', 'names nothing'), (MASTER + 'command', 'x', 'not know'),
    ('deployments.0.name', GONE, 'required'), ('deployments.0.taskRoles', GONE, 'required'),
    ('deployments.0.taskRoles.master.preCommands', [], 'at least one'),
    ('deployments.0.taskRoles.master.preCommands.0', '<% $parameters.y %>', 'names nothing'),
    ('deployments.0.taskRoles.master.before', [], 'does not know'),
    ('defaults.deployment', 'other', 'no deployment'), ('defaults.virtualCluster', 1, 'a text'),
    ('default', {}, 'does not know'), ('extras', [], 'a mapping'), ('retryCount', 1, 'not know'),
    ('taskRoles.Master', 'COPY', 'another role then has the same'),
]
WRONG_V2 = [case for case in WRONG_V2 if case[2]]


@pytest.fixture
def pai(reigen, tmp_path):
    """pai(command, job, *more): the job, an object or a text, is written down and worked on."""
    def run(command, job, *more, version=1):
        text = job if isinstance(job, str) else json.dumps(job, indent='\t', ensure_ascii=False) \
            if version == 1 else yaml.safe_dump(job, sort_keys=False)
        (tmp_path / 'job').write_text(text)
        return reigen('pai', command, *more, 'job', cwd=tmp_path)
    return run


def findings(pai, job, **kwargs):
    done = pai('check', job, '--json', **kwargs)
    assert done.stderr == '' and done.returncode in (0, 2), done
    said = json.loads(done.stdout)
    assert said['errors'] == sum(f['severity'] == 'error' for f in said['findings'])
    assert done.returncode == (2 if said['errors'] else 0)
    return said['findings']


def of_case(base, case):
    path, value = case[:2]
    value = copy.deepcopy(base['taskRoles']['master']) if value == 'COPY' else value
    return changed(base, path, value), shown(case[3] if len(case) > 3 else path)


@pytest.mark.parametrize('version, case', [(1, c) for c in WRONG_V1] + [(2, c) for c in WRONG_V2],
                         ids=lambda c: f'{c[0]}-{c[1]!r:.12}' if isinstance(c, tuple) else str(c))
def test_each_field_that_is_wrong_is_named_with_its_rule_and_its_line(pai, tmp_path, version, case):
    job, path = of_case(EXAMPLE if version == 1 else V2, case)
    found = [f for f in findings(pai, job, version=version)
             if f['path'] == path and f['severity'] == 'error']
    assert found and case[2] in found[0]['rule'], (path, found)
    last = re.split(r'[.\[]', path)[-1].rstrip(']')
    line = (tmp_path / 'job').read_text().splitlines()[found[0]['line'] - 1]
    value = case[1]
    if value is not GONE and not last.isdigit() and not isinstance(value, (list, dict)):
        assert last in line and line.index(last) <= found[0]['column'], (line, found[0])


@pytest.mark.parametrize('name', ['job.json', 'job.yaml'])
def test_our_own_templates_have_no_findings(pai, name):
    assert findings(pai, (ROOT / 'deploy/openpai' / name).read_text()) == []


def test_a_job_that_is_right_has_no_errors(pai):
    assert [f['severity'] for f in findings(pai, EXAMPLE)] == ['warning']
    assert findings(pai, V2, version=2) == []
    numbers = changed(changed(EXAMPLE, 'taskRoles.0.cpuNumber', '4'), 'retryCount', '-2')
    assert len(findings(pai, numbers)) == 1     # v1 takes texts for numbers
    whole = '"cpu": 2.0, "gpu": 0, "memoryMB": 1e3, "ports": {"a": 1.0}'
    assert findings(pai, '{"protocolVersion": 2.0, "name": "a", "type": "job", "prerequisites": [{'
                         '"name": "i", "type": "dockerimage", "uri": "u"}], "taskRoles": {"m": {'
                         f'"dockerImage": "i", "commands": ["x"], "resourcePerInstance": {{{whole}'
                         '}}}}') == []


@pytest.mark.parametrize('version, path, value, rule', [
    (1, 'taskRoles.0.command', 'sleep 30; mpirun x', 'waits blindly'),
    (1, 'taskRoles.0.taskNumber', -1, 'at least 1'), (1, 'taskRoles.0.cpuNumber', 0, 'at least 1'),
    (1, 'taskRoles.0.gpuNumber', -1, 'at least 0'), (1, 'jobEnvs.paiAzRDMA', 1, 'only true'),
    (1, 'killAllOnCompletedTaskNumber', 1, 'obsolete'),
    (1, 'taskRoles.0.portList', [{'label': 'a', 'beginAt': 65534, 'portNumber': 3}],
     'from beginAt on, which is 2'),
    (2, 'taskRoles.master.extraContainerOptions.shmMB', 4096, 'at most memoryMB'),
    (2, 'taskRoles.master.commands', ['sleep 9', 'ls'], 'waits blindly'),
    (2, 'taskRoles.master.completion.minFailedInstances', 2, 'never fails'),
    (2, 'taskRoles.psServer', 'COPY', 'shortens it'),
    (2, 'deployments.0.taskRoles.other', {}, 'no role of this name'),
    (1, 'jobEnvs.BIG', 2 ** 70, 'makes it 1.1805916207174113e+21'),
    (1, 'jobEnvs.ODD', 2 ** 53 + 1, 'makes it 9007199254740992'),
    (2, 'parameters.BIG', -10 ** 20 - 1, 'makes it -100000000000000000000'),
    (2, 'taskRoles.master.completion.minSucceededTaskCount', 1, 'does nothing'),
    (2, 'taskRoles.master.completion.minFailedTaskCount', 1, 'does nothing'),
    (2, 'taskRoles.master.taskRetryCount', -1, 'at least 0'),
    (2, 'taskRoles.master.resourcePerInstance.ports.web', 0, 'at least 1'),
    (2, 'taskRoles.master.commands', ['echo "#" # one', 'ls'], 'joins commands into one line')])
def test_what_the_server_takes_and_is_a_trap_is_warned_of(pai, version, path, value, rule):
    job, _ = of_case(EXAMPLE if version == 1 else V2, (path, value))
    said = [f for f in findings(pai, job, version=version) if f['severity'] == 'warning']
    assert any(rule in f['rule'] and f['path'].startswith(shown(path)) for f in said), said


def test_a_sleep_is_found_with_what_may_stand_there_instead(pai):
    found, = findings(pai, EXAMPLE)
    assert found['converting_repairs'] and 'reigen wait-workers &&' in found['remedy']
    assert found['instead'] == 'reigen wait-workers && Your code\u00d4\u00ba\u00c5'
    job = changed(V2, 'taskRoles.master.commands', ['sleep 9; ls'])
    for plugin in ({'jobssh': True, 'sshbarrier': True}, {'jobssh': 'true', 'sshbarrier': 'True'}):
        found, = findings(pai, with_ssh(job, **plugin), version=2)
        assert found['instead'] == 'ls' and 'take the sleep out' in found['remedy']


def with_ssh(job, plugin='ssh', gang=True, taskroles=None, **parameters):
    one = {'plugin': plugin, 'parameters': parameters}
    return {**job, 'extras': {'gangAllocation': gang, 'com.microsoft.pai.runtimeplugin': [
        {**one, 'taskroles': taskroles} if taskroles else one]}}


@pytest.mark.parametrize('plugin', [
    {'sshbarrier': True}, {'jobssh': False, 'sshbarrier': True}, {'jobssh': True},
    {'jobssh': True, 'sshbarrier': True, 'plugin': 'other'},
    {'jobssh': True, 'sshbarrier': True, 'gang': False},
    {'jobssh': True, 'sshbarrier': True, 'taskroles': ['worker']}])
def test_a_barrier_that_the_platform_does_not_have_waits_for_nobody(pai, plugin):
    job = with_ssh(changed(V2, 'taskRoles.master.commands', ['sleep 9; ls']), **plugin)
    found, = findings(pai, job, version=2)
    assert found['instead'] == 'reigen wait-workers || exit $?; ls'
    mended, _ = convert(pai, job, 'v2', version=2)
    assert commands(mended)[0].startswith('(reigen_wait_s=300; ')


def test_wait_workers_is_for_the_one_head_alone(pai):
    """On any other task it stays until the head's is over."""
    workers = changed(EXAMPLE, 'taskRoles.1.command', 'sleep 30 && python worker.py')
    heads = changed(EXAMPLE, 'taskRoles.0.taskNumber', 2)
    first = changed(changed(EXAMPLE, 'taskRoles.0.name', 'chief'), 'taskRoles.0.command', 'ls')
    second = changed(first, 'taskRoles.1.command', 'sleep 30 && python worker.py')
    for job, path in [(workers, 'taskRoles[1].command'), (heads, 'taskRoles[0].command'),
                      (second, 'taskRoles[1].command')]:
        found, = [f for f in findings(pai, job) if f['path'] == path]
        assert found['instead'] is None and 'wait-workers' not in found['remedy']
        assert found['remedy'] == 'reigen pai convert puts in what fits'
    found, = findings(pai, changed(EXAMPLE, 'taskRoles.0.name', 'chief'))
    assert found['instead'].startswith('reigen wait-workers && ')


@pytest.mark.parametrize('command', ['sleep 3600', 'sleep 3600;', 'sleep 10000; echo never',
                                     'sleep 10000\necho never'])
def test_a_sleep_that_keeps_a_worker_alive_is_no_hope(pai, command):
    job = changed(changed(V2, 'taskRoles.worker.commands', [command]),
                  'taskRoles.worker.completion', {'minSucceededInstances': -1})
    assert findings(pai, job, version=2) == []
    there, _ = convert(pai, with_ssh(job, jobssh=True, sshbarrier=True), 'v2', version=2)
    assert there['taskRoles']['worker']['commands'] == [command]


@pytest.mark.parametrize('command', ['sleep 3600;', 'sleep 9 && ', 'sleep 9', 'sleep 9; ls',
                                     'sleep 9 && ls', 'ls'])
@pytest.mark.parametrize('way', [[], ['--image-has-reigen'], ['--keep-sleep']], ids=' '.join)
def test_what_convert_writes_has_no_errors(pai, way, command):
    for role in (0, 1):
        job = changed(EXAMPLE, f'taskRoles.{role}.command', command)
        for plugin in ({}, {'jobssh': True, 'sshbarrier': True}):
            there, _ = convert(pai, job, 'v2', *way)
            there = with_ssh(there, **plugin) if plugin else there
            again, _ = convert(pai, there, 'v2', *way, version=2)
            back, _ = convert(pai, there, 'v1', *way)
            for version, made in [(2, there), (2, again), (1, back)]:
                assert [f for f in findings(pai, made, version=version)
                        if f['severity'] == 'error'] == []


def test_workers_that_nothing_ends_are_told_of(pai):
    for base, end, command, version in [
            (EXAMPLE, 'taskRoles.0.minSucceededTaskCount', 'taskRoles.1.command', 1),
            (V2, 'taskRoles.master.completion.minSucceededInstances',
             'taskRoles.worker.commands.0', 2)]:
        job = changed(base, end, None if version == 1 else -1)
        for text in ('sleep infinity', 'service ssh start && sleep infinity;', 'sleep inf',
                     'date; tail -f /dev/null'):
            found = [f for f in findings(pai, changed(job, command, text), version=version)
                     if 'never ends' in f['rule']]
            assert [f['path'] for f in found] == [shown(command)], text
        for text in ('sleep 5', 'sleep infinity & wait-for-it', 'echo sleep infinity'):
            found = findings(pai, changed(job, command, text), version=version)
            assert not any('never ends' in f['rule'] for f in found), text
    # What v2 does not say is the number of the role's tasks.
    for end in (None, 0):
        job = changed(V2, 'taskRoles.master.completion.minSucceededInstances', end)
        assert findings(pai, job, version=2) == []


@pytest.mark.parametrize('text, place', [
    ('{\n "jobName": "a",\n "image": "b"\n "taskRoles": []}', '4:'),
    ('{\n "jobName": "a",\n "jobName": "b"}', '3:'), ("{'jobName': 'a'}", '1:'),
    ('{"jobName": "a",}', '1:'), ('{"jobName": "a" # c\n}', ''), ('jobName: a\nimage: b\n', '1:10'),
    ('protocolVersion: 2\nname: a\nname: b\n', '3:'), ('protocolVersion: 2\n\tname: a\n', '1:'),
    ('', '1:1'), ('[]', '1:1'), ('null', '1:1'), ('{"jobName": "\\u0000"}', '1:'),
    ('protocolVersion: 2\na: &a [*a]\n', ''), ('protocolVersion: 2\n<<: {}\n', '2:1')])
def test_what_is_no_job_at_all_is_refused_with_its_place(pai, text, place):
    done = pai('check', text)
    assert done.returncode == 2 and f'job:{place}' in done.stdout and done.stderr == '', done
    assert json.loads(pai('check', text, '--json').stdout)['errors'] > 0
    assert pai('convert', text, '--to', 'v2').stdout == ''


def test_a_finding_is_one_line_that_editors_understand(pai):
    done = pai('check', '{\n  "jobName": "a b",\n  "image": "c",\n  "taskRoles": [\n    {'
                        '"name": "d", "command": "e", "shmMb": 3}\n  ]\n}\n')
    assert done.returncode == 2 and done.stdout.splitlines() == [
        'job:2:14: error: jobName: "a b", a job\'s name in API v1 is [A-Za-z0-9._-]+; use letters, '
        'digits, dots, dashes and underscores',
        'job:5:35: error: taskRoles[0].shmMb: an unknown field, the server refuses fields that it '
        'does not know; did you mean shmMB? Else take it out']


def test_a_name_cannot_write_on_the_terminal(pai):
    job = {**EXAMPLE, 'a\n\x1b[31mb': 1, 'jobEnvs': {'x\n\x1b[31m': 1}}
    assert 'a??[31mb: an unknown field' in pai('check', job).stdout
    del job['a\n\x1b[31mb']
    assert 'jobEnvs.x??[31m: it is a parameter' in pai('convert', job, '--to', 'v2').stderr


def test_anchors_are_followed_and_not_without_end(pai):
    text = yaml.safe_dump(V2, sort_keys=False).replace("type: job", "type: &t job\ncontributor: *t")
    assert findings(pai, text) == []
    bomb = 'protocolVersion: 2\nextras:\n  a0: &a0 [1, 1]\n' + ''.join(
        f'  a{i}: &a{i} [{", ".join([f"*a{i - 1}"] * 9)}]\n' for i in range(1, 9))
    assert 'too much' in pai('check', bomb).stdout


# --- convert -------------------------------------------------------------------------------------

def convert(pai, job, to, *more, version=None):
    """The job in the other version, and the lines on standard error."""
    done = pai('convert', job, '--to', to, *more, version=version or (2 if to == 'v1' else 1))
    assert done.returncode == 0, done
    return (json.loads if to == 'v1' else yaml.safe_load)(done.stdout), done.stderr


def test_the_example_goes_to_v2_and_comes_back_as_it_was(pai):
    there, said = convert(pai, EXAMPLE, 'v2', '--keep-sleep')
    assert 'ssh plugin is added' in said
    assert findings(pai, there, version=2)[0]['rule'].startswith('it sleeps')
    assert there['extras'] == {'com.microsoft.pai.runtimeplugin': [
        {'plugin': 'ssh', 'parameters': {'jobssh': True, 'sshbarrier': False}}]}    # not twice
    assert there['taskRoles']['master'] == {
        'instances': 1, 'dockerImage': 'default',
        'completion': {'minFailedInstances': 1, 'minSucceededInstances': 1},
        'extraContainerOptions': {'infiniband': True, 'shmMB': 256},
        'resourcePerInstance': {'cpu': 2, 'memoryMB': 10240, 'gpu': 1},
        'commands': ['sleep 1000 &&  Your code\u00d4\u00ba\u00c5']}
    assert convert(pai, there, 'v1', '--keep-sleep')[0] == EXAMPLE


CODE = EXAMPLE['taskRoles'][0]['command'].partition('&&  ')[2]


def commands(job):
    """The first role's commands."""
    roles = job['taskRoles']
    return [roles[0]['command']] if isinstance(roles, list) else next(iter(roles.values()))[
        'commands']


def test_a_sleep_becomes_what_waits_as_long_as_needed(pai):
    mended, said = convert(pai, EXAMPLE, 'v1', '--image-has-reigen', version=1)
    assert commands(mended) == ['reigen wait-workers && ' + CODE]
    assert 'taskRoles[0].command: sleep 1000 becomes reigen wait-workers' in said
    assert mended['taskRoles'][1] == EXAMPLE['taskRoles'][1]
    assert findings(pai, mended) == []
    path = convert(pai, EXAMPLE, 'v1', '--agent-path', '/mnt/reigen-agent', version=1)[0]
    assert commands(path)[0].startswith('AGENT=') and '\n' not in commands(path)[0]
    assert commands(path)[0].endswith('"$AGENT" wait-workers && ' + CODE)
    loop, said = convert(pai, EXAMPLE, 'v1', version=1)
    assert commands(loop)[0].startswith('(reigen_wait_s=1000; ')
    assert commands(loop)[0].endswith(') && ' + CODE) and '\n' not in commands(loop)[0]
    assert 'a loop of a POSIX shell' in said and '--agent-url' in said
    there, said = convert(pai, EXAMPLE, 'v2')
    assert commands(there) == [CODE] and 'sshbarrier waits for the tasks' in said
    assert there['extras']['com.microsoft.pai.runtimeplugin'][0]['parameters'] == {
        'jobssh': True, 'sshbarrier': True, 'sshbarrierTimeout': 30}
    longer = changed(EXAMPLE, 'taskRoles.0.command', 'sleep 61m && ls')
    there, said = convert(pai, longer, 'v2')
    assert 'for 61 minutes at most' in said and there['extras'][
        'com.microsoft.pai.runtimeplugin'][0]['parameters']['sshbarrierTimeout'] == 61
    there, said = convert(pai, changed(EXAMPLE, 'taskRoles.0.command', 'mpirun x'), 'v2')
    assert 'when all tasks can be reached' in said and there['extras'][
        'com.microsoft.pai.runtimeplugin'][0]['parameters']['sshbarrierTimeout'] == 30


@pytest.mark.parametrize('way, begin', [
    (['--image-has-reigen'], 'reigen wait-workers && '), (['--agent-path', '/mnt/a'], 'AGENT=')])
def test_what_the_image_has_waits_in_v2_as_well_and_nothing_waits_twice(pai, way, begin):
    there, said = convert(pai, EXAMPLE, 'v2', *way)
    assert commands(there)[0].startswith(begin) and commands(there)[0].endswith(' && ' + CODE)
    assert there['extras']['com.microsoft.pai.runtimeplugin'][0]['parameters'] == {
        'jobssh': True, 'sshbarrier': False}
    assert 'sleep 1000 becomes reigen' in said and 'ssh plugin is added' in said


def test_v1s_none_is_below_0_in_v2_and_v2s_unsaid_has_a_number_in_v1(pai):
    job = changed(changed(changed(EXAMPLE, 'taskRoles.1.minFailedTaskCount', None),
                          'taskRoles.1.minSucceededTaskCount', None),
                  'taskRoles.1.taskNumber', 3)
    there, _ = convert(pai, job, 'v2', '--keep-sleep')
    assert there['taskRoles']['worker']['completion'] == {
        'minFailedInstances': -1, 'minSucceededInstances': -1}
    assert convert(pai, there, 'v1', '--keep-sleep')[0] == job
    for unsaid in ({}, {'minFailedInstances': None, 'minSucceededInstances': None},
                   {'minFailedInstances': 0, 'minSucceededInstances': 0}):
        back, said = convert(pai, changed(there, 'taskRoles.worker.completion', unsaid), 'v1',
                             '--keep-sleep')
        assert back['taskRoles'][1]['minFailedTaskCount'] == 1
        assert back['taskRoles'][1]['minSucceededTaskCount'] == 3
        assert 'becomes null' not in said


@pytest.mark.parametrize('command, mended', [
    ('sleep 5m; a; b', 'reigen wait-workers || exit $?; a; b'),
    ('  sleep 1 && a || b', 'reigen wait-workers && a || b'),
    ('sleep 9;', 'sleep 9;'), ('sleep 9', 'sleep 9')])
def test_what_follows_a_sleep_stays_as_it_is(pai, command, mended):
    job = changed(EXAMPLE, 'taskRoles.0.command', command)
    assert commands(convert(pai, job, 'v1', '--image-has-reigen', version=1)[0]) == [mended]


def test_a_repaired_job_stays_the_same_there_and_back(pai):
    for way in ([], ['--image-has-reigen'], ['--agent-path', '/mnt/a']):
        mended = convert(pai, EXAMPLE, 'v1', *way, version=1)[0]
        there, _ = convert(pai, mended, 'v2')
        plugin = there['extras']['com.microsoft.pai.runtimeplugin'][0]
        assert plugin['parameters'] == {'jobssh': True, 'sshbarrier': False}     # not twice
        assert commands(there) == commands(mended)
        assert convert(pai, there, 'v1', *way)[0] == mended
    # What the barrier did in v2, the head's command does in v1.
    there, _ = convert(pai, EXAMPLE, 'v2')
    back, said = convert(pai, there, 'v1', '--image-has-reigen')
    assert commands(back) == ['reigen wait-workers || exit $?; ' + CODE]
    assert 'in the place of sshbarrier' in said
    again, _ = convert(pai, back, 'v2')
    assert convert(pai, again, 'v1', '--image-has-reigen')[0] == back


def test_between_equal_tasks_a_loop_waits(pai):
    job = changed(EXAMPLE, 'taskRoles.1.command', 'sleep 30 && train')
    mended, said = convert(pai, job, 'v1', '--image-has-reigen', version=1)
    assert mended['taskRoles'][1]['command'].startswith('(reigen_wait_s=300; ')
    assert 'taskRoles[1].command: sleep 30 becomes a loop' in said
    alike = changed(EXAMPLE, 'taskRoles.0.taskNumber', 2)
    mended, _ = convert(pai, alike, 'v1', '--image-has-reigen', version=1)
    assert commands(mended)[0].startswith('(reigen_wait_s=1000; ')
    several = changed(V2, 'taskRoles.master.commands', ['sleep 9', 'ls'])
    assert commands(convert(pai, several, 'v2', '--image-has-reigen', version=2)[0]) == [
        'reigen wait-workers || exit $?', 'ls']
    several['extras'] = {'com.microsoft.pai.runtimeplugin': [
        {'plugin': 'ssh', 'parameters': {'jobssh': True, 'sshbarrier': True}}]}
    assert commands(convert(pai, several, 'v2', version=2)[0]) == ['ls']


def test_ways_of_waiting_exclude_each_other_and_are_looked_at(pai):
    for way, word in [(['--keep-sleep', '--image-has-reigen'], 'exclude each other'),
                      (['--agent-path', '/a', '--image-has-reigen'], 'exclude each other'),
                      (['--agent-path', 'a'], 'the absolute path'),
                      (['--agent-url', 'https://host/a'], 'append #sha256='),
                      (['--agent-url', f'https://host/$a#sha256={"0" * 64}'], 'at most 1024'),
                      (['--agent-url', f'https://h/a#sha256={"0" * 64}', '--agent-path', '/a'],
                       'take one out')]:
        done = pai('convert', EXAMPLE, '--to', 'v1', *way)
        assert (done.returncode, done.stdout) == (2, '') and word in done.stderr, done


def test_variables_reach_a_shell_as_they_are(pai):
    env = {'PLAIN': 'two words', 'QUOTE': "it's $HOME `x` \"y\"", 'N': 3, 'REAL': 0.25, 'YES': True,
           'EMPTY': '', 'BREAK': 'a\nb', 'a-b': 'c', 'LIST': [1],
           'LIKE': '<% x %>'}
    job = {**EXAMPLE, 'jobEnvs': env}
    there, said = convert(pai, job, 'v2')
    assert said.count('no variable any more') == 3 and '.a-b:' in said and '.LIKE:' in said
    assert there['parameters'] == env
    lines = there['deployments'][0]['taskRoles']['worker']['preCommands']
    # As the server: it puts values in, and a shell reads what comes out.
    script = re.sub(r'<% \$parameters\.(\w+) %>',
                    lambda m: v if isinstance(v := env[m[1]], str) else json.dumps(v),
                    '\n'.join(lines))
    words = ['PLAIN', 'QUOTE', 'N', 'REAL', 'YES', 'EMPTY', 'BREAK']
    done = subprocess.run(['/bin/sh', '-c', script + '\nprintf "%s\\0" ' +
                           ' '.join(f'"${word}"' for word in words)], stdout=subprocess.PIPE,
                          text=True, timeout=30, check=True)
    assert done.stdout.split('\0')[:-1] == ['two words', env['QUOTE'], '3', '0.25', 'true', '',
                                           'a\nb']
    back, said = convert(pai, there, 'v1')
    assert back['jobEnvs'] == {name: env[name] for name in words}
    assert not [f for f in findings(pai, there, version=2) if f['severity'] == 'error']
    assert 'parameters.a-b: left out' in said and 'parameters.LIST: left out' in said


def test_all_that_v2_cannot_say_is_told_and_the_rest_comes_back(pai):
    job = copy.deepcopy(EXAMPLE)
    job.update(jobName='a.b', authFile='/auth', dataDir='/data', codeDir='/code', outputDir='/out',
               gpuType='K80', retryCount=-2, killAllOnCompletedTaskNumber=1, extras={'note': [1]})
    job['taskRoles'][0].update(name='ps_server', portList=[
        {'label': 'web', 'beginAt': 8080, 'portNumber': 2}], minSucceededTaskCount=None)
    job['taskRoles'][1].update(name='psServer', command='wait-for ps_server-0 ps_server')
    there, said = convert(pai, job, 'v2')
    for word in ('name: a.b becomes a-b', 'authFile: left out', 'dataDir: left out', 'codeDir: ',
                 'outputDir: left out', 'gpuType: left out', 'retryCount: -2 becomes 0',
                 'killAllOnCompletedTaskNumber: left out', 'the role ps_server becomes psserver',
                 'the role psServer becomes psserver2', 'a command of psServer has ps_server in it',
                 'a command of psServer: names of hosts and variables in it follow',
                 'taskRoles[0].portList[0].beginAt: left out'):
        assert word in said, (word, said)
    assert list(there['taskRoles']) == ['psserver', 'psserver2']
    assert there['taskRoles']['psserver2']['commands'] == ['wait-for psserver-0 ps_server']
    assert there['taskRoles']['psserver']['resourcePerInstance']['ports'] == {'web': 2}
    assert not [f for f in findings(pai, there, version=2) if f['severity'] == 'error']
    assert there['extras']['note'] == [1]
    back, _ = convert(pai, there, 'v1')
    assert back['taskRoles'][0]['portList'] == [{'label': 'web', 'beginAt': 0, 'portNumber': 2}]
    assert back['taskRoles'][0]['minSucceededTaskCount'] is None
    assert back['extras'] == {'note': [1]}


def test_all_that_v1_cannot_say_is_told_and_templates_are_filled_in(pai):
    job = copy.deepcopy(V2)
    job['taskRoles']['worker'].update(taskRetryCount=2, extraContainerOptions={
        'infiniband': True, 'gpuDirect': 1})
    job['taskRoles']['master']['commands'] += [
        '# all', 'if a; then b; fi', 'ls &', 'mpirun \\\n  x',
        "echo '#' a#b ${#x} # it's the end"]
    job.update(contributor='me', extras={
        'a-b': 1, 'gangAllocation': False,
        'com.microsoft.pai.runtimeplugin': [{'plugin': 'tensorboard'}]})
    job['deployments'].append({'name': 'test', 'taskRoles': {'worker': {'preCommands': ['x']}}})
    there, said = convert(pai, job, 'v1')
    for word in ('taskRoles.worker.taskRetryCount: left out', 'contributor: left out',
                 'secrets: left out', 'worker.extraContainerOptions.gpuDirect: left out',
                 'extras.a-b: left out', 'extras.gangAllocation: API v1 starts all',
                 'the plugin tensorboard is left out', 'infiniband is asked for by some roles',
                 'deployments[1]: left out', 'prerequisites[1]: the data digits',
                 'parameters.rate: left out', 'with ; between them'):
        assert word in said, (word, said)
    assert there['taskRoles'][0]['command'] == (
        'date; python train.py --rate 0.5 /two; if a; then b; fi; ls & mpirun   x; '
        "echo '#' a#b ${#x}")
    assert (there['image'], there['virtualCluster']) == ('train:1', 'default')
    assert there['retryCount'] == 1
    assert there['taskRoles'][1]['shmMB'] == 512 and there['jobEnvs'] == {'paiAzRDMA': True}
    assert [f['severity'] for f in findings(pai, there)] == []


#: A command with a role ps_server, whose port is 1st, and what becomes of it.
RENAMED = [
    ('ssh ps_server-0 ls', 'ssh psserver-0 ls'),
    ('echo $PAI_TASK_ROLE_ps_server_HOST_LIST', 'echo $PAI_TASK_ROLE_psserver_HOST_LIST'),
    ('echo ${PAI_HOST_IP_ps_server_0}', 'echo ${PAI_HOST_IP_psserver_0}'),
    ('for i in 0 1; do ssh ps_server-$i; done', 'for i in 0 1; do ssh psserver-$i; done'),
    ('mpirun -H ps_server-0,ps_server-{1,2}', 'mpirun -H psserver-0,psserver-{1,2}'),
    ('echo $PAI_TASK_ROLE_TASK_COUNT_ps_server', 'echo $PAI_TASK_ROLE_TASK_COUNT_psserver'),
    ('echo $PAI_PORT_LIST_ps_server_0_1st', 'echo $PAI_PORT_LIST_psserver_0__1st'),
    ('eval echo \\$PAI_ps_server_${i}_1st_PORT', 'eval echo \\$PAI_psserver_${i}__1st_PORT'),
    ('echo $PAI_CONTAINER_HOST_1st_PORT_LIST', 'echo $PAI_CONTAINER_HOST__1st_PORT_LIST'),
    ('echo $PAI_RESOURCE_ps_server', 'echo $PAI_RESOURCE_psserver'),
    ('echo ps_server my_ps_server-0 $PAI_RESOURCE_ps_server_x', None),
    ('python ps_server.py --ps_server-port 1', None)]


@pytest.mark.parametrize('command, wanted', RENAMED)
def test_hosts_and_variables_follow_the_names_of_roles_and_ports(pai, command, wanted):
    job = changed(EXAMPLE, 'taskRoles.1.command', command)
    job['taskRoles'][0].update(name='ps_server', portList=[{'label': '1st'}])
    there, said = convert(pai, job, 'v2')
    assert there['taskRoles']['worker']['commands'] == [wanted or command], said
    assert ('follow those of roles' in said) == bool(wanted)
    assert ('ps_server in it, and stays so: look' in said) == (not wanted)


@pytest.mark.parametrize('label, wanted', [
    ('a.b', 'a_b'), ('1st', '_1st'), ('x~y', 'x_y'), ('a_b', 'a_b'), ('web', 'web')])
def test_ports_get_names_that_v2_takes(pai, label, wanted):
    job = changed(EXAMPLE, 'taskRoles.0.portList', [{'label': label}])
    there, said = convert(pai, job, 'v2')
    assert there['taskRoles']['master']['resourcePerInstance']['ports'] == {wanted: 1}
    assert (f'the port {label} of master becomes {wanted}' in said) == (label != wanted)
    assert not [f for f in findings(pai, there, version=2) if f['severity'] == 'error']
    assert convert(pai, job, 'v1', version=1)[0]['taskRoles'][0]['portList'][0]['label'] == label


def test_yaml_s_numbers_and_dates_are_the_servers(pai):
    text = yaml.safe_dump(V2, sort_keys=False).replace('memoryMB: 2048', 'memoryMB: 0x800', 1)
    text = text.replace('memoryMB: 2048', 'memoryMB: 2_048').replace('gpu: 0', 'gpu: 0b0')
    assert findings(pai, text) == []
    dated = text.replace('type: job', 'type: job\nversion: 2026-11-28').replace(
        'rate: 0.5', 'rate: 2026-11-28 10:00:00')
    found = {f['path']: f['severity'] for f in findings(pai, dated)}
    assert found == {'version': 'error', 'parameters.rate': 'warning'}
    there, _ = convert(pai, dated, 'v2', version=2)
    assert there['version'] == '2026-11-28'
    assert findings(pai, there, version=2) == []
    assert findings(pai, dated.replace('2026-11-28 10:00:00', "'2026-11-28'").replace(
        'version: 2026-11-28', 'version: 2026.11.28')) == []


@pytest.mark.parametrize('key, fits', [
    ('0123456789abcdef' * 4, True), ('******', True), ('sixteen letters.', False), (7, False)])
def test_a_key_that_could_be_guessed_is_told_of_and_not_shown(pai, key, fits):
    found = findings(pai, changed(V2, 'secrets.reigenKey', key), version=2)
    assert [f['path'] for f in found] == ([] if fits else ['secrets.reigenKey'])
    assert fits or (found[0]['severity'], found[0]['what']) == ('warning', 'the secret')


def test_two_ports_do_not_become_one(pai):
    job = changed(EXAMPLE, 'taskRoles.0.portList', [{'label': x} for x in ('a.b', 'a~b', 'a_b')])
    there, _ = convert(pai, job, 'v2')
    assert list(there['taskRoles']['master']['resourcePerInstance']['ports']) == [
        'a_b_', 'a_b__', 'a_b']
    bad = changed(V2, 'taskRoles.master.resourcePerInstance.ports', {'a-b': 2})
    for to in ('v1', 'v2'):
        assert 'a-b of master becomes a_b' in convert(pai, bad, to, version=2)[1]


def test_v1s_counts_in_v2s_completion_are_dropped(pai):
    job = changed(V2, 'taskRoles.master.completion.minSucceededTaskCount', 1)
    assert pai('check', job, version=2).returncode == 0
    for to, version in (('v1', 2), ('v2', 2)):
        there, said = convert(pai, job, to, version=version)
        assert 'completion.minSucceededTaskCount: left out' in said
        assert to == 'v1' or there['taskRoles']['master']['completion'] == {
            'minFailedInstances': 1, 'minSucceededInstances': 1}


COMMENTED = '''// by hand
{
  "jobName": "commented", // the name
  /* "image": "old", {
   */ "image": "host/a//b:1", /**/
  "taskRoles": [{"name": "main", "command": "echo \\"// /* \\" http://one/*"}] // "end
}
'''


def test_a_comma_behind_the_last_in_json_is_left_out(pai, reigen, tmp_path):
    """As in a job file among OpenPAI's own examples."""
    text = COMMENTED.replace('"}]', '", }, ], ')
    found = [each for each in findings(pai, text) if each['what'] == 'a comma']
    assert [(each['line'], each['severity'], each['converting_repairs']) for each in found] == \
        [(6, 'error', True)] * 3, found
    for to in ('v1', 'v2'):
        assert commands(convert(pai, text, to, version=1)[0]) == ['echo "// /* " http://one/*']
    done = reigen('run', '--config', 'job', '--image', 'none', '--dry-run', cwd=tmp_path)
    assert done.returncode == 0 and 'main-0' in done.stdout, done
    wrong = pai('check', '{"jobName": "a", "image": "i",, }')
    assert wrong.returncode == 2 and 'a job of API v1 is JSON' in wrong.stdout, wrong


def test_comments_in_json_are_read_as_the_web_portal_reads_them(pai, reigen, tmp_path):
    found, = findings(pai, COMMENTED)
    assert (found['severity'], found['line'], found['column']) == ('warning', 1, 1), found
    assert found['converting_repairs'] and 'comments' in found['what']
    for to in ('v1', 'v2'):
        there, said = convert(pai, COMMENTED, to, version=1)
        assert 'comments are left out' in said
        assert commands(there) == ['echo "// /* " http://one/*']
    done = reigen('run', '--config', 'job', '--image', 'none', '--dry-run', cwd=tmp_path)
    assert done.returncode == 0 and 'main-0' in done.stdout, done
    # What is broken has its own place still.
    wrong = pai('check', COMMENTED.replace('"image": "host', 'image": "host'))
    assert wrong.returncode == 2 and 'job:5:' in wrong.stdout, wrong
    assert pai('check', COMMENTED.replace('commented', 'a b')).stdout.count('job:3:14: error') == 1
    # In YAML two slashes are none.
    flow = ('{protocolVersion: 2, name: a, type: job, prerequisites: [{name: i, type: dockerimage, '
            'uri: http://h//x}], taskRoles: {m: {dockerImage: i, commands: [ls], '
            'resourcePerInstance: {cpu: 1, gpu: 0, memoryMB: 9}}}}')
    assert findings(pai, flow) == []


def test_numbers_are_javascripts(pai):
    job = {**EXAMPLE, 'jobEnvs': {'BIG': 2 ** 80, 'TWO': 2.0, 'SMALL': 1e-9, 'LONG': 1.5e20}}
    text = json.dumps(job).replace('1000 &&', 'x' + '1' * 30 + ' &&')
    there, _ = convert(pai, text, 'v2')
    assert float(there['parameters']['BIG']) == 2.0 ** 80
    names = ' '.join(f'<% $parameters.{name} %>' for name in job['jobEnvs'])
    back, _ = convert(pai, changed(there, 'taskRoles.master.commands', [f'echo {names}']), 'v1')
    assert back['taskRoles'][0]['command'].endswith(
        'echo 1.2089258196146292e+24 2 1e-9 150000000000000000000')


@pytest.mark.parametrize('path, value, word', [
    ('taskRoles.master.commands.0', 'a <% $secrets.token %>', 'a secret is not written'),
    ('taskRoles.master.commands', ['ls', 'for i in 1 2; do', 'echo', 'done'],
     'commands[1]: API v1 takes one line, and "for i in 1 2; do" is no whole command'),
    ('taskRoles.master.commands', ['cat <<E', 'x', 'E'], 'commands[0]: API v1'),
    ('taskRoles.master.commands', ["echo 'a\nb'"], 'whole commands'),
    ('prerequisites', [{'name': n, 'type': 'dockerimage', 'uri': n} for n in ('image', 'b')] +
     [{'name': 'digits', 'type': 'data', 'uri': ['a', 'b']}], ''),
    ('prerequisites.0.uri', '', 'the image has no address')])
def test_what_would_mean_something_else_in_v1_is_refused(pai, path, value, word):
    job = changed(V2, path, value)
    if path == 'prerequisites':
        job['taskRoles']['worker']['dockerImage'], word = 'b', 'one image for all roles'
    done = pai('convert', job, '--to', 'v1', version=2)
    assert (done.returncode, done.stdout) == (2, '') and word in done.stderr, done


@pytest.mark.parametrize('path, value, word', [
    ('taskRoles.0.command', 'echo <% $parameters.x %>', 'for a template'),
    ('taskRoles.0.taskNumber', 0, 'at most'),
    ('taskRoles.1.name', 'master', 'its errors come first')])
def test_what_would_mean_something_else_in_v2_is_refused(pai, path, value, word):
    done = pai('convert', changed(EXAMPLE, path, value), '--to', 'v2')
    assert (done.returncode, done.stdout) == (2, '') and word in done.stderr, done


def test_traps_are_repaired_in_the_version_that_a_file_has(pai):
    job = changed(changed(EXAMPLE, 'taskRoles.0.command', 'echo a\necho b\n'),
                  'jobEnvs.paiAzRDMA', 'true')
    mended, said = convert(pai, job, 'v1', version=1)
    assert mended['taskRoles'][0]['command'] == 'echo a; echo b'
    assert mended['jobEnvs'] == {'paiAzRDMA': True} and '"true" becomes true' in said
    there, _ = convert(pai, job, 'v2')
    assert there['taskRoles']['master']['commands'] == ['echo a\necho b\n']
    assert there['taskRoles']['master']['extraContainerOptions']['infiniband'] is True
    again = changed(V2, 'taskRoles.Master', copy.deepcopy(V2['taskRoles']['worker']))
    again['deployments'][0]['taskRoles']['Master'] = {'preCommands': ['ls']}
    again['default'] = again.pop('defaults')
    mended, said = convert(pai, again, 'v2', version=2)
    assert list(mended['taskRoles']) == ['master', 'worker', 'master2']
    assert list(mended['deployments'][0]['taskRoles']) == ['master', 'master2']
    assert mended['defaults'] == V2['defaults']
    assert findings(pai, mended, version=2) == []


def test_a_file_without_traps_is_the_same_after_a_repair(pai):
    assert convert(pai, V2, 'v2', version=2)[0] == {
        **V2, 'taskRoles': {**V2['taskRoles'], 'worker': {
            **V2['taskRoles']['worker'], 'instances': 1,
            'completion': {'minFailedInstances': 1, 'minSucceededInstances': 1}}}}
    assert convert(pai, EXAMPLE, 'v1', '--keep-sleep', version=1)[0] == EXAMPLE


def test_output_goes_to_a_file_and_wrong_words_are_refused(pai, reigen, tmp_path):
    done = pai('convert', EXAMPLE, '--to', 'v2', '-o', 'out.yaml')
    assert (done.returncode, done.stdout) == (0, '')
    assert yaml.safe_load((tmp_path / 'out.yaml').read_text())['name'] == 'horovod-job'
    for words, said in [(('pai',), 'check or convert'), (('pai', 'chek', 'x'), 'mean check'),
                        (('pai', 'check'), 'needs a file'), (('pai', 'convert', 'x'), 'a version'),
                        (('pai', 'convert', '--to', 'v3', 'x'), 'v1 or v2'),
                        (('pai', 'check', 'nowhere'), 'nowhere')]:
        done = reigen(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, '') and said in done.stderr, done
