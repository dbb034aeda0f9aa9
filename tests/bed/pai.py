# SPDX-License-Identifier: Apache-2.0
"""OpenPAI's REST server, small, for tests: version 0.14 with API v1, or version 1.8 with API v2.

    from bed.pai import PaiServer, Processes

    with PaiServer('v1.8', runner=Processes(path=[folder_of_reigen])) as server:
        token = server.token('alice')
        ...                                  # submit to server.url
        job = server.job('alice~train')
        assert job.wait(60) and job.state == 'SUCCEEDED', server.log(job, 'master', 0)

It answers as the real one does: status codes, bodies, types, limits, and the two errors that have
no `code`. Jobs are really run by a runner (pai_runners.py); without one they wait. server.requests
has all that was asked. misbehave() makes the next answers bad ones.
"""
import base64
import ctypes
import fnmatch
import hmac
import http.server
import json
import re
import secrets
import socket
import socketserver
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from . import pai_answers as answers
from .node import Closing
from .pai_answers import Answer, no_api, told
from .pai_jobs import Job
from .pai_rules import Refused, invalid, read_v1, read_v2
from .pai_runners import Containers, Processes

__all__ = ['Containers', 'PaiServer', 'Processes']

USERS = {'alice': {'password': 'alice-secret', 'admin': False, 'clusters': ['default']},
         'bob': {'password': 'bob-secret', 'admin': False, 'clusters': ['default', 'research']},
         'root': {'password': 'root-secret', 'admin': True, 'clusters': ['default', 'research']}}
CLUSTERS = ['default', 'research']
TOKEN_S = 7 * 24 * 3600
#: Of one user or address: requests and lists in a minute, submissions in an hour.
LIMITS = {'api': (600, 60), 'list': (60, 60), 'submit': (60, 3600)}
CLONE_NEWNET = 0x40000000
HANG_S = 120
HTML = '<!DOCTYPE html>\n<html><head><title>OpenPAI</title></head><body>Sign in</body></html>\n'
BAD_GATEWAY = '<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>\n'


@dataclass
class Request:
    """What was asked, and the status that it was answered with; 0 while it is not."""
    method: str
    path: str
    headers: dict
    body: bytes
    user: str | None = None
    status: int = 0


@dataclass
class Bad:
    """Answers that are to be bad: `times` of those requests that method and path (a pattern of the
    shell) name."""
    how: str
    method: str = '*'
    path: str = '*'
    times: int | None = 1
    to: str = ''
    seconds: float = 0
    done: int = 0

    def takes(self, method, path):
        return fnmatch.fnmatch(method, self.method) and fnmatch.fnmatch(path, self.path) and \
            (self.times is None or self.done < self.times)


class PaiServer(Closing):
    """version   'v0.14' or 'v1.8'
    tls          with a certificate of an authority of its own, whose file is `ca`
    runner       Processes, Containers, or None: then jobs stay WAITING
    users        {name: {password, admin, clusters}}
    waiting      seconds that a job is WAITING before its tasks start
    visible      seconds after which v0.14 knows a job that it has taken; until then 404, and 202
                 in the place of 201
    limits       as LIMITS
    at           the bed's node whose network it is in; default this machine's 127.0.0.1
    """

    def __init__(self, version='v0.14', tls=False, runner=None, users=None, waiting=0.05, visible=0,
                 limits=None, at=None):
        # pylint: disable=too-many-arguments,too-many-positional-arguments
        assert version in ('v0.14', 'v1.8'), version
        self.version, self.runner, self.waiting, self.visible = version, runner, waiting, visible
        self.old = version == 'v0.14'
        self.users = users or USERS
        self.limits = {**LIMITS, **(limits or {})}
        self.jobs, self.requests, self.bad, self.errors = {}, [], [], []
        self.asked, self.published = {}, {}
        self.lock = threading.RLock()
        self.secret = secrets.token_bytes(16)
        self.closing = threading.Event()
        self.folder = Path(tempfile.mkdtemp(prefix='reigen-pai-server-'))
        self.host = at.address if at else '127.0.0.1'
        self.server = Listener(listening_socket(self.host, at), self)
        self.port = self.server.server_address[1]
        self.ca = None
        if tls:
            self.ca = self.folder / 'ca.pem'
            wrap(self.server, self.folder, self.host)
        self.url = f'{"https" if tls else "http"}://{self.host}:{self.port}'
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def close(self):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()
        for job in list(self.jobs.values()):
            job.stop()
        for job in self.jobs.values():
            if job.thread:
                job.thread.join(60)
        if self.runner:
            self.runner.close()
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()

    # ------------------------------------------------------------ for tests

    def job(self, identity):
        return self.jobs[identity]

    def task(self, identity, role, index):
        return next(t for t in self.jobs[identity].tasks
                    if (t.role.name, t.index) == (role, index))

    def log(self, job, role, index, name='user.pai.all'):
        """A task's words up to now."""
        task = self.task(job.identity, role, index)
        return task.run.log(name).decode(errors='replace') if task.run else ''

    def misbehave(self, how, method='*', path='*', times=1, to='', seconds=0):
        """how is one of
        hang       no answer at all, for long
        reset      the connection is closed before anything is read of the request's meaning
        lost       the request is carried out, and the connection closed without an answer
        half       half of the answer's body, and the connection closed
        html       200 with a page for people
        500, 502   UnknownError; a proxy's page
        expired    401, as with a token that is too old
        unknown    404 NoApiError, as of a server of another version
        redirect   307 to the address `to`, with the same path
        slow       the right answer, after `seconds`
        times=None is for ever. Returns the rule; its `done` counts, and clear() takes all away."""
        # pylint: disable=too-many-arguments,too-many-positional-arguments
        rule = Bad(how, method, path, times, to, seconds)
        with self.lock:
            self.bad.append(rule)
        return rule

    def publish(self, name, data):
        """Serve a file of that name to everybody; its address. A job's agent can come so."""
        self.published[name] = data
        return f'{self.url}/files/{name}'

    def clear(self):
        with self.lock:
            self.bad.clear()

    def token(self, user, lives=TOKEN_S):
        """A token as the server gives them, that ends after `lives` seconds."""
        claims = {'username': user, 'admin': self.users[user]['admin'], 'iat': int(time.time()),
                  'exp': time.time() + lives}
        parts = [encoded(json.dumps(each).encode()) for each in ({'alg': 'HS256'}, claims)]
        return '.'.join([*parts, encoded(self.sign('.'.join(parts)))])

    def application_token(self, user):
        return encoded(hmac.digest(self.secret, b'application ' + user.encode(), 'sha256'))

    # ------------------------------------------------------------ who asks

    def sign(self, text):
        return hmac.digest(self.secret, text.encode(), 'sha256')

    def user_of(self, headers):
        """The user whom the request's Authorization names rightly; None without one."""
        kind, _, word = headers.get('authorization', '').partition(' ')
        try:
            if kind.lower() == 'bearer':
                head, claims, signature = word.split('.')
                found = json.loads(decoded(claims))
                right = hmac.compare_digest(decoded(signature), self.sign(f'{head}.{claims}'))
                return found['username'] if right and found['exp'] > time.time() else None
            if kind.lower() == 'basic' and not self.old:
                user, _, token = base64.b64decode(word).decode().partition(':')
                right = user in self.users and hmac.compare_digest(
                    token, self.application_token(user))
                return user if right else None
        except (ValueError, KeyError):
            pass
        return None

    def limited(self, request, which, now=None):
        """None, or the answer that says that it is too much."""
        if self.old:
            return None
        most, seconds = self.limits[which]
        now = now or time.monotonic()
        key = which, request.user or 'somebody'
        with self.lock:
            times = [t for t in self.asked.get(key, ()) if t > now - seconds]
            self.asked[key] = times + [now]
        if len(times) < most:
            return None
        return Answer(429, b'Too many requests, please try again later.',
                      'text/html; charset=utf-8',
                      {'Retry-After': str(int(times[0] + seconds - now) + 1),
                       'X-RateLimit-Limit': str(most), 'X-RateLimit-Remaining': '0'})

    # ------------------------------------------------------------ what they ask

    def answer(self, request):
        """The right answer to a request."""
        request.user = self.user_of(request.headers)
        try:
            path = urllib.parse.urlsplit(request.path)
            words = urllib.parse.unquote(path.path).removeprefix('/rest-server').strip('/')
            query = dict(urllib.parse.parse_qsl(path.query))
            if words.startswith('files/'):
                return self.file(request, words.removeprefix('files/'))
            if words.startswith(('logs/', 'log-manager/', 'webhdfs/')):
                return answers.files(self, words, query)
            return self.limited(request, 'api') or self.route(request, words.split('/'), query)
        except Refused as refused:
            body = {'message': refused.message}
            if refused.code:
                body = {'code': refused.code, **body}
            return told(refused.status, body)

    def file(self, request, name):
        if name not in self.published:
            raise no_api(request)
        return Answer(200, self.published[name], 'application/octet-stream')

    def route(self, request, words, query):
        method = request.method
        if words[0] != 'api' or len(words) < 2 or words[1] not in ('v1', 'v2'):
            raise no_api(request)
        rest = words[2:]
        if not rest:
            return told(200, 'PAI RESTful API' + (' V2' if words[1] == 'v2' else ''), 'text/html')
        if rest == ['token'] and method == 'POST' and words[1] == 'v1':
            return self.log_in(request)
        if rest == ['authn', 'info'] and method == 'GET' and words[1] == 'v1':
            return told(200, {'authn_type': 'basic', 'loginURI': '/api/v1/token',
                              'loginURIMethod': 'post'})
        space = None
        if rest[0] == 'user' and len(rest) > 2 and rest[2] == 'jobs':
            space, rest = rest[1], rest[2:]
            if not self.old:
                rest[1:2] = [f'{space}~{rest[1]}'] if len(rest) > 1 else []
        if rest[0] != 'jobs' or words[1] == 'v1' and not self.old or \
                words[1] == 'v2' and self.old and space is None:
            raise no_api(request)
        if not self.old or method not in ('GET', 'HEAD'):
            if request.user is None:
                raise Refused(401, 'UnauthorizedUserError',
                              'Guest is not allowed to do this operation.')
        return self.jobs_route(request, space, rest[1:], query)

    def jobs_route(self, request, space, rest, query):
        method = request.method
        if not rest and method == 'GET':
            return self.limited(request, 'list') or self.list(space, query)
        if not rest and method == 'POST':
            return self.limited(request, 'submit') or self.submit(request, space, None)
        if len(rest) == 1 and method == 'PUT' and self.old:
            return self.submit(request, space, rest[0])
        if not rest:
            raise no_api(request)
        job = self.find(rest[0], space)
        if len(rest) == 1 and method == 'GET':
            return told(200, answers.detail(self, job))
        if len(rest) == 1 and method == 'DELETE' and self.old:
            return self.delete(request, job)
        if rest[1:] == ['config'] and method == 'GET':
            return answers.config(self, request, job)
        if rest[1:] == ['ssh'] and method == 'GET':
            return answers.ssh(self, job)
        if rest[1:] == ['executionType'] and method == 'PUT':
            return self.execute(request, job)
        if method == 'GET' and not self.old:
            return answers.attempts(self, request, job, rest[1:])
        raise no_api(request)

    def find(self, name, space):
        job = self.jobs.get(f'{space}~{name}' if space and self.old else name)
        if job is None or time.time() < job.created + self.visible:
            raise Refused(404, 'NoJobError', f'Job {name} is not found.')
        return job

    def log_in(self, request):
        body = json_body(request)
        user, password = body.get('username'), body.get('password')
        for name, value, rule in (('username', user, r'^[\w.-]+$'), ('password', password, '')):
            if value is None:
                raise invalid(f'child "{name}" fails because ["{name}" is required]')
            if not isinstance(value, str) or not re.search(rule, value):
                raise invalid(f'child "{name}" fails because ["{name}" must be a string]')
        if len(password) < 6:
            raise invalid('child "password" fails because ["password" length must be at least 6 '
                          'characters long]')
        expiration = body.get('expiration', 60)
        if not isinstance(expiration, int) or not 60 <= expiration <= TOKEN_S:
            raise invalid('child "expiration" fails because ["expiration" must be larger than or '
                          'equal to 60]')
        if user not in self.users:
            raise Refused(400, 'NoUserError', f'User {user} is not found.')
        if self.users[user]['password'] != password:
            raise Refused(400, 'IncorrectPasswordError', 'Password is incorrect.')
        return told(200, {'user': user, 'token': self.token(user),
                          'admin': self.users[user]['admin'], 'hasGitHubPAT': False})

    def list(self, space, query):
        wanted = space or query.get('username')
        jobs = [job for job in list(self.jobs.values()) if wanted in (None, job.user)]
        if 'keyword' in query and not self.old:
            jobs = [job for job in jobs if query['keyword'] in job.name]
        jobs.sort(key=lambda job: -job.created)
        if not self.old:
            first = int(query.get('offset', 0))
            jobs = jobs[first:first + int(query.get('limit', 5000))]
        return told(200, [answers.summary(self, job) for job in jobs])

    def submit(self, request, space, name):
        """Take a job; `name` is the one of the path of a PUT."""
        text = request.body.decode(errors='replace')
        protocol = not self.old or request.headers.get('content-type', '').startswith('text/')
        if protocol:
            body = text_body(request)
            config, roles = read_v2(body, self.version)
            own = config['name']
        else:
            config, roles = read_v1(json_body(request))
            own = config['jobName']
        own = name or own
        owner = space if space and self.old else request.user
        identity = own if self.old and space is None else f'{owner}~{own}'
        with self.lock:
            if identity in self.jobs:
                raise Refused(409, 'ConflictJobError', f'Job name {own} already exists' if self.old
                              else f'Job {identity} already exists.')
            job = Job(request.user, own, identity, 1 if self.old else 2, text, config, roles)
            self.check_cluster(request.user, job.cluster)
            self.jobs[identity] = job
        if self.runner:
            job.begin(self.runner, self.waiting)
        return self.taken(request, job, protocol)

    def taken(self, request, job, protocol):
        if protocol:
            return told(202, {'status': 202, 'message': f'Update job {job.name} for user '
                              f'{job.user} successfully.'})
        headers = {'Location': f'{self.url}{request.path.split("?")[0].rstrip("/")}/{job.name}'}
        if request.method == 'PUT':
            headers['Location'] = f'{self.url}{request.path.split("?")[0]}'
        if 'killAllOnCompletedTaskNumber' in job.config:
            headers['X-Warning'] = ('killAllOnCompletedTaskNumber has been obsoleted, please use '
                                    'minFailedTaskCount and minSucceededTaskCount instead.')
        if self.visible:
            return told(202, {'message': f'update job {job.name} successfully'}, headers=headers)
        return told(201, answers.detail(self, job), headers=headers)

    def check_cluster(self, user, cluster):
        if self.old and cluster not in CLUSTERS:
            raise Refused(404, 'NoVirtualClusterError', f'Virtual cluster {cluster} is not found.')
        if cluster not in self.users[user]['clusters']:
            raise Refused(403, 'ForbiddenUserError',
                          f'User {user} is not allowed to do operation in {cluster}')

    def execute(self, request, job):
        value = json_body(request).get('value')
        self.check_owner(request, job, 'execute')
        if value not in ('START', 'STOP'):
            raise invalid('child "value" fails because ["value" must be one of [START, STOP]]')
        if value == 'STOP':
            job.stop()
            if not self.runner and not job.over.is_set():
                job.finish(-7351 if self.old else -210)
        message = f'execute job {job.name} successfully' if self.old else \
            f'Execute job {job.identity} successfully.'
        return told(202, {'message': message} if self.old else {'status': 202, 'message': message})

    def delete(self, request, job):
        self.check_owner(request, job, 'remove')
        job.stop()
        with self.lock:
            self.jobs.pop(job.identity, None)
        if job.thread:
            job.thread.join(60)
        return told(202, {'message': f'deleted job {job.name} successfully'})

    def check_owner(self, request, job, what):
        if request.user != job.user and not self.users[request.user]['admin']:
            name = job.name if self.old else job.identity
            raise Refused(403, 'ForbiddenUserError',
                          f'User {request.user} is not allowed to {what} job {name}.')


# ---------------------------------------------------------------------------- bytes

def json_body(request):
    """The body where its type is JSON's; else the server has none."""
    if not request.headers.get('content-type', '').startswith('application/json'):
        return {}
    try:
        body = json.loads(request.body or b'{}')
    except ValueError as error:
        raise Refused(400, None, f'Unexpected token in JSON: {error}') from None
    if not isinstance(body, (dict, list)):
        raise Refused(400, None, 'Unexpected token in JSON at position 0')
    return body


def text_body(request):
    """The body as a text where its type is one; None where the server has no parser for it."""
    kind = request.headers.get('content-type', '')
    if kind.startswith('application/json'):
        json_body(request)
    return request.body.decode(errors='replace') if kind.startswith('text/') else None


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


def decoded(text):
    return base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))


class Listener(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, listening, pai):
        super().__init__(listening.getsockname(), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self.pai = listening, pai

    def handle_error(self, request, client_address):
        """Clients go away when they like; all else is an error of this server."""
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError, ssl.SSLError)):
            self.pai.errors.append(traceback.format_exc())
            traceback.print_exc()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    timeout = HANG_S

    def log_message(self, *_words):  # pylint: disable=arguments-differ
        pass

    def handle_any(self):
        pai = self.server.pai
        size = int(self.headers.get('Content-Length') or 0)
        request = Request(self.command, self.path,
                          {k.lower(): v for k, v in self.headers.items()}, self.rfile.read(size))
        with pai.lock:
            pai.requests.append(request)
            bad = next((b for b in pai.bad if b.takes(request.method, request.path)), None)
            if bad:
                bad.done += 1
        answer = self.badly(pai, request, bad) if bad else pai.answer(request)
        if answer is None:
            self.close_connection = True
            return
        request.status = answer.status
        self.send(answer, half=bad is not None and bad.how == 'half')

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = handle_any

    def badly(self, pai, request, bad):
        if bad.how in ('hang', 'reset'):
            if bad.how == 'hang':
                pai.closing.wait(HANG_S)
            return None
        if bad.how in ('slow', 'half', 'lost'):
            pai.closing.wait(bad.seconds)
            answer = pai.answer(request)
            return None if bad.how == 'lost' else answer
        if bad.how == 'redirect':
            return Answer(307, b'', 'text/plain', {'Location': bad.to + request.path})
        return {'html': told(200, HTML, 'text/html'),
                '500': told(500, {'code': 'UnknownError', 'message': 'connect ECONNREFUSED'}),
                '502': told(502, BAD_GATEWAY, 'text/html'),
                'expired': told(401, {'code': 'UnauthorizedUserError',
                                      'message': 'Guest is not allowed to do this operation.'}),
                'unknown': told(404, {'code': 'NoApiError',
                                      'message': f'API {request.path} is not found.'})}[bad.how]

    def send(self, answer, half):
        self.send_response(answer.status)
        headers = {'Content-Type': answer.kind, 'Content-Length': str(len(answer.body)),
                   'X-Powered-By': 'Express', **answer.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(answer.body[:len(answer.body) // 2] if half else answer.body)
        if half:
            self.close_connection = True


def listening_socket(host, node):
    """A socket on a free port; in the node's network, which one thread enters for that."""
    made = []

    def make():
        if node:
            libc = ctypes.CDLL(None, use_errno=True)
            with open(f'/proc/{node.pid}/ns/net', 'rb') as space:
                if libc.setns(space.fileno(), CLONE_NEWNET):
                    made.append(OSError(ctypes.get_errno(), 'setns'))
                    return
        made.append(socket.create_server((host, 0), backlog=64))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    if not made or isinstance(made[0], OSError):
        raise made[0] if made else OSError(f'no socket on {host}')
    return made[0]


def wrap(server, folder, host):
    """Speak TLS, with a certificate for the host that an authority of the folder's gave."""
    run = ['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
           '-nodes', '-days', '2']
    subprocess.run([*run, '-subj', '/CN=authority', '-keyout', folder / 'ca.key', '-out',
                    folder / 'ca.pem'], check=True, capture_output=True, timeout=120)
    subprocess.run([*run, '-subj', f'/CN={host}', '-addext', f'subjectAltName=IP:{host}',
                    '-addext', 'basicConstraints=critical,CA:FALSE', '-CA', folder / 'ca.pem',
                    '-CAkey', folder / 'ca.key', '-keyout', folder / 'own.key', '-out',
                    folder / 'own.pem'], check=True, capture_output=True, timeout=120)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / 'own.pem', folder / 'own.key')
    server.socket = context.wrap_socket(server.socket, server_side=True,
                                        do_handshake_on_connect=False)
