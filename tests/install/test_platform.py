# SPDX-License-Identifier: Apache-2.0
"""A new platform is one folder, and a line for each of its drivers (docs/drivers.md): toy/ is put
into a copy of the sources, which is built then."""
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from clones import copy_source
from wait import until

ROOT = Path(__file__).resolve().parents[2]
LINES = ('RG_DRIVER(toy, rg_driver_toy, IN_LAUNCHER)\n'
         'RG_DRIVER(toy, rg_driver_toy_calls, IN_BOTH)\n')
RANK = ('sh', '-c', 'echo $REIGEN_RANK $TOY $REIGEN_HOSTNAME')


def run(*argv, **kwargs):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=240,
                          check=False, stdin=subprocess.DEVNULL, **kwargs)


class Toys:
    """The programs of a tree that has the toy, and how to run them."""

    def __init__(self, folder):
        self.folder, self.tree = folder, copy_source(folder / 'tree')
        shutil.copytree(ROOT / 'tests/install/toy', self.tree / 'src/platform/toy')
        with open(self.tree / 'src/platform/table.inc', 'a', encoding='ascii') as table:
            table.write(LINES)
        programs = self.tree / 'build/src/programs'
        self.agent, self.reigen = programs / 'agent/reigen-agent', programs / 'reigen'
        for command in [('meson', 'setup', 'build', '-Dtests=disabled'),
                        ('ninja', '-C', 'build', *(p.relative_to(self.tree / 'build')
                                                   for p in (self.agent, self.reigen)))]:
            done = run(*command, cwd=self.tree)
            assert done.returncode == 0, done.stdout + done.stderr
        (folder / 'hosts').write_text('alpha\nbeta slots=2\n')
        self.env = {**os.environ, 'REIGEN_AGENT': str(self.agent),
                    'XDG_STATE_HOME': str(folder / 'state')}

    def run(self, *words, **env):
        return run(self.reigen, 'run', *words, cwd=self.folder, env={**self.env, **env})

    def run_on_toys(self, start, *words):
        return self.run('--on', 'toy', '--toy-hosts', 'hosts', '--toy-start', start, *words)


@pytest.fixture(scope='module')
def toys(tmp_path_factory):
    return Toys(tmp_path_factory.mktemp('toys'))


def test_nothing_else_has_to_know_of_it(toys):
    code = 'import folders; print("\\n".join(folders.problems()))'
    done = run(sys.executable, '-c', code, cwd=toys.tree / 'tests/lint')
    assert (done.stdout.strip(), done.stderr) == ('', '')


def test_a_command_of_the_users_starts_its_agents(toys):
    done = toys.run_on_toys('env TOY={host}', '--', *RANK)
    assert (done.returncode, done.stderr) == (0, ''), done
    assert sorted(done.stdout.splitlines()) == ['[0] 0 alpha alpha', '[1] 1 beta beta',
                                                '[2] 2 beta beta']
    done = toys.run_on_toys('env', '--', 'sh', '-c', 'exit $((REIGEN_RANK == 2 ? 7 : 0))')
    assert done.returncode == 7 and 'rank 2 on beta failed first: exit code 7' in done.stderr, done
    done = toys.run_on_toys('sh -c "echo no such place >&2; exit 3" {host}', '--', 'true')
    assert done.returncode == 69 and 'ended: exit code 3: no such place' in done.stderr, done
    done = toys.run_on_toys('no-such-program', '--', 'true')
    assert done.returncode == 69 and 'cannot start no-such-program: not found' in done.stderr, done


def test_help_completion_and_rules_have_its_options(toys):
    said = run(toys.reigen, 'run', '--help', 'all').stdout
    assert 'or toy-calls, toys that call' in ' '.join(said.split()) and '--toy-hosts FILE' in said
    assert 'toy-calls' in run(toys.reigen, 'completion', 'bash').stdout
    done = toys.run('--on', 'local', '--toy-hosts', 'hosts', '--', 'true')
    assert done.returncode == 2 and '--toy-hosts is for the toy; say --on toy' in done.stderr, done


def test_its_hosts_may_call_by_themselves(toys):
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        head = f'127.0.0.1:{free.getsockname()[1]}'
    (toys.folder / 'key').write_text('5a' * 32)
    env = {'TOY_HEAD': head, 'TOY_KEY': str(toys.folder / 'key')}
    with open(toys.folder / 'pod', 'w', encoding='utf-8') as log, \
            subprocess.Popen([toys.agent, 'pod'], env={**toys.env, **env, 'TOY_NAME': 'alpha'},
                             stdin=subprocess.DEVNULL, stderr=log) as pod:
        try:
            done = toys.run('--on', 'toy-calls', '-H', 'localhost,alpha', '--', *RANK, **env)
            assert (done.returncode, done.stderr) == (0, ''), done
            assert sorted(done.stdout.splitlines()) == ['[0] 0 localhost', '[1] 1 alpha']
            until(lambda: 'waits for a job of the head at' in (toys.folder / 'pod').read_text(),
                  'the host to wait for the next job')
        finally:
            pod.terminate()
    assert pod.returncode == 75
    done = run(toys.agent, 'pod', env=toys.env)
    assert 'REIGEN_POD_SERVICE is not set' in done.stderr, 'the first platform says what is missing'
