# SPDX-License-Identifier: Apache-2.0
"""An OpenPAI REST server that does what a test says, for what no server does when it is wanted, and
pai-client, the client by itself (tests/unit/platform/openpai/pai_client.c)."""
import http.server
import json
import ssl
import subprocess
import threading
from urllib.parse import urlsplit

from built import PROGRAMS, environment

LIMIT = 60
CLIENT = PROGRAMS.build / 'tests/unit/platform/pai-client'
NOBODYS = '/api/v2/jobs/reigen~none'
# {"username": "alice"}, signed by nobody
TOKEN = 'e30.eyJ1c2VybmFtZSI6ImFsaWNlIn0.c2ln'
V1_JOB = json.dumps({
    'jobName': 'train', 'image': 'i', 'taskRoles': [
        {'name': 'master', 'taskNumber': 1, 'cpuNumber': 1, 'memoryMB': 100, 'gpuNumber': 0,
         'command': 'echo a'}]})
V2_JOB = '''protocolVersion: 2
name: train
type: job
prerequisites: [{name: i, type: dockerimage, uri: x}]
taskRoles: {m: {dockerImage: i, commands: [echo a],
  resourcePerInstance: {cpu: 1, memoryMB: 100, gpu: 0}}}
'''


def detail(name='train', state='RUNNING', task=None, **more):
    return {'name': name, 'jobStatus': {'username': 'alice', 'state': state, **more},
            'taskRoles': {'master': {'taskStatuses': [
                {'taskIndex': 0, 'taskState': state, 'containerIp': '10.0.0.7',
                 'containerPorts': {'ssh': '4001'}, 'containerExitCode': None,
                 **(task or {})}]}}}


def error(status, code, message='m'):
    """One of the server's own refusals."""
    return lambda handler: handler.say({'code': code, 'message': message}, status)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *words):
        pass

    def answer(self):
        nbytes = int(self.headers.get('Content-Length', 0))
        self.body = self.rfile.read(nbytes).decode()
        self.server.played.take(self)

    do_GET = do_POST = do_PUT = do_DELETE = do_CONNECT = answer

    def say(self, value, status=200, kind='application/json', **headers):
        data = value if isinstance(value, bytes) else \
            (value if isinstance(value, str) else json.dumps(value)).encode()
        self.send_response(status)
        self.send_header('Content-Type', kind)
        for name, each in headers.items():
            self.send_header(name.replace('_', '-'), each)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def cut(self, head=True):
        """Half an answer, or none at all."""
        if head:
            self.send_response(200)
            self.send_header('Content-Type', 'application/json')
            self.send_header('Content-Length', '1000')
            self.end_headers()
            self.wfile.write(b'{"name": "tra')
            self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(2)

    def hang(self):
        self.server.played.ended.wait(LIMIT)
        self.close_connection = True


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


class Played:
    """plays: by "METHOD path", what to do with a handler, one after the other, and the last one
    again and again; "METHOD path?*" is of any query. The version answers what nobody's job is asked
    for with."""

    def __init__(self, version=2, certificate=None):
        self.asked, self.plays, self.lock = [], {}, threading.Lock()
        self.ended = threading.Event()
        self.server = Server(('127.0.0.1', 0), Handler)
        self.scheme = 'https' if certificate else 'http'
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, certificate.with_suffix('.key'))
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                     do_handshake_on_connect=False)
        self.server.played = self
        self.port = self.server.server_address[1]
        self.url = f'{self.scheme}://localhost:{self.port}'
        self.play('GET ' + NOBODYS, error(401, 'UnauthorizedUserError') if version == 2 else
                  error(404, 'NoApiError'))
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def play(self, what, *does):
        self.plays[what] = list(does)

    def take(self, handler):
        path = handler.path if handler.path.startswith('/') else urlsplit(handler.path).path
        what = f'{handler.command} {path}'
        with self.lock:
            self.asked.append({'what': what, 'target': handler.path, 'body': handler.body,
                               'headers': dict(handler.headers)})
            does = self.plays.get(what) or self.plays.get(what.partition('?')[0] + '?*')
            do = does.pop(0) if does and len(does) > 1 else does[0] if does else \
                error(404, 'NoJobError' if '/jobs/' in path else 'NoApiError')
        do(handler)

    def count(self, what):
        with self.lock:
            return sum(asked['what'] == what for asked in self.asked)

    def last(self, what):
        with self.lock:
            return [asked for asked in self.asked if asked['what'] == what][-1]

    def close(self):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()


def certificate(folder, name='localhost'):
    """One that signs itself: FOLDER/NAME.crt, with NAME.key beside."""
    path = folder / f'{name}.crt'
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                    'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj',
                    f'/CN={name}', '-addext', f'subjectAltName=DNS:{name}', '-keyout',
                    path.with_suffix('.key'), '-out', path], check=True, capture_output=True,
                   timeout=LIMIT)
    return path


def run_client(*words, text='', env=None, limit=LIMIT):
    """The process, and what it told, line by line."""
    kept = {k: v for k, v in environment().items() if not k.lower().endswith('_proxy') and
            not k.startswith('SSL_CERT')}
    done = subprocess.run([CLIENT, *words], input=text, capture_output=True, text=True,
                          timeout=limit, env={**kept, **{k: str(v) for k, v in
                                                         (env or {}).items()}}, check=False)
    return done, [json.loads(line) for line in done.stdout.splitlines()]


def ask(played, *words, text='', env=None):
    """One call of alice, who has a token unless env says otherwise."""
    access = {'REIGEN_PAI_SERVER': played.url, 'REIGEN_PAI_TOKEN': TOKEN}
    access = {k: v for k, v in {**access, **(env or {})}.items() if v is not None}
    done, told = run_client(*words, text=text, env=access)
    assert done.returncode == 0 and len(told) == 1, done
    return told[0]


