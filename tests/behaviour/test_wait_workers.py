# SPDX-License-Identifier: Apache-2.0
"""`reigen wait-workers`: in OpenPAI's tasks and on any hosts, by calls and by ssh."""
import os
import pty
import re
import signal
import socket
import subprocess
import time

import pytest

from built import PROGRAMS, environment
from processes import children, name, state, wait_for
from ranks import SLOWER, free_port
from tasks import KEY
from wait import soon

WAIT = f'{PROGRAMS.reigen} wait-workers'
SSH = '''#!/bin/sh
# Of a host that is up when its file is there.
while [ $# -gt 2 ]; do shift; done
echo "$1 $2" >>"$HOSTS/asked"
[ -e "$HOSTS/$1" ] && exit 0
echo "ssh: connect to host $1 port 22: Connection refused" >&2
exit 255
'''


@pytest.fixture
def ssh(tmp_path):
    """The variables with which `ssh` is a program that knows who is up."""
    (tmp_path / 'bin').mkdir()
    (tmp_path / 'bin/ssh').write_text(SSH)
    (tmp_path / 'bin/ssh').chmod(0o755)
    return {'PATH': f'{tmp_path}/bin:{os.environ["PATH"]}', 'HOSTS': str(tmp_path)}


def keepers():
    return [int(p) for p in os.listdir('/proc') if p.isdigit() and name(int(p)) == 'rg-keeper' and
            state(int(p)) not in 'ZX']


@pytest.mark.sanitize
@pytest.mark.parametrize('generation', ('v1', 'v2', 'old'))
def test_a_master_goes_on_when_all_have_called_and_workers_end_with_it(pai, generation):
    """In any order, within 2 s of the last one."""
    pai.use({'master': (1, 0), 'worker': (2, 0)}, generation)
    first = pai.wait_workers('worker-1')
    head = pai.start('master-0', 'sh', '-c', f'{WAIT} --no-ssh && echo all are there && sleep 2; '
                     'echo over')
    head.saw('worker-1 is ready, 1 of 2')
    assert 'all are there' not in head.out
    last, began = pai.wait_workers('worker-0'), time.monotonic()
    head.saw('all are there')
    assert soon(began, 2 * SLOWER)
    time.sleep(0.5)  # patient: they must not end
    assert first.child.poll() is None and last.child.poll() is None
    assert [task.wait() for task in (head, first, last)] == [0, 0, 0], head.out
    assert 'over' in head.out and first.out == last.out == ''


@pytest.mark.sanitize
def test_workers_do_the_jobs_of_the_master_s_reigen_run_meanwhile(pai):
    pai.use({'master': (1, 0), 'worker': (2, 0)})
    run = f'{PROGRAMS.reigen} run --no-inject-runtime'
    head = pai.start('master-0', 'sh', '-c', f'{WAIT} --no-ssh -q && {run} -- sh -c '
                     f"'echo at $PAI_CURRENT_TASK_ROLE_NAME' && {run} --engine script -- sh -c "
                     "'$REIGEN_RSH worker-1 echo by rsh'; exit 5")
    workers = [pai.wait_workers(f'worker-{i}') for i in range(2)]
    assert head.wait() == 5, head.out
    assert [head.out.count(f'] at {role}') for role in ('master', 'worker')] == [1, 2], head.out
    assert 'by rsh' in head.out
    assert [worker.wait() for worker in workers] == [0, 0], [worker.out for worker in workers]


def test_the_agent_alone_does_the_same(pai):
    head = pai.start('master-0', 'sh', '-c', f'{PROGRAMS.agent} wait-workers --no-ssh && echo go')
    worker = pai.start('worker-0', PROGRAMS.agent, 'pod')
    assert (head.wait(), worker.wait()) == (0, 0) and 'go' in head.out, head.out


@pytest.mark.sanitize
def test_who_never_comes_is_named_in_time(pai):
    pai.use({'master': (1, 0), 'worker': (3, 0)})
    began = time.monotonic()
    head = pai.wait_workers('master-0', '--no-ssh', '--start-timeout', '2')
    worker = pai.wait_workers('worker-1')
    stranger = pai.wait_workers('worker-2', '--start-timeout', '3',
                                REIGEN_KEY='f' * 64)
    assert head.wait() == 124, head.out
    assert soon(began, 4 * SLOWER)
    assert 'not ready within 2 s (--start-timeout): worker-0 (it has not called yet), ' \
        'worker-2 (it has called with another key); does the worker run' in head.out, head.out
    assert 'worker-1 (' not in head.out
    assert worker.wait() == stranger.wait() == 124, worker.out
    assert "the head's wait has ended before all hosts were there" in worker.out
    assert 'the head, which is the task master-0, has not answered within 3 s' in stranger.out
    assert 'it has another key' in stranger.out and 'another key' not in worker.out


def test_a_worker_that_is_gone_again_is_not_ready_and_may_come_anew(pai):
    pai.use({'master': (1, 0), 'worker': (2, 0)})
    head = pai.start('master-0', 'sh', '-c', f'{WAIT} --no-ssh && echo go')
    worker = pai.wait_workers('worker-0')
    head.saw('worker-0 is ready, 1 of 2')
    worker.signal(signal.SIGKILL)
    worker.wait()
    time.sleep(0.2)  # patient: the head hears of it first, most often
    other = pai.wait_workers('worker-1')
    head.saw('worker-1 is ready, 1 of 2')
    again = pai.wait_workers('worker-0')
    assert [task.wait() for task in (head, other, again)] == [0, 0, 0], head.out


def test_with_a_head_that_is_killed_the_workers_end_and_no_keeper_stays(pai):
    before = set(keepers())
    head = pai.start('master-0', 'sh', '-c', f'{WAIT} --no-ssh && echo go && sleep 300; exit')
    worker = pai.wait_workers('worker-0')
    head.saw('go')
    own = wait_for(lambda: set(keepers()) - before, 'a keeper')
    head.signal(signal.SIGKILL)
    assert worker.wait() == 0, worker.out
    wait_for(lambda: not set(keepers()) & own, 'the end of the keeper')
    # Before all are there, it is the worker who gives up.
    pai.use({'master': (1, 0), 'worker': (2, 0)})
    head = pai.wait_workers('master-0', '--no-ssh')
    worker = pai.wait_workers('worker-0', '--start-timeout', '2')
    head.saw('worker-0 is ready')
    head.signal(signal.SIGKILL)
    assert worker.wait() == 124, worker.out


@pytest.mark.parametrize('signo', [signal.SIGTERM, signal.SIGINT])
def test_a_worker_ends_with_a_wait_that_is_stopped(pai, signo):
    """Long before its own limit of 300 s."""
    pai.use({'master': (1, 0), 'worker': (2, 0)})
    head = pai.wait_workers('master-0', '--no-ssh')
    worker = pai.wait_workers('worker-0')
    head.saw('worker-0 is ready, 1 of 2')
    head.signal(signo)
    assert head.wait() == -signo, head.out
    assert worker.wait(60) == 124 and "the head's wait has ended before" in worker.out, worker.out


def test_a_worker_of_a_killed_wait_waits_a_little_for_the_next_one(pai):
    pai.use({'master': (1, 0), 'worker': (2, 0)})
    head = pai.wait_workers('master-0', '--no-ssh')
    worker = pai.wait_workers('worker-0')
    head.saw('worker-0 is ready, 1 of 2')
    head.signal(signal.SIGKILL)
    head.wait()
    again = pai.start('master-0', 'sh', '-c', f'{WAIT} --no-ssh --hosts worker-0 && echo go')
    assert (again.wait(), worker.wait(60)) == (0, 0), (again.out, worker.out)
    # Where there is none, it ends as well.
    head = pai.wait_workers('master-0', '--no-ssh')
    worker = pai.wait_workers('worker-0')
    head.saw('worker-0 is ready, 1 of 2')
    head.signal(signal.SIGKILL)
    assert worker.wait(60) == 124 and 'no other one has begun' in worker.out, worker.out


def test_a_worker_that_is_told_to_stop_ends_at_once(pai):
    head = pai.start('master-0', 'sh', '-c', f'{WAIT} --no-ssh && echo go && sleep 300; exit')
    worker = pai.wait_workers('worker-0')
    head.saw('go')
    worker.signal(signal.SIGTERM)
    assert worker.wait(5) == 75, worker.out


def test_a_second_wait_that_fails_takes_nothing_from_the_first_one(pai):
    """The workers still end with the head's task."""
    head = pai.start('master-0', 'sh', '-c', f'{WAIT} --no-ssh && echo go && '
                     f'{WAIT} --no-ssh --hosts worker-0,nobody --start-timeout 2; echo $?; sleep 1')
    worker = pai.wait_workers('worker-0')
    assert head.wait() == 0 and '\n124\n' in head.out, head.out
    assert worker.wait(10) == 0, worker.out


@pytest.mark.sanitize
def test_a_worker_s_own_processes_outlive_the_jobs(pai):
    """But not what a job has left behind."""
    head = pai.start('master-0', 'sh', '-c', f'{WAIT} --no-ssh -q && {PROGRAMS.reigen} run '
                     '--no-inject-runtime -H worker-0:1 -- sh -c "sleep 301 & echo left \\$!" && '
                     'sleep 300; exit')
    worker = pai.start('worker-0', 'sh', '-c', f'sleep 302 & echo mine $!; exec {WAIT}')
    worker.saw('mine')
    head.saw(r'left \d+')
    own, left = (int(re.search(word + r' (\d+)', task.out)[1])
                 for word, task in (('mine', worker), ('left', head)))
    wait_for(lambda: not os.path.exists(f'/proc/{left}') or state(left) in 'ZX', 'its end')
    time.sleep(0.5)  # patient: it must not end
    assert state(own) == 'S'


def test_the_keeper_holds_no_pipe_of_the_script(pai):
    head = pai.start('master-0', 'bash', '-c', f'{{ {WAIT} --no-ssh 3>&1 >/dev/null 2>&1 | cat; '
                     '} && echo on; sleep 2; exit')
    worker = pai.wait_workers('worker-0')
    head.saw('on')
    assert (head.wait(), worker.wait()) == (0, 0), (head.out, worker.out)


def test_nobody_waits_on_for_a_script_that_was_killed(pai):
    pai.use({'master': (1, 0), 'worker': (2, 0)})
    before = set(keepers())
    head = pai.start('master-0', 'sh', '-c', f'{WAIT} --no-ssh; exit')
    pai.wait_workers('worker-0')
    head.saw('worker-0 is ready, 1 of 2')
    own = children(head.pid)
    os.kill(head.pid, signal.SIGKILL)
    wait_for(lambda: not any(os.path.exists(f'/proc/{pid}') and state(pid) not in 'ZX'
                             for pid in own), 'its end')
    assert 'who has started it is gone' in head.out
    wait_for(lambda: set(keepers()) <= before, 'the end of its keepers')


# --- ssh ----------------------------------------------------------------------------------------

def test_with_ssh_a_worker_is_ready_when_ssh_works(pai, ssh, tmp_path):
    """Which is the default in OpenPAI, where all tasks have a port for it."""
    pai.use({'master': (1, 0), 'worker': (2, 0)})
    (tmp_path / 'worker-1').touch()
    head = pai.wait_workers('master-0', **ssh, REIGEN_KEY=None)
    head.saw('worker-1 is ready, 1 of 2')
    assert head.child.poll() is None
    (tmp_path / 'worker-0').touch()
    assert head.wait() == 0, head.out
    assert {'worker-0 true', 'worker-1 true'} == set((tmp_path / 'asked').read_text().splitlines())


def test_with_ssh_who_does_not_answer_is_named_with_ssh_s_own_words(start, ssh, tmp_path):
    (tmp_path / 'a').touch()
    (tmp_path / 'hosts').write_text('a slots=2\nb slots=2\nc slots=2\n')
    began = time.monotonic()
    child = start(PROGRAMS.reigen, 'wait-workers', '--hostfile', tmp_path / 'hosts',
                  '--start-timeout', '1', env=environment(**ssh))
    _, err = child.communicate(timeout=60)
    assert child.returncode == 124, err
    assert soon(began, 3 * SLOWER)
    assert 'b (ssh: connect to host b port 22: Connection refused), c (ssh:' in err, err
    assert 'a is ready, 1 of 3' in err and 'a (' not in err
    assert not children(child.pid)


def test_workers_that_call_end_with_a_head_that_waits_by_ssh(pai, ssh, tmp_path):
    head = pai.start('master-0', 'sh', '-c', f'{WAIT} --ssh && echo go && sleep 1; exit', **ssh)
    worker = pai.wait_workers('worker-0')
    time.sleep(0.5)  # patient: it must not be ready
    assert 'ready' not in head.out
    (tmp_path / 'worker-0').touch()
    assert (head.wait(), worker.wait()) == (0, 0), (head.out, worker.out)


def test_with_ssh_a_port_that_is_taken_is_told_once_and_a_bad_key_refused(pai, ssh, tmp_path):
    (tmp_path / 'worker-0').touch()
    with socket.create_server(('', pai.ports['master', 0])):
        head = pai.wait_workers('master-0', '--ssh', **ssh)
        assert head.wait() == 0, head.out
    assert head.out.count('cannot be listened on') == 1, head.out
    assert 'workers that run wait-workers will not be heard' in head.out
    head = pai.wait_workers('master-0', '--ssh', **(ssh | {'REIGEN_KEY': 'too short'}))
    assert head.wait() == 2 and 'REIGEN_KEY: a key is' in head.out, head.out


def test_the_last_line_of_an_ssh_that_says_much_is_the_cause(start, ssh, tmp_path):
    (tmp_path / 'bin/ssh').write_text('#!/bin/sh\nhead -c 200000 /dev/zero | tr "\\0" x >&2\n'
                                      'printf "\\nbell \\007 and why\\r\\n\\r\\n" >&2; exit 255\n')
    child = start(PROGRAMS.reigen, 'wait-workers', '--hosts', 'a', '--start-timeout', '3',
                  env=environment(**ssh))
    _, err = child.communicate(timeout=60)
    assert child.returncode == 124 and 'a (bell \\x07 and why)' in err, err


def test_the_users_of_hosts_are_ssh_s(start, ssh, tmp_path):
    (tmp_path / 'bin/ssh').write_text('#!/bin/sh\necho "$@" >"$HOSTS/asked"\n')
    child = start(PROGRAMS.reigen, 'wait-workers', '--hosts', 'bob@a', env=environment(**ssh))
    assert child.wait(60) == 0
    assert (tmp_path / 'asked').read_text().endswith(' -l bob a true\n')


# --- anywhere -----------------------------------------------------------------------------------

def test_on_any_hosts_workers_call_the_head_that_they_are_told_of(start, tmp_path):
    port = free_port()
    (tmp_path / 'key').write_text(KEY + '\n')
    env = environment(REIGEN_KEY_FILE=tmp_path / 'key')
    head = start('sh', '-c', f'{WAIT} --no-ssh --hosts a.example,b --port {port} && sleep 1; exit',
                 env=env)
    workers = [start(PROGRAMS.reigen, 'wait-workers', '--head', to, '--name', called, '--port',
                     port, env=env)
               for to, called in (('127.0.0.1', 'a'), (f'127.0.0.1:{port}', 'b'))]
    assert [child.wait(60) for child in (head, *workers)] == [0, 0, 0]
    assert re.search(r'(a.example|b) is ready, 2 of 2', head.stderr.read())


def test_a_terminal_has_a_line_for_each_host(ssh, tmp_path):
    (tmp_path / 'a').touch()
    master, slave = pty.openpty()
    child = subprocess.Popen([PROGRAMS.reigen, 'wait-workers', '--hosts', 'a,b', '--ssh',
                              '--start-timeout', '20'], env=environment(**ssh, TERM='xterm'),
                             stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
    os.close(slave)
    seen = b''
    while b'b: ssh: connect' not in seen or b'a: ready' not in seen:
        seen += os.read(master, 4096)
    (tmp_path / 'b').touch()
    while b'b: ready' not in seen:
        seen += os.read(master, 4096)
    assert child.wait(60) == 0
    assert b'\x1b[2A' in seen
    os.close(master)


@pytest.mark.parametrize('words, env, code, said', [
    ([], {}, 2, 'whom to wait for? --hosts or --hostfile'),
    (['--ssh', '--no-ssh', '--hosts', 'a'], {}, 2, '--ssh and --no-ssh'),
    (['--hosts', 'a,,b'], {}, 2, '--hosts'),
    (['--hostfile', '/none'], {}, 2, '/none'),
    (['--no-ssh', '--hosts', 'a'], {'REIGEN_KEY': None}, 2, 'set REIGEN_KEY'),
    (['--no-ssh', '--hosts', 'a'], {'REIGEN_KEY': 'too short'}, 2, 'REIGEN_KEY: a key is 64 hex'),
    (['--no-ssh', '--hosts', 'a'], {'REIGEN_KEY': 'too short for it, but of 16 letters'}, 2,
     '`openssl rand -hex 32`'),
    (['--no-ssh', '--hosts', 'a'], {'REIGEN_KEY': None}, 2, '`openssl rand -hex 32`'),
    (['--no-ssh', '--hosts', 'a', '--port', '0'], {}, 2, '--port 0'),
    (['--start-timeout', 'soon', '--hosts', 'a'], {}, 2, 'soon'),
    (['--head', 'no.such.host.invalid', '--start-timeout', '1'], {}, 124,
     '--head no.such.host.invalid'),
    (['--head', '127.0.0.1:99999'], {}, 2, '99999 is no port'),
    (['--head', '127.0.0.1', '--name', 'n' * 101], {}, 2, '--name: 100 characters at most'),
    (['--head', '127.0.0.1', '--hosts', 'b'], {}, 2, '--head and --ssh, --hosts or --hostfile'),
    (['--hosts', 'a', '--name', 'b'], {}, 2, '--name: only with --head'),
    (['--port', '4711'], {'PAI_CURRENT_TASK_ROLE_NAME': 'worker'}, 2,
     '--port: in OpenPAI set REIGEN_POD_PORT in all tasks'),
    (['--head', '127.0.0.1', '--start-timeout', '1'], {'REIGEN_POD_PORT': '1'}, 124,
     'has not answered within 1 s (--start-timeout): 127.0.0.1:1 (Connection refused)'),
    (['--hots', 'a'], {}, 2, 'did you mean --hosts'),
    (['worker-0'], {}, 2, 'worker-0'),
])
def test_what_is_missing_or_wrong_is_named(start, words, env, code, said):
    env = {k: v for k, v in (environment() | {'REIGEN_KEY': KEY} | env).items() if v is not None}
    child = start(PROGRAMS.reigen, 'wait-workers', *words, env=env)
    _, err = child.communicate(timeout=60)
    assert child.returncode == code and said in err, err
    assert 'too short' not in err


def test_a_list_of_heads_that_is_too_long_is_refused_and_not_cut(start):
    child = start(PROGRAMS.agent, 'wait-workers', '--head', ','.join(['127.0.0.1:70'] * 10),
                  env=environment(REIGEN_KEY=KEY))
    _, err = child.communicate(timeout=60)
    assert child.returncode == 2 and '--head: 119 characters at most' in err, err


def test_a_host_that_calls_by_an_unknown_name_is_named(start):
    port, env = free_port(), environment(REIGEN_KEY=KEY)
    head = start(PROGRAMS.reigen, 'wait-workers', '--no-ssh', '--hosts', 'a', '--port', port,
                 '--start-timeout', '3', env=env)
    start(PROGRAMS.reigen, 'wait-workers', '--head', f'127.0.0.1:{port}', '--name', 'b',
          '--start-timeout', '4', env=env)
    _, err = head.communicate(timeout=60)
    assert head.returncode == 124 and 'a host that calls itself b has called: --name' in err, err


def test_a_port_that_is_taken_is_told(start):
    with socket.create_server(('', 0)) as server:
        port = server.getsockname()[1]
        child = start(PROGRAMS.reigen, 'wait-workers', '--no-ssh', '--hosts', 'a', '--port', port,
                      env=environment(REIGEN_KEY=KEY))
        _, err = child.communicate(timeout=60)
        assert child.returncode == 69 and f'port {port} cannot be listened on' in err, err


def test_who_waits_for_nobody_else_goes_on_at_once(start):
    child = start(PROGRAMS.reigen, 'wait-workers', '--no-ssh', '--hosts', 'localhost', '--port',
                  free_port(), env=environment(REIGEN_KEY=KEY))
    assert child.wait(60) == 0
