# SPDX-License-Identifier: Apache-2.0
"""reigen run --on kubernetes inside a pod without kubectl, with an API server of the test's own,
for what no cluster does when a test wants it to. It talks HTTP over TLS as the real one does; the
service account's files are where a pod has them, in a mount name space. tests/kubernetes has the
same in a real pod."""
import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import threading
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from built import PROGRAMS, environment

LIMIT = 60
ACCOUNT = '/run/secrets/kubernetes.io/serviceaccount'
# A pod's file systems: the account's files, and no kubectl. Further words are mounted over.
POD = f'''mount -t tmpfs none /run && mkdir -p {ACCOUNT} && mount --bind "$0" {ACCOUNT} || exit 99
while [ "$1" != -- ]; do mount --bind /dev/null "$1" || exit 99; shift; done
shift; PATH=/nowhere exec "$@"'''
JOBS = '/apis/batch/v1/namespaces/space/jobs'
PODS = '/api/v1/namespaces/space/pods'
RUN = ('run', '--on', 'kubernetes', '--name', 'job', '--image', 'i', '-np', '1',
       '--no-inject-runtime')


def pod(**status):
    return {'kind': 'Pod', 'metadata': {
        'name': 'job-0-a', 'creationTimestamp': '2026-01-01T00:00:00Z',
        'labels': {'batch.kubernetes.io/job-completion-index': '0',
                   'app.kubernetes.io/instance': 'job'}},
            'spec': {'nodeName': 'node1'}, 'status': status}


def event(what, kind='MODIFIED'):
    return json.dumps({'type': kind, 'object': what}) + '\n'


def container(**state):
    return [{'name': 'reigen', 'state': state}]


RUNS = event(pod(containerStatuses=container(running={})), 'ADDED')
ENDS = event(pod(containerStatuses=container(terminated={'exitCode': 5, 'reason': 'Error'})))
GONE = event({'kind': 'Status', 'status': 'Failure', 'code': 410, 'reason': 'Expired',
              'message': 'too old resource version: 1 (2)'}, 'ERROR')


def line(second, text):
    return f'2026-01-01T00:00:{second:02}.5Z {text}\n'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *words):
        pass

    def answer(self):
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        self.query = {key: value[0] for key, value in parse_qs(url.query).items()}
        asked = {'method': self.command, 'path': url.path, 'query': self.query,
                 'headers': dict(self.headers), 'body': json.loads(body) if body else None}
        self.server.api.take(self, asked)

    do_GET = do_POST = do_PATCH = do_DELETE = answer

    def say(self, value, code=200, **headers):
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(code)
        for name, each in headers.items():
            self.send_header(name.replace('_', '-'), each)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def refuse(self, code, reason, message, headers=(), **details):
        self.say({'kind': 'Status', 'status': 'Failure', 'code': code, 'reason': reason,
                  'message': message, 'details': details}, code, **dict(headers))

    def stream(self, *texts, size=None, cut=False):
        """Chunks of so many bytes, each byte on its way alone then; cut: with no end."""
        self.send_response(200)
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        for text in texts:
            if callable(text):
                text()
                continue
            data = text.encode()
            for at in range(0, len(data), size or len(data)):
                part = data[at:at + (size or len(data))]
                frame = f'{len(part):x}\r\n'.encode() + part + b'\r\n'
                for start in range(0, len(frame), size or len(frame)):
                    self.wfile.write(frame[start:start + (size or len(frame))])
        if cut:
            self.close_connection = True
            self.connection.shutdown(2)
        else:
            self.wfile.write(b'0\r\n\r\n')


class Api:
    """plays: by "METHOD resource", a list of functions of the handler, the last one again and
    again. What is not there is answered as a quiet cluster does."""

    def __init__(self, folder, host):
        self.folder, self.host = folder, host
        self.account = folder / 'account'
        self.account.mkdir()
        self.asked, self.plays, self.lock = [], {}, threading.Lock()
        self.ended = threading.Event()
        shutil.copy(certificate(folder), self.account / 'ca.crt')
        (self.account / 'namespace').write_text('space')
        self.token('first')
        self.server = (Server6 if ':' in host else Server)((host, 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / 'ca.crt', folder / 'ca.key')
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                 do_handshake_on_connect=False)
        self.server.api = self
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def token(self, text):
        (self.account / 'token.new').write_text(text)
        (self.account / 'token.new').rename(self.account / 'token')

    def close(self):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()

    def take(self, handler, asked):
        parts = asked['path'].split('/namespaces/', 1)[-1].split('/')
        what = 'log' if parts[-1] == 'log' else parts[1]
        if what != 'log' and len(parts) > 2:
            what += '/NAME'
        word = 'WATCH' if 'watch' in asked['query'] else asked['method']
        with self.lock:
            self.asked.append((f'{word} {what}', asked))
            plays = self.plays.get(f'{word} {what}', [quiet])
            play = plays.pop(0) if len(plays) > 1 else plays[0]
        with contextlib.suppress(OSError):
            play(handler)

    def of(self, what):
        with self.lock:
            return [asked for name, asked in self.asked if name == what]

    def words(self, *words, hidden=(), **env):
        own = [] if os.geteuid() == 0 else ['--map-root-user']
        return {'args': ['unshare', '--mount', *own, 'sh', '-c', POD, str(self.account), *hidden,
                         '--', str(PROGRAMS.reigen), *words],
                'env': environment(**{'KUBERNETES_SERVICE_HOST': self.host,
                                      'KUBERNETES_SERVICE_PORT': self.server.server_address[1],
                                      'HTTPS_PROXY': 'http://127.0.0.1:1',
                                      'XDG_STATE_HOME': self.folder / 'state', **env}),
                'stdin': subprocess.DEVNULL, 'text': True}

    def __call__(self, *words, hidden=(), **env):
        return subprocess.run(**self.words(*words, hidden=hidden, **env), capture_output=True,
                              timeout=LIMIT, check=False)

    def run(self, *words, **plays):
        self.plays = {name.replace('_', ' ').replace(' NAME', '/NAME'): list(each)
                      for name, each in plays.items()}
        return self(*RUN, *words, '--', 'true')

    def hold(self):
        self.ended.wait(LIMIT)


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *words):
        pass


class Server6(Server):
    address_family = 10


def quiet(handler):
    if handler.command == 'POST':
        handler.say({'metadata': {'uid': 'the-uid'}}, 201)
    elif handler.command == 'GET' and 'watch' in handler.query:
        handler.stream(handler.server.api.hold)
    else:
        handler.say({'kind': 'Status', 'status': 'Success'})


def certificate(folder):
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                    'ec_paramgen_curve:P-256', '-nodes', '-keyout', 'ca.key', '-out', 'ca.crt',
                    '-days', '3650', '-subj', '/CN=api', '-addext',
                    'subjectAltName=IP:127.0.0.1,IP:::1'], cwd=folder, check=True,
                   capture_output=True, timeout=60)
    return folder / 'ca.crt'


@pytest.fixture
def api(tmp_path):
    api = Api(tmp_path, '127.0.0.1')
    yield api
    api.close()


@pytest.fixture
def api6(tmp_path):
    api = Api(tmp_path, '::1')
    yield api
    api.close()


def remarks(done):
    """What it says, but for how far a slow start is."""
    return [line for line in done.stderr.splitlines() if ' ready after ' not in line]


def test_a_job_of_a_pod_whose_frames_come_byte_by_byte(api6):
    read = threading.Event()

    def watch(handler):
        handler.stream(RUNS, read.wait, ENDS, api6.hold, size=1)

    def log(handler):
        handler.stream(line(0, 'one'), line(1, 'zwei € 2'), size=1)
        read.set()
    done = api6.run(WATCH_pods=[watch], GET_log=[log])
    assert (done.returncode, done.stdout, remarks(done)) == (5, 'one\nzwei € 2\n', []), done
    job, = api6.of('POST jobs')
    assert (job['path'], job['headers']['Authorization']) == (JOBS, 'Bearer first')
    assert job['query']['fieldValidation'] == 'Ignore' and job['body']['spec']['suspend'] is True
    for kind in ('services', 'configmaps', 'secrets'):
        made, = api6.of(f'POST {kind}')
        assert made['path'] == f'/api/v1/namespaces/space/{kind}'
        assert made['body']['metadata']['ownerReferences'][0]['uid'] == 'the-uid'
    resumed, = api6.of('PATCH jobs/NAME')
    assert resumed['body'] == {'spec': {'suspend': False}}
    assert resumed['headers']['Content-Type'] == 'application/merge-patch+json'
    assert api6.of('GET log')[0]['query'] == {'container': 'reigen', 'follow': 'true',
                                              'timestamps': 'true'}
    assert api6.of('WATCH pods')[0]['query']['labelSelector'] == 'batch.kubernetes.io/job-name=job'


@pytest.mark.sanitize
def test_streams_that_are_cut_cost_no_line_and_no_word_too_much(api):
    cut, back, end = (threading.Event() for _ in range(3))

    def watch_to_cut(handler):
        handler.stream(RUNS, cut.wait, cut=True)

    def watch_gone(handler):
        handler.stream(GONE)

    def watch(handler):
        assert 'resourceVersion' not in handler.query
        handler.stream(RUNS, back.set, end.wait, ENDS, api.hold)

    def log_to_cut(handler):
        api.token('second')
        handler.stream(*(line(i, f'line {i}') for i in range(3)), '2026-01-01T00:00:03Z li',
                       cut.set, cut=True)

    def busy(handler):
        handler.refuse(503, 'ServiceUnavailable', 'apiserver not ready')

    def log(handler):
        back.wait(LIMIT)
        handler.stream(*(line(i, f'line {i}') for i in range(1, 5)))
        end.set()

    done = api.run(WATCH_pods=[watch_to_cut, watch_gone, watch], GET_log=[log_to_cut, busy, log],
                   GET_jobs_NAME=[lambda h: h.say({'kind': 'Job', 'status': {}})])
    assert done.returncode == 5, done
    assert done.stdout == ''.join(f'line {i}\n' for i in range(5)), done
    assert done.stderr.count('does not answer') == done.stderr.count('answers again') > 0, done
    last = api.of('GET log')[-1]
    assert last['query']['sinceTime'] == '2026-01-01T00:00:01Z'
    assert last['headers']['Authorization'] == 'Bearer second'


def test_a_log_that_ends_within_a_line_is_told_to_its_end(api):
    def log(handler):
        handler.stream(line(0, 'one'), '2026-01-01T00:00:01Z no end')
    done = api.run(WATCH_pods=[lambda h: h.stream(RUNS, ENDS, api.hold)], GET_log=[log])
    assert (done.returncode, done.stdout, remarks(done)) == (5, 'one\nno end', []), done


def test_a_server_that_is_busy_is_asked_again_when_it_says(api):
    def busy(handler):
        handler.refuse(429, 'TooManyRequests', 'try later', {'Retry_After': '1'})
    began = time.monotonic()
    done = api.run(POST_secrets=[busy, quiet], WATCH_pods=[busy, lambda h: h.stream(
        RUNS, ENDS, api.hold)], GET_log=[lambda h: h.stream(line(0, 'one'))])
    assert (done.returncode, done.stdout) == (5, 'one\n'), done
    assert time.monotonic() >= began + 2 and len(api.of('POST secrets')) == 2


REFUSALS = (
    (401, 'Unauthorized', 'Unauthorized', 77, 'start this pod again'),
    (403, 'Forbidden', 'jobs.batch is forbidden: User "system:serviceaccount:space:default" cannot '
     'create resource "jobs" in API group "batch" in the namespace "space"', 77,
     'cannot create resource "jobs" in API group "batch" in the namespace "space"; ask the'),
    (403, 'Forbidden', 'jobs.batch "job" is forbidden: exceeded quota: q', 69, 'ask for less'),
    (404, 'NotFound', 'namespaces "space" not found', 2, 'name one that is there'),
    (409, 'AlreadyExists', 'jobs.batch "job" already exists', 2, 'the name is in use'),
    (422, 'Invalid', 'Job.batch "job" is invalid: spec.x: Invalid value', 2, 'correct that value'),
    (429, 'TooManyRequests', 'Too many requests', 69, 'too much to do: Too many requests; try'),
    (500, 'InternalError', 'Internal error occurred: boom', 69, 'Internal error occurred: boom'),
    (503, 'ServiceUnavailable', 'apiserver not ready', 69, 'does not answer: apiserver not ready'),
)


def test_each_refusal_has_its_code_and_remedy_and_leaves_nothing(api):
    for code, reason, message, exit_code, said in REFUSALS:
        details = {'name': 'space', 'kind': 'namespaces'} if code == 404 else {}
        done = api.run(POST_jobs=[lambda h, c=code, r=reason, m=message, d=details:
                                  h.refuse(c, r, m, **d)])
        assert done.returncode == exit_code and said in done.stderr, done
    assert not api.of('POST secrets') and not api.of('WATCH pods')
    done = api.run(POST_secrets=[lambda h: h.refuse(403, 'Forbidden', 'secrets is forbidden: User '
                                                    '"u" cannot create resource "secrets"')])
    assert done.returncode == 77 and 'cannot create resource "secrets"' in done.stderr, done
    deleted, = api.of('DELETE jobs/NAME')
    assert deleted['query'] == {'propagationPolicy': 'Background'}
    assert not api.of('PATCH jobs/NAME')
    done = api.run('--gang', 'volcano',
                   POST_podgroups=[lambda h: h.say(b'404 page not found', 404)])
    assert done.returncode == 2 and 'the cluster has no such pod groups' in done.stderr, done


def resources(*names):
    return lambda handler: handler.say({'kind': 'APIResourceList',
                                        'resources': [{'name': name} for name in names]})


def missing(handler):
    handler.say(b'404 page not found', 404)


def refuse_group(handler):
    handler.refuse(403, 'Forbidden', 'podgroups is forbidden: User "u" cannot create resource '
                   '"podgroups"')


def test_pod_groups_of_the_clusters_own_are_those_that_it_shows(api):
    """Of two versions the newest, and none where there is none."""
    for plays, version in (((resources('workloads', 'podgroups'),), 'v1beta1'),
                           ((missing, resources('podgroups')), 'v1alpha3'),
                           ((resources('priorityclasses'), resources('podgroups')), 'v1alpha3')):
        api.asked.clear()
        done = api.run('--gang', 'kubernetes', '--priority-class', 'high', GET_apis_NAME=plays,
                       POST_podgroups=[refuse_group])
        assert done.returncode == 77 and 'cannot create resource "podgroups"' in done.stderr, done
        group, = api.of('POST podgroups')
        assert group['path'] == f'/apis/scheduling.k8s.io/{version}/namespaces/space/podgroups'
        assert group['body']['apiVersion'] == f'scheduling.k8s.io/{version}', group
        assert group['body']['spec'] == {'schedulingPolicy': {'gang': {'minCount': 1}},
                                         'priorityClassName': 'high'}, group
        job, = api.of('POST jobs')
        assert job['body']['spec']['template']['spec']['schedulingGroup'] == {'podGroupName': 'job'}
        assert api.of('DELETE jobs/NAME')
    for plays in ((missing,), (resources('priorityclasses'),)):
        api.asked.clear()
        done = api.run('--gang', 'kubernetes', GET_apis_NAME=plays)
        assert done.returncode == 2 and 'the cluster has no pod groups of its own' in done.stderr
        assert [name for name, _ in api.asked] == ['GET apis/NAME'] * 2, api.asked
    done = api.run('--gang', 'kubernetes', GET_apis_NAME=[
        lambda h: h.refuse(503, 'ServiceUnavailable', 'apiserver not ready')])
    assert done.returncode == 69 and 'apiserver not ready' in done.stderr, done
    for plays, version in (((missing, resources('podgroups')), 'v1alpha3'),
                           ((lambda h: h.refuse(500, 'InternalError', 'boom'),), 'v1beta1')):
        done = api.run('--gang', 'kubernetes', '--dry-run', GET_apis_NAME=plays)
        assert done.returncode == 0, done
        assert f'apiVersion: "scheduling.k8s.io/{version}"\nkind: "PodGroup"\n' in done.stdout
    done = api.run('--gang', 'kubernetes', '--dry-run', GET_apis_NAME=[missing])
    assert done.returncode == 2 and 'no pod groups of its own' in done.stderr, done


def test_a_plan_finds_queues_in_the_version_that_the_cluster_has(api):
    """And says what of that is missing."""
    queue = {'status': {'pendingWorkloads': 3, 'conditions': [
        {'type': 'Active', 'status': 'False', 'message': 'the ClusterQueue is not there'}]}}
    for plays, version in (((resources('localqueues'),), 'v1beta2'),
                           ((missing, resources('localqueues')), 'v1beta1')):
        api.asked.clear()
        api.plays = {'GET apis/NAME': list(plays), 'GET localqueues/NAME': [lambda h: h.say(queue)]}
        done = api('plan', *RUN[1:], '--queue', 'q', '--', 'true')
        text = re.sub(r'\n {10,}', ' ', done.stdout)
        assert '3 jobs wait in queue q' in text and 'the ClusterQueue is not there' in text, done
        asked, = api.of('GET localqueues/NAME')
        assert asked['path'] == f'/apis/kueue.x-k8s.io/{version}/namespaces/space/localqueues/q'
    api.plays = {'GET apis/NAME': [missing]}
    done = api('plan', *RUN[1:], '--queue', 'q', '--gang', 'kubernetes', '--', 'true')
    text = re.sub(r'\n {10,}', ' ', done.stdout)
    assert done.returncode == 2 and 'the cluster has no queues like q' in text, done
    assert 'the cluster has no pod groups of its own' in text, done
    assert not [a for a in api.of('POST jobs')
                if 'schedulingGroup' in a['body']['spec']['template']['spec']]


def test_who_is_not_the_api_server_gets_no_token(api, tmp_path):
    (tmp_path / 'other').mkdir()
    shutil.copy(certificate(tmp_path / 'other'), api.account / 'ca.crt')
    done = api.run()
    assert done.returncode == 77 and 'is not it: ' in done.stderr, done
    assert 'ca.crt' in done.stderr and not api.asked
    (api.account / 'ca.crt').unlink()
    done = api.run()
    assert done.returncode == 77 and 'ca.crt' in done.stderr and not api.asked, done


def test_what_a_pod_lacks_is_named(api):
    done = api.run('--context', 'work')
    assert done.returncode == 2 and '--context work: there is no kubectl' in done.stderr, done
    listed = subprocess.run(['/sbin/ldconfig', '-p'], capture_output=True, text=True, check=True)
    hidden = re.findall(r'libcurl\S*\.so\.4 .* => (\S+)', listed.stdout)
    done = api(*RUN, '--', 'true', hidden=hidden)
    assert done.returncode == 69 and 'Debian and Ubuntu: libcurl4' in done.stderr, done
    (api.account / 'token').unlink()
    done = api.run()
    assert done.returncode == 69 and 'this pod has none that can be read' in done.stderr, done
    done = api(*RUN, '--', 'true', KUBERNETES_SERVICE_HOST='')
    assert done.returncode == 69 and 'this is no pod' in done.stderr, done
    assert not api.asked


def test_an_api_server_that_is_away_is_told(api):
    api.server.shutdown()
    api.server.server_close()
    done = api.run()
    assert done.returncode == 69 and 'does not answer: ' in done.stderr, done
    assert 'network policies' in done.stderr


def test_an_answer_that_is_too_large_ends_the_asking(api):
    def endless(handler):
        handler.send_response(200)
        handler.send_header('Transfer-Encoding', 'chunked')
        handler.end_headers()
        chunk = b'100000\r\n' + b'x' * (1 << 20) + b'\r\n'
        for _ in range(200):
            handler.wfile.write(chunk)
    api.plays = {'WATCH pods': [lambda h: h.stream(RUNS, ENDS, api.hold)]}
    assert api('run', '--submit', *RUN[1:], '--', 'true').returncode == 0
    api.plays = {'GET jobs': [endless]}
    done = api('status', 'job')
    assert 'larger than 64 MiB' in done.stderr, done


def test_a_submitted_job_is_asked_after_and_read(api):
    done = api('run', '--submit', *RUN[1:], '--', 'true')
    assert (done.returncode, done.stdout) == (0, 'job\n'), done
    ran = pod(containerStatuses=container(running={}))
    del ran['kind']  # as in a List
    api.plays = {
        'GET jobs': [lambda h: h.say({'kind': 'JobList', 'items': [
            {'metadata': {'name': 'job', 'labels': {'app.kubernetes.io/instance': 'job'}},
             'status': {'active': 1}}]})],
        'GET pods': [lambda h: h.say({'kind': 'PodList', 'items': [ran]})],
        'GET log': [lambda h: h.say(b'[0] hello\n')]}
    done = api('status', 'job')
    assert 'running on node1' in done.stdout.lower() and 'reigen logs job' in done.stdout, done
    assert api('logs', 'job').stdout == '[0] hello\n'
    gone = [lambda h: h.say({'metadata': {'deletionTimestamp': 'now'}})] * 2
    api.plays = {'GET jobs/NAME': [*gone, lambda h: h.refuse(404, 'NotFound', 'jobs "job" not '
                                                             'found')]}
    assert api('stop', 'job').stdout == 'stopped job\n'
    assert len(api.of('GET jobs/NAME')) == 3
    assert api.of('DELETE jobs/NAME')[0]['query'] == {'propagationPolicy': 'Foreground'}


@pytest.mark.sanitize
def test_ctrl_c_deletes_the_job_and_waits_until_it_is_gone(api):
    up = threading.Event()

    def log(handler):
        handler.stream(line(0, 'one'), up.set, api.hold)
    api.plays = {'WATCH pods': [lambda h: h.stream(RUNS, api.hold)], 'GET log': [log],
                 'GET jobs/NAME': [lambda h: h.say({'metadata': {'deletionTimestamp': 'now'}}),
                                   lambda h: h.refuse(404, 'NotFound', 'not found')]}
    child = subprocess.Popen(**api.words(*RUN, '--', 'true'), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
    assert child.stdout.readline() == 'one\n'
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=LIMIT / 2)  # although the log goes on
    assert child.returncode == 130, (out, err)
    assert len(api.of('GET jobs/NAME')) == 2
