# SPDX-License-Identifier: Apache-2.0
"""The OpenPAI server of the tests (tests/bed/pai.py), held against what is known of the real one:
its status codes, bodies, types and limits, the variables of its tasks, and how its jobs end."""
import copy
import http.client
import json
import ssl
import sys
import urllib.parse
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bed.pai import PaiServer, Processes  # noqa: E402 (needs the path above)
from wait import until  # noqa: E402

LIMIT = 20
MASTER = {'name': 'master', 'command': 'true'}
JOB = {'jobName': 'train', 'image': 'image', 'taskRoles': [MASTER]}
ROLE = {'dockerImage': 'image', 'commands': ['true'],
        'resourcePerInstance': {'cpu': 1, 'memoryMB': 100, 'gpu': 0}}
PROTOCOL = {'protocolVersion': 2, 'name': 'train', 'type': 'job', 'taskRoles': {'master': ROLE},
            'prerequisites': [{'name': 'image', 'type': 'dockerimage', 'uri': 'train:1'}]}
OLD, NEW = '/api/v1/user/alice/jobs', '/api/v2/jobs'


class Client:
    """One connection a request; answers have status, headers, text and, where it is JSON, body."""

    def __init__(self, server, user='alice'):
        self.server = server
        self.user = user

    def ask(self, method, path, body=None, kind='application/json', user=None, token=None,
            accept=None):
        host = urllib.parse.urlsplit(self.server.url).netloc
        if self.server.ca:
            context = ssl.create_default_context(cafile=self.server.ca)
            link = http.client.HTTPSConnection(host, timeout=LIMIT, context=context)
        else:
            link = http.client.HTTPConnection(host, timeout=LIMIT)
        user = user or self.user
        headers = {'Content-Type': kind} if body is not None else {}
        if token or user:
            headers['Authorization'] = f'Bearer {token or self.server.token(user)}'
        if accept:
            headers['Accept'] = accept
        text = body if isinstance(body, (str, type(None))) else json.dumps(body)
        link.request(method, path, text and text.encode(), headers)
        answer = link.getresponse()
        answer.text = answer.read().decode()
        answer.kind = answer.headers.get('Content-Type', '').partition(';')[0]
        answer.body = json.loads(answer.text) if answer.kind == 'application/json' else None
        link.close()
        return answer

    def submit(self, job, **more):
        if self.server.old:
            return self.ask('POST', OLD, {**JOB, **job}, **more)
        return self.ask('POST', NEW, yaml.safe_dump({**PROTOCOL, **job}), kind='text/yaml', **more)


@pytest.fixture(name='old')
def old_server():
    with PaiServer('v0.14') as server:
        yield Client(server)
        assert not server.errors


@pytest.fixture(name='new')
def new_server():
    with PaiServer('v1.8') as server:
        yield Client(server)
        assert not server.errors


def runs(version, **more):
    return PaiServer(version, runner=Processes(), **more)


def said(answer):
    return answer.status, answer.body and answer.body.get('code')


# ---------------------------------------------------------------------------- access

@pytest.mark.parametrize('body, status, code', [
    ({'username': 'alice', 'password': 'alice-secret'}, 200, None),
    ({'username': 'alice', 'password': 'alice-secret', 'expiration': 60}, 200, None),
    ({'username': 'alice', 'password': 'alice-secret', 'expiration': 59}, 400,
     'InvalidParametersError'),
    ({'username': 'alice', 'password': 'wrong-secret'}, 400, 'IncorrectPasswordError'),
    ({'username': 'alice', 'password': 'short'}, 400, 'InvalidParametersError'),
    ({'username': 'nobody', 'password': 'alice-secret'}, 400, 'NoUserError'),
    ({'username': 'a b', 'password': 'alice-secret'}, 400, 'InvalidParametersError'),
    ({'password': 'alice-secret'}, 400, 'InvalidParametersError')])
def test_a_token_is_given_for_a_password(old, body, status, code):
    answer = old.ask('POST', '/api/v1/token', body, user='')
    assert said(answer) == (status, code), answer.text
    if status == 200:
        assert (answer.body['user'], answer.body['admin']) == ('alice', False)
        assert answer.body['hasGitHubPAT'] is False
        done = old.ask('PUT', f'{OLD}/none/executionType', {'value': 'STOP'},
                       token=answer.body['token'])
        assert said(done) == (404, 'NoJobError')


def test_who_may_ask_what(old, new):
    guest = 'Guest is not allowed to do this operation.'
    for client, path in ((old, OLD), (new, NEW)):
        client.user = None
        answer = client.submit({})
        assert said(answer) == (401, 'UnauthorizedUserError') and answer.body['message'] == guest
        late = client.server.token('alice', lives=-1)
        assert said(client.ask('PUT', f'{path}/x/executionType', {}, token=late))[0] == 401
    assert old.ask('GET', OLD).body == []          # v0.14 shows jobs to everybody
    assert said(new.ask('GET', NEW)) == (401, 'UnauthorizedUserError')
    for client in (old, new):
        assert client.submit({}, user='alice').status in (201, 202)
        where = f'{OLD}/train' if client is old else f'{NEW}/alice~train'
        stop = f'{where}/executionType', {'value': 'STOP'}
        assert said(client.ask('PUT', *stop, user='bob')) == (403, 'ForbiddenUserError')
        assert client.ask('PUT', *stop, user='root').status == 202


# ---------------------------------------------------------------------------- API v1

def changed(path, value, base=None):
    job = copy.deepcopy(JOB if base is None else base)
    *way, last = [int(w) if w.isdigit() else w for w in path.split('.')]
    at = job
    for word in way:
        at = at[word]
    at[last] = value
    return job


R = 'taskRoles.0.'


@pytest.mark.parametrize('path, value, words', [
    ('jobName', 'a b', 'fails to match the required pattern'),
    ('jobName', 'a~b', 'fails to match the required pattern'),
    ('image', '', '"image" is not allowed to be empty'),
    ('retryCount', -3, 'must be larger than or equal to -2'),
    ('retryCount', 1.5, 'must be an integer'),
    ('unknown', 1, '"unknown" is not allowed'),
    ('jobEnvs', {'--': 1}, '"--" is not allowed'),
    ('extras', {'a-b': 1}, '"a-b" is not allowed'),
    ('taskRoles', [], 'must contain at least 1 items'),
    (R + 'name', 'a-b', 'fails to match the required pattern'),
    (R + 'command', '', 'is not allowed to be empty'),
    (R + 'memoryMB', '8g', 'must be a number'),
    (R + 'shmMB', 101, 'must be less than or equal to'),
    (R + 'minFailedTaskCount', 0, 'must be larger than or equal to 1'),
    (R + 'minSucceededTaskCount', 2, 'should not be greater than tasks number.'),
    (R + 'portList', [{'beginAt': 1}], '"label" is required'),
    (R + 'other', 1, '"other" is not allowed')])
def test_a_job_of_v1_that_breaks_a_rule_is_refused(old, path, value, words):
    answer = old.ask('POST', OLD, changed(path, value))
    assert said(answer) == (400, 'InvalidParametersError') and words in answer.body['message']
    assert not old.server.jobs


@pytest.mark.parametrize('path, value', [
    ('jobName', 'a.b-c_1'), ('virtualCluster', ''), ('retryCount', -2), ('gpuType', ''),
    (R + 'taskNumber', '2'), (R + 'cpuNumber', 0), (R + 'gpuNumber', -1),
    (R + 'minFailedTaskCount', None), ('jobEnvs', {'paiAzRDMA': 'true'}),
    ('taskRoles', [MASTER, MASTER]), (R + 'portList', [{'label': 'a', 'beginAt': 1}])])
def test_what_v1_takes(old, path, value):
    answer = old.ask('POST', OLD, changed(path, value))
    assert answer.status == 201, answer.text


def test_a_submission_of_v1_is_answered_with_the_job_and_its_place(old):
    answer = old.submit({'killAllOnCompletedTaskNumber': 1})
    assert answer.status == 201 and answer.headers['Location'].endswith(f'{OLD}/train')
    assert 'obsoleted' in answer.headers['X-Warning']
    assert answer.body['name'] == 'train' and answer.body['jobStatus']['state'] == 'WAITING'
    answer = old.submit({})
    assert said(answer) == (409, 'ConflictJobError'), answer.text
    assert answer.body['message'] == 'Job name train already exists'
    assert old.ask('PUT', f'{OLD}/other', JOB).headers['Location'].endswith(f'{OLD}/other')
    assert said(old.ask('PUT', f'{OLD}/other', JOB)) == (409, 'ConflictJobError')
    # Without a user in the path, the job's identity has none.
    assert old.ask('POST', '/api/v1/jobs', JOB).status == 201
    assert set(old.server.jobs) == {'alice~train', 'alice~other', 'train'}
    assert [job.get('legacy') for job in old.ask('GET', '/api/v1/jobs').body] == [True, None, None]
    assert len(old.ask('GET', '/api/v1/jobs?username=bob').body) == 0
    answer = old.ask('GET', f'{OLD}/train/config')
    assert answer.body == {**JOB, 'killAllOnCompletedTaskNumber': 1}
    assert old.ask('GET', f'{OLD}/train/config', accept='text/yaml').kind == 'text/yaml'
    assert old.ask('DELETE', f'{OLD}/train').status == 202
    assert said(old.ask('GET', f'{OLD}/train')) == (404, 'NoJobError')


def test_a_job_that_is_not_yet_visible_is_answered_with_202():
    with PaiServer('v0.14', visible=0.2) as server:
        client = Client(server)
        answer = client.submit({})
        assert (answer.status, answer.body) == (202, {'message': 'update job train successfully'})
        assert answer.headers['Location'].endswith(f'{OLD}/train')
        assert said(client.ask('GET', f'{OLD}/train')) == (404, 'NoJobError')
        until(lambda: client.ask('GET', f'{OLD}/train').status == 200, 'the job')


# ---------------------------------------------------------------------------- protocol v2

@pytest.mark.parametrize('change, keyword, at', [
    ({'name': 'a.b'}, 'pattern', '.name'), ({'type': 'data'}, 'enum', '.type'),
    ({'protocolVersion': 1}, 'enum', '.protocolVersion'),
    ({'default': {}}, 'additionalProperties', ''),
    ({'jobRetryCount': -1}, 'minimum', '.jobRetryCount'),
    ({'taskRoles': {}}, 'minProperties', '.taskRoles'),
    ({'taskRoles': {'a-b': ROLE}}, 'additionalProperties', '.taskRoles'),
    ({'taskRoles': {'a': {**ROLE, 'commands': []}}}, 'minItems', '.taskRoles.a.commands'),
    ({'taskRoles': {'a': {**ROLE, 'instances': 0}}}, 'minimum', '.taskRoles.a.instances'),
    ({'taskRoles': {'a': {'commands': ['x']}}}, 'required', '.taskRoles.a'),
    ({'taskRoles': {'a': changed('resourcePerInstance.ports', {}, ROLE)}}, 'minProperties',
     '.taskRoles.a.resourcePerInstance.ports'),
    ({'prerequisites': [{'name': 'image', 'type': 'dockerimage'}]}, 'required',
     '.prerequisites[0]')])
def test_a_protocol_that_breaks_a_rule_is_refused(new, change, keyword, at):
    answer = new.submit(change)
    assert said(answer) == (400, 'InvalidProtocolError'), answer.text
    errors = json.loads(answer.body['message'])
    assert (keyword, at) in [(e['keyword'], e['dataPath']) for e in errors]


@pytest.mark.parametrize('change, message', [
    ({'prerequisites': PROTOCOL['prerequisites'] * 2},
     'Duplicate dockerimage prerequisites image.'),
    ({'prerequisites': []}, 'Prerequisite image does not exist.'),
    ({'defaults': {'deployment': 'x'}}, 'Default deployment x does not exist.')])
def test_a_protocol_that_names_what_is_not_there_is_refused(new, change, message):
    answer = new.submit(change)
    assert (answer.status, answer.body) == (400, {'code': 'InvalidProtocolError',
                                                  'message': message})


@pytest.mark.parametrize('kind', ['application/json', 'application/x-yaml'])
def test_only_a_text_is_read_as_a_protocol(new, kind):
    body = json.dumps(PROTOCOL) if 'json' in kind else yaml.safe_dump(PROTOCOL)
    answer = new.ask('POST', NEW, body, kind=kind)
    assert said(answer) == (400, 'InvalidProtocolError')
    assert json.loads(answer.body['message'])[0]['message'] == 'should be object'


def test_what_is_no_json_or_no_yaml_is_answered_without_a_code(old, new):
    for client, path, kind in ((old, OLD, 'application/json'), (new, NEW, 'text/yaml')):
        answer = client.ask('POST', path, '{"a": [', kind=kind)
        assert answer.status >= 400 and set(answer.body) == {'message'}, answer.text


def test_a_submission_of_v2_is_answered_with_202(new):
    answer = new.submit({'secrets': {'reigenKey': 'f' * 64}})
    assert (answer.status, answer.body) == (202, {
        'status': 202, 'message': 'Update job train for user alice successfully.'})
    assert said(new.submit({})) == (409, 'ConflictJobError')
    for path in (f'{NEW}/alice~train/config', '/api/v2/user/alice/jobs/train/config'):
        answer = new.ask('GET', path)
        assert answer.kind == 'text/yaml' and 'f' * 64 not in answer.text
        assert yaml.safe_load(answer.text)['name'] == 'train'
    assert [job['name'] for job in new.ask('GET', NEW).body] == ['train']
    assert said(new.ask('GET', f'{NEW}/alice~train/ssh')) == (404, 'NoJobSshInfoError')


def test_paths_of_the_other_version_are_no_api(old, new):
    assert said(new.ask('POST', OLD, JOB)) == (404, 'NoApiError')
    assert said(old.ask('POST', NEW, 'x', kind='text/yaml')) == (404, 'NoApiError')
    for client in (old, new):
        assert said(client.ask('GET', '/api/v3/jobs')) == (404, 'NoApiError')
        assert client.ask('GET', '/rest-server/api/v1').status == 200


def test_a_cluster_that_is_not_there_or_not_the_users(old, new):
    assert said(old.submit({'virtualCluster': 'none'})) == (404, 'NoVirtualClusterError')
    assert said(old.submit({'virtualCluster': 'research'})) == (403, 'ForbiddenUserError')
    assert old.submit({'virtualCluster': 'research'}, user='bob').status == 201
    assert said(new.submit({'defaults': {'virtualCluster': 'none'}})) == (403, 'ForbiddenUserError')


def test_limits_are_of_a_minute_and_of_an_hour():
    with PaiServer('v1.8', limits={'list': (2, 60), 'submit': (1, 3600)}) as server:
        client = Client(server)
        answers = [client.ask('GET', NEW) for _ in range(3)]
        assert [a.status for a in answers] == [200, 200, 429]
        assert answers[2].kind == 'text/html' and int(answers[2].headers['Retry-After']) <= 60
        assert answers[2].text == 'Too many requests, please try again later.'
        assert [client.submit({'name': name}).status for name in 'ab'] == [202, 429]
        assert client.submit({}, user='bob').status == 202


def test_a_file_is_published(old):
    url = old.server.publish('agent', b'bytes')
    assert old.ask('GET', urllib.parse.urlsplit(url).path).text == 'bytes'
    assert said(old.ask('GET', '/files/other')) == (404, 'NoApiError')


# ---------------------------------------------------------------------------- bad answers

def test_bad_answers(old):
    server = old.server
    for how, status, kind in (('html', 200, 'text/html'), ('500', 500, 'application/json'),
                              ('502', 502, 'text/html'), ('expired', 401, 'application/json'),
                              ('unknown', 404, 'application/json')):
        rule = server.misbehave(how, 'GET', '*/jobs')
        answer = old.ask('GET', OLD)
        assert (answer.status, answer.kind, rule.done) == (status, kind, 1)
        assert old.ask('GET', OLD).status == 200
    server.misbehave('redirect', to='http://127.0.0.1:1')
    answer = old.ask('GET', OLD)
    assert (answer.status, answer.headers['Location']) == (307, f'http://127.0.0.1:1{OLD}')
    server.misbehave('half')
    with pytest.raises(http.client.IncompleteRead):
        old.ask('GET', '/api/v1')
    server.misbehave('lost', 'POST')
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        old.submit({})
    assert said(old.submit({})) == (409, 'ConflictJobError')
    server.misbehave('hang', times=None)
    link = http.client.HTTPConnection('127.0.0.1', server.port, timeout=0.2)
    link.request('GET', OLD)
    with pytest.raises(TimeoutError):
        link.getresponse()
    server.clear()
    assert [(r.method, r.status) for r in server.requests[-3:]] == [
        ('POST', 0), ('POST', 409), ('GET', 0)]


def test_tls_has_a_certificate_of_an_authority_of_its_own():
    with PaiServer('v0.14', tls=True) as server:
        assert Client(server).ask('GET', OLD).body == []
        link = http.client.HTTPSConnection('127.0.0.1', server.port, timeout=LIMIT)
        with pytest.raises(ssl.SSLCertVerificationError):
            link.request('GET', OLD)


# ---------------------------------------------------------------------------- jobs that run

def roles_v1(*roles):
    return {'taskRoles': [{'name': name, 'command': command, **more}
                          for name, command, more in roles]}


def roles_v2(*roles):
    keys = {'minSucceededTaskCount': 'minSucceededInstances',
            'minFailedTaskCount': 'minFailedInstances'}
    made = {}
    for name, command, more in roles:
        made[name] = {**ROLE, 'commands': [command], 'instances': more.get('taskNumber', 1)}
        ends = {keys[k]: v for k, v in more.items() if k in keys}
        if ends:
            made[name]['completion'] = ends
    return {'taskRoles': made}


def ended(client, job):
    """Submit a job, wait for its end, and give its answer, with the code of each task."""
    assert client.submit(job).status in (201, 202)
    assert client.server.job('alice~train').wait(LIMIT)
    where = f'{OLD}/train' if client.server.old else f'{NEW}/alice~train'
    body = client.ask('GET', where).body
    codes = {f'{name}-{task["taskIndex"]}': (task['taskState'], task['containerExitCode'])
             for name, role in body['taskRoles'].items() for task in role['taskStatuses']}
    return body['jobStatus'], codes


@pytest.mark.parametrize('version, roles, ended_by_job', [
    ('v0.14', roles_v1, -7400), ('v1.8', roles_v2, -220)])
def test_a_job_ends_as_its_policies_say(version, roles, ended_by_job):
    once = {'minSucceededTaskCount': 1}
    stopped = 'STOPPED', ended_by_job
    for job, state, code, tasks in (
            ((('master', 'true', once), ('worker', 'sleep 100', {})), 'SUCCEEDED', 0,
             {'master-0': ('SUCCEEDED', 0), 'worker-0': stopped}),
            ((('master', 'sleep 100', once), ('worker', 'exit 7', {})), 'FAILED', 7,
             {'master-0': stopped, 'worker-0': ('FAILED', 7)}),
            ((('master', 'exit $PAI_TASK_INDEX', {'taskNumber': 2, 'minFailedTaskCount': 2}),
              ('worker', 'sleep 0.3', once)), 'SUCCEEDED', 0,
             {'master-0': ('SUCCEEDED', 0), 'master-1': ('FAILED', 1),
              'worker-0': ('SUCCEEDED', 0)})):
        with runs(version) as server:
            status, codes = ended(Client(server), roles(*job))
            assert (status['state'], status['appExitCode'], codes) == (state, code, tasks)


@pytest.mark.parametrize('version, code', [('v0.14', -7351), ('v1.8', -210)])
def test_a_job_that_is_stopped(version, code):
    with runs(version) as server:
        client = Client(server)
        client.submit(roles_v1(('master', 'sleep 100', {})) if server.old else
                      roles_v2(('master', 'sleep 100', {})))
        where = f'{OLD}/train' if server.old else f'{NEW}/alice~train'
        until(lambda: client.ask('GET', where).body['jobStatus']['state'] == 'RUNNING', 'the job')
        pid = server.job('alice~train').tasks[0].run.child.pid
        assert client.ask('PUT', f'{where}/executionType', {'value': 'STOP'}).status == 202
        assert server.job('alice~train').wait(LIMIT)
        status = client.ask('GET', where).body['jobStatus']
        assert (status['state'], status['appExitCode']) == ('STOPPED', code)
        assert not Path(f'/proc/{pid}').exists()


def test_a_job_that_failed_is_tried_again():
    with runs('v0.14') as server:
        job = roles_v1(('master', 'test -e $HOME/../../../was || { touch $HOME/../../../was; '
                        'exit 3; }', {}))
        status, _ = ended(Client(server), {'retryCount': 1, **job})
        assert (status['state'], status['retries'], status['retryDetails']['user']) == \
            ('SUCCEEDED', 1, 1)


def test_commands_are_handed_over_as_each_version_does():
    command = 'echo "a  b" \'$HOME\' | cat && echo "\u00d4\u00ba\u00c5"; echo one\necho two'
    for version, job, want in (
            ('v0.14', roles_v1(('master', command, {})), ['a  b $HOME', '\u00d4\u00ba\u00c5',
                                                          'onenecho two']),
            ('v1.8', roles_v2(('master', command, {})), ['a  b $HOME', '\u00d4\u00ba\u00c5', 'one',
                                                         'two'])):
        with runs(version) as server:
            client = Client(server)
            status, _ = ended(client, job)
            assert status['state'] == 'SUCCEEDED'
            words = server.log(server.job('alice~train'), 'master', 0)
            lines = [w for w in words.splitlines() if w and not w.startswith('[INFO]')]
            assert lines == want, words
            where = f'{OLD}/train' if server.old else f'{NEW}/alice~train'
            task = client.ask('GET', where).body['taskRoles']['master']['taskStatuses'][0]
            path = urllib.parse.urlsplit(task['containerLog']).path
            shown = client.ask('GET', path + ('user.pai.stdout/?start=0' if server.old else
                                              'user.pai.all'))
            assert want[-1] in shown.text
            assert server.old or client.ask('GET', path).text == 'No such file!\n'
            assert shown.kind == ('text/html' if server.old else 'text/plain')


def test_templates_are_filled_in():
    job = {'parameters': {'rate': 0.5}, 'secrets': {'key': 'abc'}, **roles_v2(
        ('master', "echo <% $parameters.rate %> <% $secrets.key %> '<% $parameters.none %>'", {}))}
    with runs('v1.8') as server:
        ended(Client(server), job)
        assert server.log(server.job('alice~train'), 'master', 0) == \
            '0.5 abc <% $parameters.none %>\n'


def test_variables_of_both_generations():
    command = 'env -0 && ls -A $HOME/.ssh >&2'
    ports = [{'label': 'reigen', 'portNumber': 2}]
    old = roles_v1(('master', command, {'portList': ports, 'minSucceededTaskCount': 1}),
                   ('worker', 'sleep 100', {'taskNumber': 2}))
    new = roles_v2(('master', command, {'minSucceededTaskCount': 1}),
                   ('worker', 'sleep 100', {'taskNumber': 2}))
    new['taskRoles']['master']['resourcePerInstance'] = {
        **ROLE['resourcePerInstance'], 'ports': {'reigen': 2}}
    for version, job in (('v0.14', {**old, 'jobEnvs': {'paiAzRDMA': True, 'RATE': 0.5}}),
                         ('v1.8', new)):
        with runs(version) as server:
            status, _ = ended(Client(server), job)
            assert status['state'] == 'SUCCEEDED', server.log(server.job('alice~train'), 'master',
                                                              0)
            task = server.task('alice~train', 'master', 0)
            text = task.run.log('user.pai.stdout').decode().split('\n\n')[-2 if server.old else 0]
            env = dict(each.split('=', 1) for each in text.split('\0') if '=' in each)
            keys = task.run.log('user.pai.stderr').decode().split()
        port = env['PAI_PORT_LIST_master_0_reigen']
        assert len(port.split(',')) == 2 and env['PAI_master_0_reigen_PORT'] == port
        assert env['PAI_CONTAINER_HOST_reigen_PORT_LIST'] == port
        assert f'reigen:{port};' in env['PAI_CONTAINER_HOST_PORT_LIST']
        assert env['PAI_JOB_NAME'] == 'alice~train' and env['PAI_USER_NAME'] == 'alice'
        assert env['PAI_TASK_ROLE_LIST'] == env['PAI_JOB_TASK_ROLE_LIST'] == 'master,worker'
        assert env['PAI_CURRENT_TASK_ROLE_NAME'] == env['PAI_TASK_ROLE_NAME'] == 'master'
        assert env['PAI_HOST_IP_worker_1'] == '127.0.0.1' and env['PAI_TASKS_NUM'] == '3'
        assert env['PAI_TASK_ROLE_TASK_COUNT_worker'] == '2'
        assert env['PAI_TASK_ROLE_worker_HOST_LIST'].count(':') == 2
        if version == 'v0.14':
            assert env['FRAMEWORK_NAME'] == 'alice~train' and env['RATE'] == '0.5'
            assert keys == ['alice~train', 'alice~train.pub', 'config']
            assert 'PAI_MIN_FAILED_TASK_COUNT_worker' not in env
        else:
            assert env['PAI_TASK_ROLE_INSTANCES'] == 'master:0,worker:0,worker:1'
            assert env['PAI_MIN_SUCCEEDED_TASK_COUNT_worker'] == '2'
            assert env['FC_TASKROLE_NAME'] == 'master' and keys == []


def test_v18_names_the_places_of_logs():
    with runs('v1.8') as server:
        client = Client(server)
        ended(client, roles_v2(('master', 'echo out; echo err >&2', {})))
        base = f'{NEW}/alice~train/attempts/0/taskRoles/master/taskIndex/'
        places = client.ask('GET', f'{base}0/attempts/0/logs').body['locations']
        assert [p['name'] for p in places] == ['all', 'stdout', 'stderr']
        assert client.ask('GET', places[1]['uri']).text == 'out\n\n'
        assert said(client.ask('GET', f'{base}5/attempts/0/logs')) == (404, 'NoTaskLogError')
