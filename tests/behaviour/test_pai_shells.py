# SPDX-License-Identifier: Apache-2.0
"""What `reigen pai convert` puts in front of commands, run by real shells: the way in of the agent,
and the loop that waits for the other tasks. Hosts and agents are played."""
import functools
import hashlib
import http.server
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time

import pytest

from wait import soon

JOB = {'jobName': 'a', 'image': 'b', 'taskRoles': [
    {'name': 'master', 'minSucceededTaskCount': 1, 'command': 'sleep 1 && echo trained'},
    {'name': 'worker', 'taskNumber': 2, 'command': 'sleep infinity'}]}
SHELLS = [shell for shell in (['dash'], ['bash'], ['bash', '--posix'], ['busybox', 'sh'])
          if shutil.which(shell[0])]
AGENT = """#!/bin/sh
case $1 in
version) ;;
wait-workers) echo "waited by $0" ;;
*) exit 2 ;;
esac
"""
#: What the texts may use, of any image.
TOOLS = ('sh', 'date', 'printenv', 'tr', 'sort', 'wc', 'sleep', 'grep', 'cut', 'mktemp', 'chmod',
         'cp', 'rm', 'uname', 'mkdir', 'cat', 'true')


@pytest.fixture
def box(tmp_path):
    """A folder that is all of PATH: box(*more tools)."""
    counter = itertools.count()

    def make(*more):
        folder = tmp_path / f'bin{next(counter)}'
        folder.mkdir()
        for tool in TOOLS + more:
            path = sys.executable if tool == 'python3' else shutil.which(tool)
            (folder / tool).symlink_to(os.path.realpath(path))
        return folder
    return make


@pytest.fixture
def command(reigen, tmp_path):
    """command(*options): the master's command as it was converted."""
    def convert(*options):
        (tmp_path / 'job.json').write_text(json.dumps(JOB))
        done = reigen('pai', 'convert', '--to', 'v1', *options, 'job.json', cwd=tmp_path)
        assert done.returncode == 0, done
        return json.loads(done.stdout)['taskRoles'][0]['command']
    return convert


def run(shell, text, path, flags='', **env):
    """The text as API v1's script runs it, behind eval, in a shell of its own."""
    script = 'run() {\n  eval "$TEXT" || exit $?\n  exit 0\n}\nrun'
    return subprocess.run(
        [shutil.which(shell[0]), *shell[1:], *flags.split(), '-c', script], text=True, timeout=60,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
        env={'PATH': str(path), 'TEXT': text, 'HOME': str(path), **env})


def put(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


class Quiet(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):   # pylint: disable=invalid-name
        self.server.asked.append(self.path)
        super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    """A web server of what is in tmp_path/web; its .asked has the paths that were asked for."""
    (tmp_path / 'web').mkdir()
    handler = functools.partial(Quiet, directory=tmp_path / 'web')
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:
        server.asked = []
        server.url = f'http://127.0.0.1:{server.server_address[1]}'
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


# --- the agent's way in --------------------------------------------------------------------------

@pytest.mark.parametrize('shell', SHELLS, ids=' '.join)
def test_an_agent_at_a_path_is_run_and_a_missing_one_named(command, box, tmp_path, shell):
    agent = put(tmp_path / 'reigen-agent', AGENT)
    text = command('--agent-path', str(agent))
    done = run(shell, text, box(), '-eu')
    assert (done.returncode, done.stdout) == (0, f'waited by {agent}\ntrained\n'), done
    put(agent, '#!/nowhere/sh\n')
    done = run(shell, text, box())
    assert (done.returncode, done.stdout) == (127, '') and 'does not run here' in done.stderr
    agent.unlink()
    done = run(shell, text, box())
    assert (done.returncode, done.stdout) == (127, '')
    assert f'there is no {agent}' in done.stderr and '--agent-path' in done.stderr


#: busybox has a wget of its own, whatever is in PATH.
@pytest.mark.parametrize('shell, tool', [
    (shell, tool) for shell in SHELLS for tool in ('curl', 'wget', 'python3')
    if shell[0] != 'busybox' or tool != 'python3'], ids=lambda x: x if isinstance(x, str) else
                         ' '.join(x))
def test_an_agent_is_fetched_by_what_the_image_has(command, box, tmp_path, server, shell, tool):
    put(tmp_path / 'web/agent', AGENT)
    digest = hashlib.sha256(AGENT.encode()).hexdigest()
    text = command('--agent-url', f'{server.url}/agent#sha256={digest}')
    (tmp_path / 'tmp').mkdir()
    # python3 computes the digest as well, where there is no sha256sum.
    tools = ('python3',) if tool == 'python3' else (tool, 'sha256sum', 'timeout')
    done = run(shell, text, box(*tools), '-eu', TMPDIR=str(tmp_path / 'tmp'))
    assert done.returncode == 0 and done.stdout.endswith('\ntrained\n'), done
    agent, = (tmp_path / 'tmp').glob('reigen.*/reigen-agent')
    assert done.stdout.startswith(f'waited by {agent}')
    assert agent.parent.stat().st_mode & 0o777 == 0o700 and server.asked == ['/agent']


@pytest.mark.parametrize('shell', SHELLS, ids=' '.join)
def test_an_agent_that_is_another_one_is_not_run(command, box, tmp_path, server, shell):
    put(tmp_path / 'web/agent', AGENT)
    text = command('--agent-url', f'{server.url}/agent#sha256={"0" * 64}')
    (tmp_path / 'tmp').mkdir()
    done = run(shell, text, box('curl', 'sha256sum'), TMPDIR=str(tmp_path / 'tmp'))
    assert (done.returncode, done.stdout) == (69, '') and 'has the sha256' in done.stderr, done
    assert list((tmp_path / 'tmp').iterdir()) == []
    if shell[0] != 'busybox':
        done = run(shell, text, box('sha256sum'), TMPDIR=str(tmp_path / 'tmp'))
        assert done.returncode == 69 and 'curl, wget or python3' in done.stderr, done
    missing = command('--agent-url', f'{server.url}/none#sha256={"0" * 64}')
    server.asked.clear()
    path = box('curl', 'sha256sum')
    (path / 'sleep').unlink()
    put(path / 'sleep', '#!/bin/sh\n')
    done = run(shell, missing, path, TMPDIR=str(tmp_path / 'tmp'))
    assert done.returncode == 69 and 'cannot be fetched' in done.stderr, done
    assert server.asked == ['/none'] * 3 and list((tmp_path / 'tmp').iterdir()) == []


@pytest.mark.parametrize('shell', [s for s in SHELLS if s[0] != 'busybox'], ids=' '.join)
@pytest.mark.parametrize('tool', ['curl', 'wget'])
def test_a_tool_that_fails_is_not_taken_for_a_missing_one(command, box, tmp_path, shell, tool):
    text = command('--agent-url', f'http://[::1]:1/a[b]#sha256={"0" * 64}')
    (tmp_path / 'tmp').mkdir()
    path = box('sha256sum')
    put(path / tool, f'#!/bin/sh\necho "$*" >>{path}/asked\nexit 3\n')
    (path / 'sleep').unlink()
    put(path / 'sleep', '#!/bin/sh\n')
    done = run(shell, text, path, TMPDIR=str(tmp_path / 'tmp'))
    assert done.returncode == 69 and 'cannot be fetched (code 3 after 3' in done.stderr, done
    asked = (path / 'asked').read_text().splitlines()
    assert len(asked) == 3 and (tool == 'wget' or all(line.startswith('-g') for line in asked))


def test_the_agent_of_the_image_is_taken_where_it_is_the_same(command, box, tmp_path, server):
    put(tmp_path / 'web/agent', AGENT)
    digest = hashlib.sha256(AGENT.encode()).hexdigest()
    path = box('sha256sum')
    put(path / 'reigen-agent', AGENT)
    done = run(['sh'], command('--agent-url', f'{server.url}/agent#sha256={digest}'), path)
    assert done.stdout == f'waited by {path}/reigen-agent\ntrained\n' and server.asked == []


# --- the loop ------------------------------------------------------------------------------------

def tasks(*ports):
    """The variables of master-0, with the workers' ports of ssh."""
    env = {'PAI_TASK_ROLE_LIST': 'master,worker', 'PAI_TASK_ROLE_TASK_COUNT_master': '1',
           'PAI_TASK_ROLE_TASK_COUNT_worker': str(len(ports)), 'PAI_HOST_IP_master_0': '127.0.0.1',
           'PAI_CURRENT_TASK_ROLE_NAME': 'master', 'PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX': '0'}
    for i, port in enumerate(ports):
        env |= {f'PAI_HOST_IP_worker_{i}': '127.0.0.1', f'PAI_PORT_LIST_worker_{i}_ssh': str(port)}
    return env


@pytest.fixture
def sockets():
    """Three sockets with ports of their own, none of which listens yet."""
    made = [socket.socket() for _ in range(3)]
    for one in made:
        one.bind(('127.0.0.1', 0))
    yield made
    for one in made:
        one.close()


@pytest.mark.parametrize('shell', SHELLS, ids=' '.join)
def test_the_loop_ends_when_the_last_port_answers(command, box, sockets, shell):
    text = command()
    sockets[0].listen()
    timer = threading.Timer(2, sockets[1].listen)
    timer.start()
    began = time.monotonic()
    ports = [one.getsockname()[1] for one in sockets[:2]]
    done = run(shell, text, box('bash', 'timeout'), '-eu', **tasks(*ports))
    timer.join()
    assert (done.returncode, done.stdout) == (0, 'trained\n'), done
    assert time.monotonic() > began + 1.9 and soon(began, 15)
    assert 'waiting for worker-1' in done.stderr and 'worker-0' not in done.stderr


@pytest.mark.parametrize('shell', SHELLS, ids=' '.join)
def test_the_loop_names_who_never_comes(command, box, sockets, shell):
    text = command().replace('reigen_wait_s=300', 'reigen_wait_s=2')
    sockets[1].listen()
    ports = [one.getsockname()[1] for one in sockets]
    done = run(shell, text, box('python3'), **tasks(*ports))
    assert (done.returncode, done.stdout) == (124, ''), done
    assert 'no answer within 2 s from worker-0 worker-2:' in done.stderr
    done = run(shell, text, box())
    assert done.returncode == 69 and 'PAI_TASK_ROLE_LIST is not set' in done.stderr


@pytest.mark.parametrize('shell', SHELLS, ids=' '.join)
def test_the_loop_asks_by_ssh_where_the_platform_has_told_it_the_names(command, box, shell):
    path = box('timeout')
    put(path / 'ssh', f'#!/bin/sh\necho "$*" >>{path}/asked\n[ -e {path}/up ]\n')
    (path / '.ssh').mkdir()
    (path / '.ssh/config').write_text('Host worker-0\n  Port 1\nHost worker-1\n  Port 1\n')
    timer = threading.Timer(1.5, (path / 'up').touch)
    timer.start()
    done = run(shell, command(), path, **tasks(1, 1))
    timer.join()
    assert (done.returncode, done.stdout) == (0, 'trained\n'), done
    asked = (path / 'asked').read_text().splitlines()
    assert {line.split()[-2] for line in asked} == {'worker-0', 'worker-1'}
    assert all('BatchMode=yes' in line and 'ConnectTimeout=5' in line for line in asked)


def test_the_loop_reads_the_older_names_of_variables(command, box, sockets):
    sockets[0].listen()
    port = sockets[0].getsockname()[1]
    env = {'PAI_JOB_TASK_ROLE_LIST': 'master,worker',
           'PAI_TASK_ROLE_master_HOST_LIST': '127.0.0.1:1',
           'PAI_TASK_ROLE_worker_HOST_LIST': '127.0.0.1:1', 'PAI_TASK_ROLE_NAME': 'master',
           'PAI_TASK_ROLE_INDEX': '0', 'PAI_HOST_IP_worker_0': '127.0.0.1',
           'PAI_PORT_LIST_worker_0_ssh': str(port)}
    done = run(['bash'], command(), box('bash'), **env)
    assert (done.returncode, done.stdout, done.stderr) == (0, 'trained\n', ''), done
