# SPDX-License-Identifier: Apache-2.0
"""OpenPAI's client, call by call, against a server that does what a test says: what each refusal
becomes, and that a job never goes out twice blindly."""
import html
import json
import time
from urllib.parse import parse_qsl, urlsplit

import pytest

from pai_played import NOBODYS, TOKEN, V1_JOB, V2_JOB, Played, ask, detail, error, run_client
from wait import soon, until

JOB = '/api/v2/jobs/alice~train'
JOB1 = '/api/v1/user/alice/jobs/train'
POST = 'POST /api/v2/jobs'
(FINE, AWAY, LATE, BUSY, UNSURE, MISSING, DENIED, FORBIDDEN, EXISTS, INVALID, UNTRUSTED, FOREIGN,
 OTHER, TOO_LARGE, UNUSABLE, REFUSED) = range(16)


@pytest.fixture
def v2():
    played = Played(2)
    yield played
    played.close()


@pytest.fixture
def v1():
    played = Played(1)
    yield played
    played.close()


def page(handler):
    handler.say('<html><body>Welcome</body></html>', 200, 'text/html')


# --- jobs -----------------------------------------------------------------------------------------

def test_a_job_is_looked_at_stopped_and_listed(v2):
    v2.play('GET ' + JOB, lambda h: h.say(detail()))
    v2.play('GET /api/v2/jobs?username=alice', lambda h: h.say(
        [{'name': 'train', 'username': 'alice', 'state': 'RUNNING'},
         {'name': 'other', 'username': 'alice', 'state': 'FAILED', 'appExitCode': -1001}]))
    v2.play(f'PUT {JOB}/executionType', lambda h: h.say({'message': 'ok'}, 202))
    v2.play(f'GET {JOB}/config', lambda h: h.say(V2_JOB, 200, 'text/yaml'))

    told = ask(v2, 'look', 'train')
    assert told['why'] == FINE and told['version'] == 2 and told['user'] == 'alice', told
    assert told['job'] == {
        'user': 'alice', 'name': 'train', 'state': 'RUNNING', 'exit': -1, 'tasks': [
            {'role': 'master', 'index': 0, 'state': 'RUNNING', 'exit': None, 'ip': '10.0.0.7',
             'ssh': 4001, 'log': ''}]}
    assert v2.last('GET ' + JOB)['headers']['Authorization'] == 'Bearer ' + TOKEN
    assert 'Authorization' not in v2.last('GET ' + NOBODYS)['headers']
    assert ask(v2, 'config', 'train')['text'] == V2_JOB
    assert [job['name'] for job in ask(v2, 'list')['jobs']] == ['train', 'other']
    assert [job['exit'] for job in ask(v2, 'list', 'other')['jobs']] == [76]
    assert ask(v2, 'stop', 'train')['why'] == FINE
    assert v2.last(f'PUT {JOB}/executionType')['body'] == '{"value":"STOP"}'
    assert ask(v2, 'stop', 'gone')['why'] == FINE
    assert ask(v2, 'find')['why'] == FINE


def test_to_find_the_version_nobody_logs_in(v2):
    told = ask(v2, 'find', env={'REIGEN_PAI_TOKEN': None, 'REIGEN_PAI_USER': 'alice',
                                'REIGEN_PAI_PASSWORD': 'secret'})
    assert told['why'] == FINE and told['version'] == 2, told
    assert [asked['what'] for asked in v2.asked] == ['GET ' + NOBODYS]


def test_version_1_reads_without_a_token(v1):
    v1.play('GET ' + JOB1, lambda h: h.say(detail('alice~train', 'FAILED', appExitCode=-7111)))
    v1.play('DELETE ' + JOB1, lambda h: h.say({}, 202))
    told = ask(v1, 'look', 'train', env={'REIGEN_PAI_TOKEN': None, 'REIGEN_PAI_USER': 'alice'})
    assert told['version'] == 1 and told['job']['name'] == 'train', told
    assert told['job']['exit'] == 76, told
    assert 'Authorization' not in v1.last('GET ' + JOB1)['headers']
    told = ask(v1, 'stop', 'train', env={'REIGEN_PAI_TOKEN': None, 'REIGEN_PAI_USER': 'alice'})
    assert told['why'] == UNUSABLE and told['exit_code'] == 77, told
    assert ask(v1, 'delete', 'train')['why'] == FINE
    assert v1.count('DELETE ' + JOB1) == 1


@pytest.mark.parametrize('version', (1, 2))
def test_a_job_is_submitted(v1, v2, version):
    played, where = (v1, 'POST /api/v1/user/alice/jobs') if version == 1 else (v2, POST)
    text, kind = (V1_JOB, 'application/json') if version == 1 else (V2_JOB, 'text/yaml')
    played.play(where, lambda h: h.say({'message': 'ok'}, 202))
    told = ask(played, 'submit', 'train', str(version), text=text)
    assert told['why'] == FINE and not told['was_there'], told
    assert played.last(where)['body'] == text
    assert played.last(where)['headers']['Content-Type'] == kind
    # The other version's file is not sent at all.
    told = ask(played, 'submit', 'train', str(3 - version), text=text)
    assert told['why'] == OTHER and told['exit_code'] == 2, told
    assert f'--to v{version}' in told['error'] and played.count(where) == 1


# --- never twice ----------------------------------------------------------------------------------

def submit(played):
    return ask(played, 'submit', 'train', '2', text=V2_JOB)


def test_a_name_in_use_is_seen_before(v2):
    v2.play('GET ' + JOB, lambda h: h.say(detail()))
    told = submit(v2)
    assert told['why'] == EXISTS and told['exit_code'] == 2 and '--name' in told['error'], told
    assert v2.count(POST) == 0


def test_a_name_that_is_taken_meanwhile(v2):
    v2.play(POST, error(409, 'ConflictJobError', 'Job train already exists.'))
    told = submit(v2)
    assert told['why'] == EXISTS and told['status'] == 409, told
    assert 'Job train already exists.' in told['error'] and v2.count(POST) == 1


@pytest.mark.parametrize('lose', ('cut', 'half', 'bad gateway', 'failure'))
def test_a_lost_answer_of_a_job_that_is_there(v2, lose):
    v2.play(POST, {'cut': lambda h: h.cut(head=False), 'half': lambda h: h.cut(),
                   'bad gateway': lambda h: h.say('<html>', 502, 'text/html'),
                   'failure': error(500, 'UnknownError')}[lose])
    # The server writes it in its own way.
    v2.play(f'GET {JOB}/config', lambda h: h.say(V2_JOB.replace('[echo a]', '["echo a"]'), 200,
                                                 'text/yaml'))
    told = submit(v2)
    assert told['why'] == FINE and told['was_there'], told
    assert v2.count(POST) == 1


def test_a_lost_answer_of_somebody_elses_job(v2):
    v2.play(POST, lambda h: h.cut(head=False))
    v2.play(f'GET {JOB}/config', lambda h: h.say(V2_JOB.replace('echo a', 'echo b'), 200,
                                                 'text/yaml'))
    told = submit(v2)
    assert told['why'] == EXISTS and v2.count(POST) == 1, told


def test_a_job_that_got_lost_is_sent_once_more(v2):
    v2.play(POST, lambda h: h.cut(head=False), lambda h: h.say({'message': 'ok'}, 202))
    told = submit(v2)
    assert told['why'] == FINE and v2.count(POST) == 2, told
    assert v2.count(f'GET {JOB}/config') == 3


def test_a_job_that_shows_up_after_it_was_sent_again(v2):
    v2.play(POST, lambda h: h.cut(head=False), error(409, 'ConflictJobError'))
    v2.play(f'GET {JOB}/config', *[error(404, 'NoJobError')] * 3,
            lambda h: h.say(V2_JOB, 200, 'text/yaml'))
    told = submit(v2)
    assert told['why'] == FINE and told['was_there'] and v2.count(POST) == 2, told


def test_a_job_that_is_lost_twice_is_not_sent_again(v2):
    v2.play(POST, lambda h: h.cut(head=False))
    told = submit(v2)
    assert told['why'] == UNSURE and told['exit_code'] == 69, told
    assert 'before you submit it again' in told['error'] and v2.count(POST) == 2


def test_a_failure_of_the_server_is_told_where_the_job_is_not_there(v2):
    v2.play(POST, error(500, 'UnknownError', 'disk is full'))
    told = submit(v2)
    assert told['why'] == REFUSED and 'disk is full' in told['error'], told
    assert v2.count(POST) == 1


def test_a_lost_answer_where_the_file_comes_as_json(v2):
    v2.play(POST, lambda h: h.cut(head=False))
    v2.play(f'GET {JOB}/config', lambda h: h.say(json.dumps(V2_JOB)))
    told = submit(v2)
    assert told['why'] == FINE and told['was_there'] and v2.count(POST) == 1, told


def test_a_404_that_is_not_the_servers_says_nothing_of_a_job(v2):
    v2.play(POST, lambda h: h.cut(head=False))
    v2.play(f'GET {JOB}/config', lambda h: h.say('<html>', 404, 'text/html'))
    told = submit(v2)
    assert told['why'] == UNSURE and v2.count(POST) == 1, told


def test_a_token_that_expires_while_a_lost_job_is_looked_for(v2):
    v2.play('POST /api/v1/token', lambda h: h.say({'token': TOKEN, 'user': 'alice'}))
    v2.play(POST, lambda h: h.cut(head=False))
    v2.play(f'GET {JOB}/config', error(401, 'UnauthorizedUserError'),
            lambda h: h.say(V2_JOB, 200, 'text/yaml'))
    told = ask(v2, 'submit', 'train', '2', text=V2_JOB, env={
        'REIGEN_PAI_TOKEN': None, 'REIGEN_PAI_USER': 'alice', 'REIGEN_PAI_PASSWORD': 'secret'})
    assert told['why'] == FINE and told['was_there'] and v2.count(POST) == 1, told
    assert v2.count('POST /api/v1/token') == 2


# --- refusals -------------------------------------------------------------------------------------

@pytest.mark.parametrize('status, code, why, exit_code, remedy', (
    (400, 'InvalidParametersError', INVALID, 2, 'reigen pai check'),
    (400, 'InvalidProtocolError', INVALID, 2, 'reigen pai check'),
    (400, 'NoUserError', DENIED, 77, 'REIGEN_PAI_USER'),
    (400, 'IncorrectPasswordError', DENIED, 77, 'REIGEN_PAI_PASSWORD'),
    (401, 'UnauthorizedUserError', DENIED, 77, 'REIGEN_PAI_TOKEN'),
    (403, 'ForbiddenUserError', FORBIDDEN, 77, 'administrator'),
    (404, 'NoJobConfigError', MISSING, 2, 'storage'),
    (404, 'NoVirtualClusterError', MISSING, 2, '--virtual-cluster'),
    (404, 'NoStorageError', MISSING, 2, 'storage'),
    (404, 'NoJobSshInfoError', MISSING, 2, 'ssh'),
    (404, 'NoApiError', OTHER, 69, 'REIGEN_PAI_VERSION'),
    (409, 'ConflictJobError', EXISTS, 2, '--name'),
    (429, 'TooManyRequestsError', BUSY, 69, 'try again later'),
))
def test_each_refusal_has_a_remedy(v2, status, code, why, exit_code, remedy):
    v2.play(POST, error(status, code, 'the server said so'))
    told = submit(v2)
    assert (told['why'], told['status'], told['code']) == (why, status, code), told
    assert told['exit_code'] == exit_code and remedy in told['error'], told
    assert 'the server said so' in told['error'] and v2.count(POST) == 1


def test_a_body_without_a_code(v2):
    v2.play(POST, lambda h: h.say({'message': 'bad indentation of a mapping'}, 400))
    told = submit(v2)
    assert told['why'] == INVALID and 'bad indentation' in told['error'], told


@pytest.mark.parametrize('what, why, exit_code', (
    ('page', FOREIGN, 69), ('half', FOREIGN, 69), ('text', FOREIGN, 69), ('array', FOREIGN, 69),
    ('cut', AWAY, 69), ('missing', MISSING, 2)))
def test_answers_that_are_none(v2, what, why, exit_code):
    v2.play('GET ' + JOB, {
        'page': page, 'half': lambda h: h.cut(), 'text': lambda h: h.say('hello', 200),
        'array': lambda h: h.say([1]), 'cut': lambda h: h.cut(head=False),
        'missing': error(404, 'NoJobError', 'Job train is not found.')}[what])
    told = ask(v2, 'look', 'train')
    assert told['why'] == why and told['exit_code'] == exit_code, told


def test_a_server_that_hangs_is_left_in_time(v2):
    v2.play('GET ' + JOB, lambda h: h.hang())
    start = time.monotonic()
    told = ask(v2, 'wait', 'train', '1500')
    assert told['why'] == LATE and told['exit_code'] == 124, told
    assert time.monotonic() > start + 1 and soon(start, 6)


def test_what_only_reads_is_tried_again(v2):
    v2.play('GET ' + JOB, lambda h: h.say('', 503), lambda h: h.say('', 429, Retry_After='1'),
            lambda h: h.cut(head=False), lambda h: h.say(detail()))
    told = ask(v2, 'look', 'train')
    assert told['why'] == FINE and v2.count('GET ' + JOB) == 4, told


def test_nobody_answers(v2):
    env = {'REIGEN_PAI_SERVER': 'http://localhost:1', 'REIGEN_PAI_TOKEN': TOKEN}
    _, told = run_client('wait', 'train', '1000', env=env)
    assert told[0]['why'] == AWAY and 'REIGEN_PAI_SERVER' in told[0]['error'], told


def test_two_calls_go_on_at_once(v2):
    both = []

    def wait(handler):
        both.append(handler.path)
        until(lambda: len(both) == 2, 'both calls', 5)
        time.sleep(0.2)  # patient: both go on for a while
        handler.say(detail(handler.path.rsplit('~')[-1], 'RUNNING' if len(both) == 2 else 'FAILED'))

    v2.play('GET ' + JOB, wait)
    v2.play('GET /api/v2/jobs/alice~other', wait)
    done, told = run_client('both', 'train', 'other',
                            env={'REIGEN_PAI_SERVER': v2.url, 'REIGEN_PAI_TOKEN': TOKEN})
    assert done.returncode == 0 and len(told) == 3, done
    assert {t['job']['name'] for t in told[:2]} == {'train', 'other'}
    assert all(t['job']['state'] == 'RUNNING' for t in told[:2]), told
    assert told[2] >= 5 # turns of the loop meanwhile


def test_the_servers_words_bring_no_control_characters(v2):
    bad = 'a\x1b[31mb\x07c\x9bd\ne'
    v2.play('GET ' + JOB, error(403, 'ForbiddenUserError', bad))
    assert ask(v2, 'look', 'train')['said'] == 'a [31mb c  d e'
    v2.play('GET ' + JOB, lambda h: h.say(detail(state=bad, task={'containerIp': bad})))
    assert ask(v2, 'look', 'train')['job']['tasks'][0]['ip'] == 'a [31mb c  d e'
    faults = json.dumps([{'dataPath': '.a', 'message': 'x\x1by'}, {'message': 'z'}])
    v2.play('GET ' + JOB, error(404, 'NoJobError'))
    v2.play(POST, error(400, 'InvalidProtocolError', faults))
    assert submit(v2)['said'] == '.a: x y\nthe file: z'


# --- logs -----------------------------------------------------------------------------------------

def test_a_log_comes_bit_by_bit(v2):
    text = ['one\n']

    def ranged(handler):
        data = text[0].encode()
        text[0] += 'more\n' # before the answer, after which the client may ask again, elsewhere
        start = int(handler.headers['Range'].removeprefix('bytes=').split('-')[0])
        if start >= len(data):
            handler.say('', 416, 'text/plain')
        else:
            handler.say(data[start:], 206, 'text/plain')

    v2.play('GET /log', ranged)
    v2.play('GET /whole', *(lambda h, t=t: h.say(t, 200, 'text/plain')
                            for t in ('a\n', 'a\nb\n', 'a\nb\n')))
    for path, expected in (('/log', ['one\n', 'more\n', 'more\n']), ('/whole', ['a\n', 'b\n', ''])):
        _, told = run_client('log', v2.url + path, text='\n' * 3,
                             env={'REIGEN_PAI_SERVER': v2.url, 'REIGEN_PAI_TOKEN': TOKEN})
        assert [t['text'] for t in told] == expected, told
        assert all(t['why'] == FINE for t in told), told


def test_a_log_behind_a_page(v2, v1):
    """On another host, which does not get to see the token."""
    v1.play('GET /node/c/u/', lambda h: h.say(
        '<html><a href="/node/c/u/user.pai.stdout/?start=-4096">x</a></html>', 200, 'text/html'))
    v1.play('GET /node/c/u/user.pai.stdout/?*', lambda h: h.say(
        '<html><pre>1 &lt; 2\n</pre></html>', 200, 'text/html'))
    v1.play('GET /empty', page)
    env = {'REIGEN_PAI_SERVER': v2.url, 'REIGEN_PAI_TOKEN': TOKEN}
    _, told = run_client('log', v1.url + '/node/c/u/', text='\n\n', env=env)
    assert [t['text'] for t in told] == ['1 < 2\n', ''], told
    assert v1.count('GET /node/c/u/') == 1
    assert all('Authorization' not in asked['headers'] for asked in v1.asked)
    _, told = run_client('log', v1.url + '/empty', text='\n', env=env)
    assert told[0]['why'] == FOREIGN, told
    _, told = run_client('log', v1.url + '/none', text='\n', env=env)
    assert told[0]['why'] in (MISSING, OTHER), told


PLACES = 'GET /api/v2/jobs/alice~train/attempts/2/taskRoles/master/taskIndex/0/attempts/1/logs'
FOLDER = '/log-manager/tail/alice/train/master/uid/'


def job_log(played, *, calls):
    played.play('GET ' + JOB, lambda h: h.say(detail(retries=2, task={
        'retries': 1, 'containerLog': played.url + FOLDER})))
    _, told = run_client('joblog', 'train', text='\n' * calls,
                         env={'REIGEN_PAI_SERVER': played.url, 'REIGEN_PAI_TOKEN': TOKEN})
    assert len(told) == calls, told
    return told


def test_the_server_knows_where_a_log_is(v2):
    """The manager of logs writes a line end after each 8 KiB. Where it is holds for a while."""
    path = '/log-manager/10.0.0.7:9103/api/v1/logs/user.pai.all'
    long = 'x' * 8191 + '\ny' # a line end that is the program's own, at the end of a block
    v2.play(PLACES, *(lambda h, n=n: h.say({'locations': [
        {'name': 'stdout', 'uri': '/no'}, {'name': 'all', 'uri': f'{path}?token={n}'},
        {'name': 'all.1', 'uri': '/no'}]}) for n in (1, 2)))
    v2.play(f'GET {path}?token=1', lambda h: h.say('par\n', 200, 'text/plain'),
            lambda h: h.say('', 403, 'text/html'))
    v2.play(f'GET {path}?token=2', lambda h: h.say('partial\n\n', 200, 'text/plain'),
            lambda h: h.say('partial\n' + long[:8184] + '\n' + long[8184:] + '\n', 200,
                            'text/plain'))
    told = job_log(v2, calls=3)
    assert [t['text'] for t in told] == ['par', 'tial\n', long], told
    assert v2.count(PLACES) == 2 and v2.last(PLACES)['headers']['Authorization']


def test_a_server_that_does_not_know_where_a_log_is(v2):
    """It has the end of it in a file of the folder that the task names, and all of it beside."""
    v2.play(PLACES, error(404, 'NoApiError'))
    full = FOLDER.replace('tail', 'full')
    v2.play('GET ' + FOLDER, lambda h: h.say('No such file!\n', 200, 'text/plain'))
    v2.play(f'GET {full}user.pai.all', lambda h: h.say('No such file!\n', 200, 'text/plain'),
            lambda h: h.say('one line\ntwo\n', 200, 'text/plain'),
            lambda h: h.say('one line\ntwo\nthree\nfour is more\n', 200, 'text/plain'))
    v2.play(f'GET {FOLDER}user.pai.all', lambda h: h.say('four is more\n', 200, 'text/plain'))
    told = job_log(v2, calls=3)
    assert [t['why'] for t in told] == [MISSING, FINE, FINE], told
    assert [t['text'] for t in told] == ['', 'one line\ntwo', '\nthree\nfour is more'], told
    assert not any(t['skipped'] for t in told) and v2.count('GET ' + FOLDER) == 0


def test_of_a_page_the_new_part_alone_is_asked_for(v1):
    """Hadoop's pages know ?start= and ?end= of the file, and no ranges of bytes."""
    text, asked = ['first <b>\n' * 1000], []

    def show(handler):
        query = dict(parse_qsl(urlsplit(handler.path).query))
        data = text[0][int(query['start']):int(query['end'])]
        asked.append(len(data))
        text[0] += 'more & more\n'  # before the answer, which the next question follows at once
        handler.say(f'<html><pre>{html.escape(data)}</pre></html>', 200, 'text/html')

    v1.play('GET /node/c/u/', lambda h: h.say(
        '<html><a href="/node/c/u/user.pai.all/?start=-4096">x</a></html>', 200, 'text/html'))
    v1.play('GET /node/c/u/user.pai.all/?*', show)
    _, told = run_client('log', v1.url + '/node/c/u/', text='\n' * 3,
                         env={'REIGEN_PAI_SERVER': v1.url, 'REIGEN_PAI_TOKEN': TOKEN})
    assert [t['text'] for t in told] == ['first <b>\n' * 1000, 'more & more\n', 'more & more\n']
    assert asked == [10000, 1024 + 12, 1024 + 12] and not any(t['skipped'] for t in told)
