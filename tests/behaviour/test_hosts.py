# SPDX-License-Identifier: Apache-2.0
"""Hosts through a program in the place of ssh, which can do what an sshd does not do on demand.
Each host is a home directory of its own. Real ones: tests/hosts."""
import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

from built import PROGRAMS, environment
from processes import assert_gone, children, mark, wait_count
from ranks import SLOWER, assert_rank_1_left_first, program
from wait import soon, until

# Called as ssh is: options, --, the host, the remote command.
FAKE = '''#!/bin/sh
while [ "$1" != -- ]; do shift; done
host=$2 command=$3
export HOME={folder}/home/$host LOGIN=$host
unset XDG_RUNTIME_DIR
mkdir -p "$HOME"
cd "$HOME" || exit
{before}
exec sh -c "$command"
'''


@pytest.fixture
def ssh(tmp_path):
    """ssh(before): a program that runs these lines of sh before the remote command."""
    def make(before=':', **more):
        path = tmp_path / 'fake-ssh'
        path.write_text(FAKE.format(folder=tmp_path, before=before))
        path.chmod(0o755)
        return environment(REIGEN_SSH=path, HOME=tmp_path, **more)
    return make


def test_hosts_are_asked_for_the_agent_once(ssh, reigen, tmp_path):
    env = ssh()
    for _ in range(2):
        done = reigen('run', '--no-tag-output', '-H', 'a:2,b:1', '--', 'sh', '-c',
                      'echo $RANK $LOGIN $LOCAL_RANK', env=env)
        assert sorted(done.stdout.splitlines()) == ['0 a 0', '1 a 1', '2 b 0'], done.stderr
    for host in 'ab':
        cache = tmp_path / 'home' / host / '.cache/reigen'
        # The Python packages are kept beside it.
        assert not [d.name for d in cache.iterdir() if not d.name.startswith(('agent-', 'bundle-'))]
        agent, = cache.glob('agent-*')
        assert sorted(f.name for f in agent.iterdir()) == ['reigen-agent', 'rsh', 'ssh']
        assert agent.stat().st_mode & 0o777 == 0o700
        assert (agent / 'reigen-agent').read_bytes() == PROGRAMS.agent.read_bytes()


def test_hosts_that_share_a_home_do_not_replace_each_others_agent(ssh, reigen, tmp_path):
    """A file server would take the pages of a replaced program from under those who run it."""
    env = ssh(f'export HOME={tmp_path}/shared; mkdir -p "$HOME"')
    hosts = ','.join(f'h{i}:1' for i in range(12))
    done = reigen('run', '--no-tag-output', '-H', hosts, '--', 'sh', '-c',
                  'readlink /proc/$PPID/exe', env=env)
    assert done.returncode == 0, done.stderr
    agent, = (tmp_path / 'shared/.cache/reigen').glob('agent-*')
    assert done.stdout.splitlines() == [f'{agent}/reigen-agent'] * 12


def test_no_more_than_64_connections_are_begun_at_once(ssh, reigen, tmp_path):
    hosts = ','.join(f'h{i}:1' for i in range(80))
    env = ssh(f'echo $$ >>{tmp_path}/started; while [ $(wc -l <{tmp_path}/started) -lt 64 ]; '
              f'do sleep 0.05; done; wc -l <{tmp_path}/started >>{tmp_path}/seen')
    done = reigen('run', '-H', hosts, '--', 'true', env=env, timeout=120)
    assert done.returncode == 0, done.stderr
    # 64 waited for each other; had more been begun with them, the first would have seen that
    assert int((tmp_path / 'seen').read_text().split()[0]) == 64


@pytest.mark.parametrize('said, means', [
    ('kex_exchange_identification: Connection closed by remote host', 'MaxStartups'),
    ('ssh: connect to host h port 22: Connection refused', 'no sshd listens'),
])
def test_what_an_sshd_drops_that_is_busy_or_starts_is_tried_again(ssh, reigen, said, means):
    env = ssh(f'echo x >>tries; if [ $(wc -l <tries) -lt 3 ]; then echo {said} >&2; exit 255; fi')
    done = reigen('run', '-v', '-v', '-H', 'a:1,b:1', '--', 'true', env=env)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count('trying again') == 4 and means in done.stderr


def test_one_that_stays_busy_is_named_when_the_time_is_over(ssh, reigen):
    """With the cause, also while a try is on its way, as the second one here is for ever."""
    env = ssh('[ -e tried ] && exec sleep 1000; touch tried; '
              'echo "Exceeded MaxStartups" >&2; exit 255')
    done = reigen('run', '--start-timeout', '2', '-H', 'a:1', '--', 'true', env=env)
    assert done.returncode == 124
    assert 'a (starting: trying again' in done.stderr and 'MaxStartups' in done.stderr, done.stderr


@pytest.mark.parametrize('before, code, says', [
    ('exit 3', 69, 'exit code 3'),
    ('echo sorry, no login; exit 1', 69, 'sorry, no login'),
    ('echo reigen-boot link; sleep 10', 69, 'a link before an agent was there'),
    ('echo reigen-boot dance; sleep 10', 69, 'another version of Reigen'),
    ('echo reigen-boot need agent m68k; sleep 10', 69, 'an agent that there is not'),
    ('echo reigen-boot need bundle; sleep 10', 69, 'bundle'),
    ('echo reigen-boot error 77 you may not; echo reigen-boot ready; exit 1', 77, 'you may not'),
    ('echo reigen-boot ready; echo reigen-boot ready; sleep 10', 69, 'ready twice'),
    ('mkdir bin; printf "#!/bin/sh\\necho sparc64\\n" >bin/uname; chmod 755 bin/uname; '
     'PATH=$PWD/bin:$PATH', 69, 'machine of the kind sparc64'),
])
def test_host_that_misbehaves_is_refused_with_the_cause(ssh, reigen, before, code, says):
    began = time.monotonic()
    done = reigen('run', '-H', 'a:1', '--', 'true', env=ssh(before), timeout=40)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert soon(began, 30)


@pytest.mark.parametrize('nbytes', [18,    # the agent has not answered yet
                                    60,    # keys are being agreed on
                                    130])  # the first message is on its way
def test_connection_that_breaks_at_any_time_is_told(ssh, reigen, nbytes):
    """The first of two hosts is well, the second says so many bytes and is gone."""
    assert reigen('run', '-H', 'b:1', '--', 'true', env=ssh()).returncode == 0
    env = ssh('[ $host = a ] || { exec 4>&1; sh -c "$command" | '
              f'{{ dd bs=1 count={nbytes} status=none >&4; echo it was cut >&2; kill -9 0; }}; }}')
    done = reigen('run', '-H', 'a:1,b:1', '--', 'true', env=env, timeout=40)
    assert done.returncode == 69, done.stderr
    assert 'host b' in done.stderr and 'host a' not in done.stderr
    assert 'it was cut' in done.stderr or 'the peer went away' in done.stderr, done.stderr


@pytest.mark.parametrize('before, code, says', [
    ('kill -9 $$', 69, 'ended before an agent was there: signal 9 (Killed)'),
    ('', 76, 'ended: signal 9 (Killed)')])
def test_an_ssh_client_that_is_killed_is_told_from_an_agent(ssh, start, before, code, says):
    word = mark()
    env = ssh(f'{before}\nsh -c "$command"; exit $?')
    child = start(PROGRAMS.reigen, 'run', '-H', 'b:1', '--', 'sh', '-c',
                  f'echo up; sleep 100; : {word}', env=env)
    if not before:
        assert 'up' in child.stdout.readline()
        client, = children(child.pid)
        os.kill(client, signal.SIGKILL)
    _, err = child.communicate(timeout=40)
    assert child.returncode == code, err
    assert re.search(r'host b: the ssh client that led to it \(process [0-9]+, '
                     r'on this computer\) ' + re.escape(says), err), err
    assert_gone(word)


def test_connection_that_breaks_while_the_agent_travels_is_told(ssh, reigen):
    env = ssh('head -c 100000 | sh -c "$command"; exit 255')
    done = reigen('run', '-H', 'b:1', '--', 'true', env=env, timeout=40)
    assert done.returncode == 69
    assert 'host b' in done.stderr and 'bytes came to' in done.stderr, done.stderr


def test_host_that_is_stuck_is_left_behind(ssh, reigen):
    word = mark()
    env = ssh(f'[ $host = a ] || exec sh -c "sleep 1000; : {word}"')
    done = reigen('run', '--start-timeout', '2', '-H', 'a:1,b:1', '--', 'true', env=env)
    assert done.returncode == 124 and 'b (starting: connecting by ssh' in done.stderr, done.stderr
    assert_gone(word)


def test_what_ssh_has_started_goes_with_it(ssh, reigen):
    """A proxy command, such as the ssh to a jump host that does not answer."""
    word = mark()
    env = ssh(f'sh -c "sleep 1000; : {word}" & wait')
    done = reigen('run', '--start-timeout', '2', '-H', 'a:1', '--', 'true', env=env)
    assert done.returncode == 124, done.stderr
    assert_gone(word)


def test_host_that_is_tried_again_gets_the_packages_again(ssh, reigen):
    env = ssh('echo x >>tries; echo reigen-boot ready; echo reigen-boot need bundle; '
              'if [ $(wc -l <tries) -lt 2 ]; then echo "Connection reset by peer" >&2; exit 255; '
              'fi; while read line && [ "$line" ]; do :; done; '
              'dd bs=1 count=6 status=none >begin; '
              'echo "reigen-boot error 77 it came again, $(wc -c <begin) bytes"; exit 1')
    done = reigen('run', '-H', 'a:1,b:1', '--image', 'any', '--', 'true', env=env)
    assert done.returncode == 77 and 'it came again, 6 bytes' in done.stderr, done.stderr


def test_our_packages_hide_no_command_of_the_host(ssh, reigen, tmp_path):
    """The job's folder is in PATH, and they are in it."""
    only = tmp_path / 'only'
    only.mkdir()
    for program in Path('/usr/bin').iterdir():
        if not program.name.startswith('python'):
            (only / program.name).symlink_to(program)
    (only / 'python3').symlink_to(shutil.which('python3'))
    env = ssh(f'PATH={only}')
    seen = reigen('run', '--no-tag-output', '-H', 'a:1', '--', 'sh', '-c',
                  'echo $PYTHONPATH; ls $REIGEN_JOB_DIR; command -v python', env=env)
    assert '/py-packages' in seen.stdout and 'python\n' not in seen.stdout, seen
    done = reigen('run', '-H', 'a:1', '--', 'python', 'train.py', env=env)
    assert done.returncode == 127 and 'rank 0 on a: cannot start python: not found in PATH, but ' \
        'python3 is there: say python3, or give the path' in done.stderr, done


def test_secret_is_not_in_the_environment_of_ssh(ssh, reigen, tmp_path):
    env = ssh(f'env >{tmp_path}/env', TOKEN='s3cret', OTHER='o')
    done = reigen('run', '--no-tag-output', '--share-env', 'TOKEN', '-H', 'a:1', '--', 'sh', '-c',
                  'echo $TOKEN', env=env)
    assert done.stdout == 's3cret\n', done.stderr
    text = (tmp_path / 'env').read_text()
    assert 's3cret' not in text and 'OTHER=o' in text


def test_interrupt_before_the_hosts_are_ready_ends_at_once(ssh, start):
    word = mark()
    env = ssh(f'exec sh -c "sleep 1000; : {word}"')
    job = start(PROGRAMS.reigen, 'run', '-H', 'a:1,b:1', '--', 'true', env=env)
    wait_count(word, 2)
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=20)
    assert job.returncode == 130
    assert_gone(word)


def test_ssh_ends_with_a_launcher_that_was_killed(ssh, start):
    word = mark()
    env = ssh()
    job = start(PROGRAMS.reigen, 'run', '-H', 'a:1,b:1', '--', 'sh', '-c',
                f'setsid sleep 1000 & sleep 1000; : {word}', env=env)
    wait_count(word, 3)  # the launcher, and two ranks
    job.kill()
    job.communicate(timeout=20)
    assert_gone(word)


def test_horovodrun_hands_on_the_environment(ssh, start, tmp_path):
    env = ssh(f'export MINE=login SHELL=/there; ps -o args= -p $$ >>{tmp_path}/args; '
              'unset CALLERS', CALLERS='yes', SHELL='/here', HOROVOD_CYCLE_TIME='2')
    key = tmp_path / 'key'
    key.write_text('x')
    job = start(PROGRAMS.reigen, 'horovodrun', '-np', '2', '-H', 'a:1,b:1', '-p', '2222', '-i', key,
                'sh', '-c', 'echo $CALLERS $MINE $SHELL $HOROVOD_CYCLE_TIME $LOGIN', env=env)
    out, err = job.communicate(timeout=60)
    assert job.returncode == 0, err
    lines = sorted(re.sub(r'^\[\d+\]<stdout>:', '', line) for line in out.splitlines())
    assert lines == ['yes login /there 2 a', 'yes login /there 2 b']
    for line in (tmp_path / 'args').read_text().splitlines():
        assert '-p2222' in line and f'-i{key}' in line and 'accept-new' in line


@pytest.mark.parametrize('how,code', [('exit', 3), ('exit', 0), ('return', 1), ('return', 0),
                                      ('signal', signal.SIGKILL)])
def test_who_left_first_is_named_though_its_host_is_heard_of_last(ssh, reigen, how, code):
    done = reigen('run', '-H', 'a:2,b:2', '--env', 'REIGEN_PLANES=tcp', '--', *program('leave'),
                  how, code, env=ssh(), timeout=60 * SLOWER)
    assert_rank_1_left_first(done, how, code)


def test_two_names_of_one_machine_are_told(ssh, reigen):
    """By what its agents say of it: names can't show that."""
    done = reigen('run', '-H', 'a:1,b:1,c:1', '--', 'true', env=ssh())
    assert done.returncode == 0, done.stderr
    assert done.stderr.count('are one machine') == 1, done.stderr
    assert re.search(r'([abc]) and [abc] are one machine, \S+, and count as two: .* Name it once, '
                     r'with all its slots: -H \1:N', done.stderr), done.stderr


def test_a_login_shell_that_keeps_still_is_told_long_before_it_is_given_up(ssh, start):
    env = ssh('[ $host = b ] && exec sleep 1000')
    child = start(PROGRAMS.reigen, 'run', '-H', 'a:1,b:1', '--', 'true', env=env)
    for line in child.stderr:
        if '~/.bashrc' in line:
            break
    assert re.search(r'1 of 2 hosts ready after \d+ s; b starting \(connecting by ssh, without a '
                     r'word from there: .* start file of its login shell waits', line), line


def test_a_job_is_starting_until_its_ranks_run(ssh, start, reigen, tmp_path):
    """In reigen jobs, status and top; and again when it is started again."""
    env = ssh(f'while [ -e {tmp_path}/closed ]; do sleep 0.05; done',
              XDG_STATE_HOME=tmp_path / 'state')

    def state():
        jobs = json.loads(reigen('jobs', '--json', env=env).stdout)
        return [job['state'] for job in jobs]

    (tmp_path / 'closed').touch()
    child = start(PROGRAMS.reigen, 'run', '--max-restarts', '1', '-H', 'a:1,b:1', '--', 'sh', '-c',
                  f'[ $REIGEN_RESTART = 1 ] && exec sleep 1000; while [ ! -e {tmp_path}/fail ]; do '
                  f'sleep 0.05; done; [ $RANK = 0 ] || exec sleep 1000; touch {tmp_path}/closed; '
                  'exit 3', env=env)
    until(lambda: state() == ['starting'], 'a job that starts', 60)
    ident = json.loads(reigen('jobs', '--json', env=env).stdout)[0]['id']
    assert reigen('status', env=env).stdout.startswith(f'job {ident}: starting for ')
    assert reigen('top', '-n', '1', env=env).stdout.startswith(f'job {ident}: starting for ')
    (tmp_path / 'closed').unlink()
    until(lambda: state() == ['running'], 'a job that runs', 60)
    (tmp_path / 'fail').touch()
    until(lambda: state() == ['starting'], 'a job that starts again', 60)
    (tmp_path / 'closed').unlink()
    until(lambda: state() == ['running'], 'a job that runs again', 60)
    child.terminate()
    child.wait(60)


def test_this_computer_under_two_names_is_told_to_count_twice(reigen):
    said = 'localhost and 127.0.0.1 are both this computer, which counts twice; name one of them, '
    done = reigen('run', '-H', 'localhost,127.0.0.1', '-np', 1, '--', 'true')
    assert done.returncode == 0 and said in done.stderr, done
    for hosts in ('localhost', 'localhost:1,127.0.0.1:1', 'localhost,127.0.0.1:1'):
        done = reigen('run', '-H', hosts, '-np', 1, '--', 'true')
        assert done.returncode == 0 and 'counts twice' not in done.stderr, done


def test_hosts_of_the_environment_that_a_job_leaves_alone_are_told(ssh, reigen):
    env = ssh(REIGEN_HOSTS='a:1,b:1')
    done = reigen('run', '-np', '1', '--', 'true', env=env)
    assert done.returncode == 0 and 'REIGEN_HOSTS is set, and this job does not use it: --on ssh ' \
        'runs it on the hosts that it names' in done.stderr, done
    for words in (['--on', 'ssh'], ['--on', 'local'], ['-H', 'localhost:1'], ['-q']):
        done = reigen('run', *words, '--', 'true', env=env)
        assert done.returncode == 0 and 'REIGEN_HOSTS' not in done.stderr, done
