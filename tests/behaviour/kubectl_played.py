# SPDX-License-Identifier: Apache-2.0
"""A program in the place of kubectl, which answers as a test wants it to."""
import json
import os
import subprocess

from built import PROGRAMS, environment

LIMIT = 60
RUN = (PROGRAMS.reigen, 'run', '--on', 'kubernetes', '--name', 'job', '--image', 'i', '-np', '1',
       '--no-inject-runtime')
AWAY = 'The connection to the server 10.0.0.1:6443 was refused - did you specify the right host?'
# Each call takes the next play for its words: a Python script that finds what was said in `words`.
KUBECTL = '''#!/usr/bin/python3
import io, json, os, sys, time
words = [w for w in sys.argv[1:] if not w.startswith(('--context', '--namespace'))]
kind = words[0] + (' ' + words[1] if words[0] in ('get', 'config') else '')
folder = os.environ['PLAYS']
if words[0] in ('create', 'patch'):
    sys.stdin = io.StringIO(sys.stdin.read() or sys.exit('error: no objects passed'))
with open(folder + '/asked', 'a') as asked:
    asked.write(' '.join(words) + chr(10))
plays = json.load(open(folder + '/plays')).get(kind, [])
def turn():
    at = 0
    while True:
        try:
            os.close(os.open(f'{folder}/{kind}.{at}', os.O_CREAT | os.O_EXCL))
            return at
        except FileExistsError:
            at += 1
def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()
def pod(kind='MODIFIED', index=0, name='a', **status):
    say(json.dumps({'type': kind, 'object': {
        'metadata': {'name': f'job-{index}-{name}', 'creationTimestamp': '2026-01-01T00:00:00Z',
                     'labels': {'batch.kubernetes.io/job-completion-index': str(index)}},
        'spec': {'nodeName': 'node1'}, 'status': status}}))
def container(**state):
    return [{'name': 'reigen', 'state': state}]
def wait_for(name):
    while not os.path.exists(f'{folder}/{name}'):
        time.sleep(0.01)
def mark(name):
    open(f'{folder}/{name}', 'w').close()
def fail(text):
    sys.exit(text)
play = plays[min(turn(), len(plays) - 1)] if plays else 'say("{}")'
exec(play)
'''
RUNS = 'pod(containerStatuses=container(running={}))\n'
THERE = 'say(\'{"items": [{}]}\')'
KILLED = ('pod(index=%d, containerStatuses=container(terminated={"exitCode": 137, '
          '"reason": "Error"}))\n')
NO_MEMORY = KILLED.replace('Error', 'OOMKilled')
# What `kubectl proxy` does; says: a code and a text or an object in the place of success, or None.
PROXY = '''
import http.server, socketserver
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *words):
        pass
    def answer(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        with open(folder + '/asked', 'a') as asked:
            asked.write(f'{{self.command}} {{self.path.split("?")[0]}}' + chr(10))
        with open(folder + '/bodies', 'ab') as bodies:
            bodies.write(body + bytes([10]))
        code, what = {says} or (201, {{'metadata': {{'uid': 'uid'}}}})
        text = (what if isinstance(what, str) else json.dumps(what)).encode()
        self.send_response(code)
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_POST = do_PATCH = answer
with socketserver.UnixStreamServer(words[1].split('=')[1], Handler) as server:
    say('Starting to serve on it' + chr(10))
    server.serve_forever()
'''
ENDS = 'pod(containerStatuses=container(terminated={"exitCode": %d, "reason": "Error"}))\n'


class Played:
    def __init__(self, folder):
        self.folder = folder
        (folder / 'kubectl').write_text(KUBECTL)
        (folder / 'kubectl').chmod(0o755)
        self.env = environment(PATH=f'{folder}:{os.environ["PATH"]}', PLAYS=folder,
                               XDG_STATE_HOME=folder / 'state')

    def start(self, *words, **plays):
        plays = {'create': ['say("uid")'], 'config view': ['say("space@ctx")'],
                 **{name.replace('_', ' '): play for name, play in plays.items()}}
        (self.folder / 'plays').write_text(json.dumps(plays))
        return subprocess.Popen([*RUN, *words, '--', 'true'], env=self.env, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def run(self, *words, **plays):
        with self.start(*words, **plays) as child:
            try:
                out, err = child.communicate(timeout=LIMIT)
            except BaseException:
                child.kill()
                raise
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    def has_job(self, name):
        """Play a job of one pod in `space`, whose head runs here: `exec` is by its agent."""
        labels = {'app.kubernetes.io/name': 'reigen', 'app.kubernetes.io/instance': name}
        job = {'kind': 'Job', 'metadata': {'name': name, 'labels': labels},
               'spec': {'completions': 1}, 'status': {'active': 1}}
        pod = {'kind': 'Pod', 'metadata': {
            'name': f'{name}-0-a', 'creationTimestamp': '2026-01-01T00:00:00Z',
            'labels': {**labels, 'batch.kubernetes.io/job-completion-index': '0'}},
            'spec': {'nodeName': 'node1'}, 'status': {'phase': 'Running', 'containerStatuses': [
                {'name': 'reigen', 'state': {'running': {}}}]}}

        def prints(value):
            return [f'print({json.dumps(value)!r})']
        (self.folder / 'plays').write_text(json.dumps({
            'config view': ['say("space@ctx")'], 'get job': prints(job),
            'get pods': prints({'items': [pod]}), 'get jobs,pods': prints({'items': [job, pod]}),
            'exec': [f'os.execv({str(PROGRAMS.agent)!r}, words[words.index("--") + 1:])']}))

    def asked(self):
        asked = self.folder / 'asked'
        return asked.read_text().splitlines() if asked.exists() else []
