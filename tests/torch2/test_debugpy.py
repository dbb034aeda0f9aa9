# SPDX-License-Identifier: Apache-2.0
"""docs/debug.md: a debugger attaches to each rank by debugpy, on the port that its page says."""
import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from test_notebook import python  # noqa: F401  # a fixture

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / 'docs/debug.md').read_text()

pytestmark = pytest.mark.timeout(300)


class Debugger:
    """As much of the Debug Adapter Protocol as attaching takes."""

    def __init__(self, port):
        self.place = {'host': '127.0.0.1', 'port': port}
        self.socket = socket.create_connection(('127.0.0.1', port), timeout=100)
        self.stream = self.socket.makefile('rb')
        self.number = 0

    def send(self, command, **arguments):
        self.number += 1
        text = json.dumps({'seq': self.number, 'type': 'request', 'command': command,
                           'arguments': arguments}).encode()
        self.socket.sendall(b'Content-Length: %d\r\n\r\n%s' % (len(text), text))

    def wait_for(self, kind, name):
        while True:
            size = 0
            while (line := self.stream.readline().strip()) or not size:
                size = int(line.partition(b':')[2]) if line.startswith(b'Content-L') else size
            message = json.loads(self.stream.read(size))
            if message['type'] == kind and message.get('event', message.get('command')) == name:
                return message

    def attach(self):
        self.send('initialize', adapterID='test')
        self.wait_for('response', 'initialize')
        self.send('attach', connect=self.place)
        self.wait_for('event', 'initialized')
        self.send('configurationDone')
        assert self.wait_for('response', 'attach')['success']


def free_base():
    """A port that is free, and the next one."""
    for base in range(20000, 30000, 2):
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(('127.0.0.1', base))
                other.bind(('127.0.0.1', base + 1))
                return base
            except OSError:
                continue
    raise AssertionError('no two free ports')


def test_a_debugger_attaches_to_each_rank(python, tmp_path):  # noqa: F811
    script = re.search(r'```python\n(import os\n\nimport debugpy\n.*?)```', PAGE, re.S)[1]
    base = free_base()
    (tmp_path / 'script.py').write_text(script.replace('5678', str(base)) + 'print("gone on")\n')
    with subprocess.Popen(
            [ROOT / '.venv/bin/reigen', 'run', '-np', '2', '--debug-rank', '0', '--', python,
             tmp_path / 'script.py'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            env={**os.environ, 'NO_COLOR': '1'}) as job:
        try:
            told = ''
            while len(ports := re.findall(r'rank (\d) listens on port (\d+)', told)) < 2:
                line = job.stdout.readline()
                assert line, told
                told += line
            assert sorted(ports) == [('0', str(base)), ('1', str(base + 1))]
            held = [Debugger(base), Debugger(base + 1)]
            for one in held:
                one.attach()
            assert job.stdout.read().count('gone on') == 2
            assert job.wait(100) == 0
        finally:
            job.terminate()


def test_the_launch_json_of_the_page_names_the_ports_of_its_ranks():
    page = json.loads(re.search(r'```json\n(.*?)```', PAGE, re.S)[1])
    assert {c['name']: c['connect']['port'] for c in page['configurations']} == {
        'rank 0': 5678, 'rank 1': 5679}
    assert page['compounds'][0]['configurations'] == ['rank 0', 'rank 1']
