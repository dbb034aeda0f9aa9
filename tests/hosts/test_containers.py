# SPDX-License-Identifier: Apache-2.0
"""Ranks in containers: what they find there, what can go wrong, and that nothing stays behind.

node1 is where the user sits; both nodes have a dockerd of their own."""
import hashlib
import io
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from bed import Cluster, Node
from bed.node import wait_until
from built import PROGRAMS, PROTOCOL
from wait import soon

HOME = Node.home()
ENROOT = Path(__file__).resolve().parents[1] / 'bed' / 'enroot.sh'
TIMEOUT = 120  # s, for what takes one on an idle machine
TWO = ('-H', 'node1:1,node2:1')


@pytest.fixture
def hosts(clean2):
    """cluster2; the test fails where it leaves a process, a container or a job's directory."""
    yield clean2
    wait_until(lambda: not any(job_folders(node) for node in clean2.nodes), 60,
               'removal of the directories of jobs')


def job_folders(node):
    """The directories of jobs that `contain` has made on the node."""
    return [str(p) for base in ('/run/user/2001/reigen', '/var/tmp/reigen-2001')
            for p in node.path(base).glob('reigen-*')]


def reigen(node, *arguments, timeout=TIMEOUT, command='run', **kwargs):
    return node.run([PROGRAMS.reigen, command, *arguments], timeout=timeout, **kwargs)


def ran(node, *arguments, **kwargs):
    """What the ranks of a job that must go well print."""
    done = reigen(node, *arguments, **kwargs)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Running:
    """A job whose ranks sleep, once all of them have printed a line; killed at the end."""

    def __init__(self, node, *arguments, command=('sh', '-c', 'echo here; exec sleep 1000')):
        self.job = node.popen([PROGRAMS.reigen, 'run', '--no-tag-output', *arguments, '--',
                               *command],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        self.ranks = 2 if TWO[1] in arguments else 1

    def __enter__(self):
        for _ in range(self.ranks):
            line = self.job.stdout.readline()
            if 'here' not in line:
                self.job.kill_all()
                raise AssertionError(line + self.job.communicate()[1])
        return self

    def __exit__(self, *exc):
        if self.job.poll() is None:
            self.job.kill_all()
        self.job.communicate()

    def end(self):
        out, err = self.job.communicate(timeout=TIMEOUT)
        return self.job.returncode, out, err


def kill(node, word, sig='KILL'):
    found = [pid for pid, line in node.processes().items() if word in line]
    assert found, (word, node.processes())
    node.run(['kill', f'-{sig}', *map(str, found)], user='root', check=True)


# ---------------------------------------------------------------- what ranks find

def test_ranks_are_the_caller_with_name_groups_home_and_directory(hosts):
    for node in hosts.nodes:
        node.run(['mkdir', '-p', 'work'], check=True)
    script = ('echo "$REIGEN_RANK $(id -un) $(id -u):$(id -g) $(id -G) $HOME $USER $LOGNAME $PWD'
              ' $(hostname)"; echo mine > made; echo mine > "$HOME/made"')
    out = ran(hosts[1], '--no-tag-output', '-H', 'node1:2,node2:2', '--image', 'base', '--', 'sh',
              '-c', script, cwd=f'{HOME}/work')
    lines = sorted(out.splitlines())
    same = f'alice 2001:2001 2001 2999 {HOME} alice alice {HOME}/work'
    assert lines == [f'{r} {same} node{1 + r // 2}' for r in range(4)]
    for node in hosts.nodes:
        for file in ('work/made', 'made'):
            status = node.path(file).stat()
            assert (status.st_uid, status.st_gid) == (2001, 2001)
            node.path(file).unlink()


def test_a_directory_that_a_host_lacks_is_the_images(hosts):
    hosts[1].run(['mkdir', '-p', 'here-only'], check=True)
    done = reigen(hosts[1], '--no-tag-output', *TWO, '--image', 'base', '--', 'sh', '-c',
                  'echo $REIGEN_RANK $PWD', cwd=f'{HOME}/here-only')
    assert sorted(done.stdout.splitlines()) == [f'0 {HOME}/here-only', '1 /'], done.stderr
    assert done.stderr.count('there is no directory') == 1, done.stderr
    assert f'node2: there is no directory {HOME}/here-only here: ranks start in' in done.stderr


def test_an_empty_image_is_enough_for_any_user_without_rights(hosts):
    out = ran(hosts[1], '--no-tag-output', *TWO, '--image', 'scratch-static', '--user',
              '12345:678', '--container-option=--read-only', '--container-option=--cap-drop=ALL',
              '--container-option=--security-opt=no-new-privileges', '--', '/program')
    lines = sorted(out.splitlines())
    assert [re.sub(r' pid \d+', '', line) for line in lines] == [
        f'program rank {r} host node{r + 1} uid 12345 gid 678' for r in range(2)]


def test_an_image_of_musl_runs(hosts):
    out = ran(hosts[1], '--no-tag-output', '-np', '2', '--image', 'musl', '--', 'program')
    assert out.count('uid 2001 gid 2001') == 2


def test_a_python_that_stands_on_musl_is_told_of_before_it_starts(hosts):
    node = hosts[1]
    script = node.write('python3', '#!/bin/sh\necho started\n')
    node.run(['chmod', '755', script], check=True)
    words = ('-np', '1', '--image', 'musl', '--mount', f'{script}:/bin/python3', '--', 'python3')
    done = reigen(node, *words)
    assert done.returncode == 0 and 'started' in done.stdout, done.stderr
    assert "there is musl here, and Reigen's Python packages need glibc 2.28" in done.stderr
    quiet = reigen(node, '--no-inject-runtime', *words)
    assert quiet.returncode == 0 and 'glibc' not in quiet.stderr, quiet.stderr


def test_an_image_without_a_shell_runs(hosts):
    script = 'import os; print(os.environ["REIGEN_RANK"], os.getuid(), os.path.exists("/bin/sh"))'
    out = ran(hosts[1], '--no-tag-output', *TWO, '--image', 'distroless', '--', 'python3', '-c',
              script)
    assert sorted(out.splitlines()) == ['0 2001 False', '1 2001 False']


def test_one_host_gets_the_runtimes_own_network_and_several_the_hosts(hosts):
    alone = ran(hosts[1], '-np', '1', '--image', 'base', '--', 'ls', '/sys/class/net')
    assert 'eth0' not in alone.split()
    named = ran(hosts[1], '-np', '1', '--image', 'base', '--network', 'host', '--', 'ls',
                '/sys/class/net')
    assert 'eth0' in named.split()


def test_options_reach_the_runtime(hosts):
    node = hosts[1]
    node.write('data/file', 'from the host\n')
    out = ran(node, '-np', '1', '--image', 'base', '--mount', './data:/data:ro', '--shm-size',
              '96m', '--container-option=--env=OWN=1', '--cwd', '/usr/lib', '--', 'sh', '-c',
              'cat /data/file; touch /data/x 2>/dev/null || echo refused; echo $OWN; pwd; '
              'df -m /dev/shm | tail -1')
    lines = out.splitlines()
    assert lines[:4] == ['from the host', 'refused', '1', '/usr/lib']
    assert lines[4].split()[1] == '96'


def test_a_rank_with_a_terminal_knows_its_kind(hosts):
    done = reigen(hosts[1], '-np', '1', '--pty', '--image', 'base', '--', 'sh', '-c',
                  'test -t 1 && echo "<$TERM>"', env={'TERM': 'xterm-bed'})
    assert done.returncode == 0 and '<xterm-bed>' in done.stdout, done.stderr


def test_shared_memory_is_large_without_being_asked_for(hosts):
    out = ran(hosts[1], '-np', '1', '--image', 'base', '--', 'df', '-k', '/dev/shm')
    memory = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') // 1024
    assert int(out.splitlines()[-1].split()[1]) == pytest.approx(memory / 2, rel=0.01)


def test_our_packages_are_offered_where_the_image_has_none(hosts):
    node = hosts[1]
    node.write('own/horovod/__init__.py', '')
    own = ('--mount', './own/horovod:/usr/local/lib/python3.11/dist-packages/horovod')
    show = ('--', 'sh', '-c', 'echo "<$PYTHONPATH>"')

    def path(*options):
        return ran(node, '-np', '1', '--image', 'base', *options, *show).strip()

    assert path() == '</reigen/python>'
    assert path('--env', 'X=1', '--container-option=--env=PYTHONPATH=/mine') == \
        '</mine:/reigen/python>'
    assert path(*own) == '<>'
    assert path(*own, '--inject-runtime') == '</reigen/python>'
    assert path('--no-inject-runtime') == '<>'


def test_an_image_without_horovod_trains_with_ours(clean4):
    script = ('import horovod.torch as hvd, torch; hvd.init(); '
              'print(hvd.allreduce(torch.ones(3) * (hvd.rank() + 1), op=hvd.Sum).tolist())')
    out = ran(clean4[1], '--no-tag-output', '-H', 'node1:2,node2:2', '--image', 'trainer', '--',
              'python3', '-c', script, timeout=240)
    assert out.splitlines() == ['[10.0, 10.0, 10.0]'] * 4


def test_dry_run_shows_the_containers_command_line(hosts):
    out = ran(hosts[1], '--dry-run', *TWO, '--image', 'base', '--mount', '/data', '--', 'true')
    lines = [line for line in out.splitlines() if line.startswith('# container on node')]
    assert len(lines) == 2
    for word in ('docker run', '--network=host', 'source=/data', ' base inside '):
        assert word in lines[0], word


# ---------------------------------------------------------------- ends

def test_ends_of_ranks_are_told_as_on_a_bare_host(hosts):
    done = reigen(hosts[1], *TWO, '--image', 'base', '--', 'sh', '-c',
                  '[ $REIGEN_RANK = 0 ] || exit 7; sleep 60')
    assert done.returncode == 7 and 'rank 1 on node2 failed first: exit code 7' in done.stderr
    done = reigen(hosts[1], '-np', '1', '--image', 'scratch-static', '--', '/nosuch')
    assert done.returncode == 127 and '/nosuch' in done.stderr


def test_an_end_for_lack_of_memory_is_named(hosts):
    done = reigen(hosts[1], '-np', '1', '--image', 'base', '--container-option=--memory=48m',
                  '--container-option=--memory-swap=48m', '--', 'sh', '-c',
                  'python3 -c "x = bytearray(200 << 20); print(len(x))"; exit $?')
    assert done.returncode == 137 and 'memory ran out (limit 48 MiB' in done.stderr, done.stderr


def test_the_container_goes_with_its_last_rank(hosts):
    """`docker stop` would take ten seconds."""
    job = hosts[1].popen([PROGRAMS.reigen, 'run', '--no-tag-output', *TWO, '--image', 'base', '--',
                          'sh', '-c', 'sleep 1000 & echo end'], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(2):
        assert job.stdout.readline() == 'end\n'
    ended = time.monotonic()
    assert job.wait(TIMEOUT) == 0, job.stderr.read()
    assert soon(ended, 9 / 3)
    assert not hosts[1].containers() and not hosts[2].containers()


# ---------------------------------------------------------------- bad input

REFUSALS = {
    'no such image': (['--image', 'nosuch', '--pull', 'never'], 125, 'the image nosuch is not on'),
    'no registry': (['--image', 'nosuch:1'], 125, 'its registry cannot be reached'),
    'bad name': (['--image', 'Not A Name'], 125, 'not an image'),
    'no such user': (['--image', 'base', '--user', 'nosuch'], 125, 'the image has no such user'),
    'no such mount': (['--image', 'base', '--mount', '/nosuch'], 125, 'not on this host'),
    'no GPUs': (['--image', 'base', '--gpus', 'all'], 125, 'no driver for GPUs'),
    'no such network': (['--image', 'base', '--network', 'nosuch'], 125, 'network nosuch'),
    'no runtime': (['--image', 'base', '--container-runtime', 'apptainer'], 69,
                   'apptainer is not installed here'),
    'no daemon': (['--image', 'base', '--container-runtime', 'docker'], 69,
                  'the Docker daemon does not run here', {'DOCKER_HOST': 'unix:///nosuch.sock'}),
    'no agent': (['--image', 'base', '--container-option=--entrypoint=/bin/true'], 125,
                 'before the agent in the container called'),
    'no such option': (['--image', 'base', '--container-option=--nosuch'], 125,
                       'unknown flag: --nosuch'),
    'no image': (['--shm-size', '1g'], 2, 'no container; name its image'),
    'bad size': (['--image', 'base', '--shm-size', 'much'], 2, '512m'),
}


@pytest.mark.parametrize('case', REFUSALS, ids=lambda c: c.replace(' ', '-'))
def test_what_cannot_be_is_refused_with_a_remedy(hosts, case):
    arguments, code, text, *env = REFUSALS[case]
    done = reigen(hosts[1], '-np', '1', *arguments, '--', '/program', env=env[0] if env else None)
    assert (done.returncode, text in done.stderr) == (code, True), done.stderr


@pytest.mark.parametrize('option', ['--privileged', '--container-option=--ulimit=memlock=-1:-1'])
def test_what_takes_rights_runs_or_is_refused_by_the_right_that_lacks(hosts, option):
    """A daemon without CAP_SYS_RESOURCE, as some machines' root is, cannot raise limits."""
    done = reigen(hosts[1], '-np', '1', '--image', 'base', option, '--', 'echo', 'ran')
    if done.returncode:
        assert done.returncode == 125 and 'Docker' in done.stderr, done.stderr
        assert '--privileged' in done.stderr, done.stderr
    else:
        assert 'ran' in done.stdout


def test_no_infiniband_is_a_remark_and_the_job_goes_on(hosts):
    done = reigen(hosts[1], '-np', '1', '--image', 'base', '--ibdevices', '--', 'true')
    assert done.returncode == 0 and 'has no /dev/infiniband' in done.stderr, done.stderr


def test_who_may_not_use_docker_is_told_how(hosts):
    hosts[1].path('/run/other').mkdir(mode=0o777, exist_ok=True)
    hosts[1].path('/run/other').chmod(0o777)
    done = hosts[1].run(['setpriv', '--reuid=4321', '--regid=4321', '--clear-groups', 'env',
                         'HOME=/run/other', PROGRAMS.reigen, 'run', '-np', '1',
                         '--container-runtime', 'docker', '--image', 'base', '--', 'true'],
                        user='root', cwd='/', timeout=TIMEOUT)
    assert done.returncode == 77 and 'group docker' in done.stderr, done.stderr


def test_a_missing_runtime_and_image_on_one_host_are_named(hosts):
    hosts[1].docker('tag', 'scratch-static', 'only:here')
    try:
        done = reigen(hosts[1], *TWO, '--image', 'only:here', '--pull', 'never', '--', '/program')
        assert done.returncode == 125 and 'host node2: the image only:here' in done.stderr
    finally:
        hosts[1].docker('rmi', 'only:here')


def foreign_image():
    """A tar for `docker load`: an image for a machine that this is not."""
    def add(tar, name, data):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    layer, image = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=layer, mode='w') as tar:
        add(tar, 'program', b'no program')
    data = layer.getvalue()
    machine = 'amd64' if os.uname().machine == 'aarch64' else 'arm64'
    config = {'architecture': machine, 'os': 'linux', 'config': {'Cmd': ['/program']}, 'rootfs': {
        'type': 'layers', 'diff_ids': ['sha256:' + hashlib.sha256(data).hexdigest()]}}
    with tarfile.open(fileobj=image, mode='w') as tar:
        add(tar, 'config.json', json.dumps(config).encode())
        add(tar, 'layer.tar', data)
        add(tar, 'manifest.json', json.dumps([{'Config': 'config.json', 'Layers': ['layer.tar'],
                                               'RepoTags': ['foreign:latest']}]).encode())
    return image.getvalue()


def test_an_image_for_another_machine_is_refused(hosts):
    node = hosts[1]
    node.path('foreign.tar').write_bytes(foreign_image())
    node.docker('load', '-i', f'{HOME}/foreign.tar')
    done = reigen(node, '-np', '1', '--image', 'foreign', '--', '/program')
    assert done.returncode == 125 and 'the image is for linux/' in done.stderr, done.stderr


# Has no image until it was pulled, which takes long, or until the file `pulled` is there.
SLOW_DOCKER = r'''#!/bin/bash
case $1 in
pull)
    echo 'layer 1 of 3' >&2
    echo 'layer 2 of 3'  # Docker's progress is no error
    [ -e "$HOME/slow" ] && exec sleep 1000
    touch "$HOME/pulled" ;;
run)
    [ -e "$HOME/pulled" ] && exec /usr/bin/docker "$@"
    echo "docker: Error response from daemon: No such image: base." >&2
    exit 125 ;;
*) exec /usr/bin/docker "$@" ;;
esac
'''


@pytest.fixture
def slow(hosts):
    """node1, and the environment in which `docker` there is the one above."""
    node = hosts[1]
    node.write('slow-bin/docker', SLOW_DOCKER, mode=0o755)
    node.write('slow', '')
    yield node, {'PATH': f'{HOME}/slow-bin:/usr/bin:/bin'}
    for name in ('slow', 'pulled'):
        node.path(name).unlink(missing_ok=True)


def test_an_image_that_is_missing_is_pulled_with_progress(slow):
    node, env = slow
    node.path('slow').unlink()
    done = reigen(node, '-v', '-v', '-np', '1', '--image', 'base', '--', 'echo', 'ran', env=env)
    assert (done.returncode, done.stdout) == (0, 'ran\n'), done.stderr
    phases = [line.split(': ')[2] for line in done.stderr.splitlines() if 'localhost: ' in line]
    assert 'pulling' in phases and phases.index('pulling') < phases.index('ready')
    assert 'pulling: base: layer 2 of 3' in done.stderr


def test_an_image_that_is_there_is_pulled_when_that_is_asked_for(slow):
    node, env = slow
    node.path('slow').unlink()
    node.write('pulled', '')
    for policy, pulls in (('missing', False), ('always', True)):
        done = reigen(node, '-v', '-v', '-np', '1', '--image', 'base', '--pull', policy, '--',
                      'true', env=env)
        assert (done.returncode, 'pulling: base' in done.stderr) == (0, pulls), done.stderr


def test_a_pull_that_does_not_end_is_named_and_ended(slow):
    node, env = slow
    done = reigen(node, '--start-timeout', '8', '-np', '1', '--image', 'base', '--', 'true',
                  env=env)
    assert done.returncode == 124 and 'pulling' in done.stderr, done.stderr


def test_a_killed_launcher_ends_its_pull(slow):
    node, env = slow
    job = node.popen([PROGRAMS.reigen, 'run', '-np', '1', '--image', 'base', '--', 'true'], env=env,
                     stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: any('sleep 1000' in p for p in node.processes().values()), 60, 'the pull')
    job.send_signal(signal.SIGKILL)
    job.wait(TIMEOUT)


# Makes its container only after somebody has tried to remove it, and never starts it.
LATE_DOCKER = r'''#!/bin/bash
case $1 in
run)
    touch "$HOME/late/begun"
    until [ -e "$HOME/late/removed" ]; do sleep 0.02; done
    /usr/bin/docker create "${@:2}"
    sleep 1000 ;;
rm)
    /usr/bin/docker "$@"
    touch "$HOME/late/removed" ;;
*) exec /usr/bin/docker "$@" ;;
esac
'''


def test_a_launcher_that_is_killed_while_a_container_is_made_leaves_none(hosts):
    node = hosts[1]
    node.write('late/docker', LATE_DOCKER, mode=0o755)
    job = node.popen([PROGRAMS.reigen, 'run', '-np', '1', '--image', 'base', '--', 'true'],
                     env={'PATH': f'{HOME}/late:/usr/bin:/bin'}, stdin=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)
    wait_until(node.path('late/begun').exists, 60, 'the container to be made')
    job.send_signal(signal.SIGKILL)
    job.wait(TIMEOUT)
    wait_until(lambda: not job_folders(node), 60, 'the end of contain')
    assert node.path('late/removed').exists()
    node.run(['rm', '-rf', 'late'], check=True)
    assert not node.containers()


def contain(node, *lines):
    """Run `reigen-agent contain` by hand: what it says on standard output, and its exit code."""
    head = [f'reigen-agent {PROTOCOL}', 'job j-by-hand', 'key ' + 'ab' * 32, 'link stdio']
    job = node.popen([PROGRAMS.agent, 'contain'], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                     text=True)
    job.stdin.write('\n'.join([*head, *lines]) + '\n\n')
    job.stdin.flush()  # and stays open: its end means that the launcher is gone
    said = job.stdout.read().splitlines()
    code = job.wait(TIMEOUT)
    job.stdin.close()
    return said, code


def test_a_name_in_use_is_told_and_its_container_left_alone(hosts):
    hosts[1].docker('create', '--name', 'reigen-j-by-hand-0', 'scratch-static')
    try:
        said, code = contain(hosts[1], 'container image scratch-static')
        assert code == 125 and said[-1].startswith('reigen-boot error 125 a container of this name')
        assert hosts[1].containers() == ['reigen-j-by-hand-0']
    finally:
        hosts[1].docker('rm', 'reigen-j-by-hand-0')


def test_a_description_that_is_broken_is_refused(hosts):
    for line in ('container nosuch 1', 'container pull 7', 'container image %zz', 'nosuch 1'):
        said, code = contain(hosts[1], line)
        assert code != 0 and said[-1].startswith(f'reigen-boot error {code} '), (line, said)


# ---------------------------------------------------------------- secrets

class Canary(Running):
    """Ranks that check the secret they have been given."""

    def __init__(self, node, canary):
        digest = hashlib.sha256(canary.encode()).hexdigest()
        check = f'[ "$(printf %s "$CANARY" | sha256sum)" = "{digest}  -" ] && echo here; ' \
                'exec sleep 1000'
        self.job = node.popen([PROGRAMS.reigen, 'run', '-v', '-v', '--no-tag-output', *TWO,
                               '--image', 'base', '--share-env', 'CANARY', '--', 'sh', '-c', check],
                              env={'CANARY': canary}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.ranks = 2


def memory(process):
    """What it can write to, as a core dump would have it."""
    data = b''
    with open(process / 'mem', 'rb', 0) as f:
        for words in (line.split() for line in (process / 'maps').read_text().splitlines()):
            if words[1].startswith('rw'):
                begin, end = (int(x, 16) for x in words[0].split('-'))
                f.seek(begin)
                data += f.read(end - begin)
    return data


def test_no_secret_is_seen_from_outside(hosts):
    canary = secrets.token_hex(12)
    node = hosts[1]
    with Canary(node, canary) as job:
        for each in hosts.nodes:
            held, = (pid for pid, line in each.processes().items() if 'agent contain' in line)
            assert not re.search(rb'key [0-9a-f]{64}', memory(each.path('/proc') / str(held)))
        for each in hosts.nodes:
            seen = each.docker('inspect', *each.containers())
            assert canary not in seen
            proc = each.path('/proc')
            for pid, line in each.processes().items():
                assert canary not in line
                if 'sleep' in line or PROGRAMS.reigen.name + ' run' in line:
                    continue  # the rank, and the launcher that was given it
                try:
                    assert canary.encode() not in (proc / str(pid) / 'environ').read_bytes(), line
                except OSError:
                    pass
            found = each.run(['grep', '-rl', canary, '/run/user', '/var/tmp', '/tmp', HOME],
                             user='root').stdout
            assert not found
        job.job.send_signal(signal.SIGTERM)
        _, out, err = job.end()
        assert canary not in out + err


# ---------------------------------------------------------------- deaths

def test_nothing_stays_when_the_launcher_is_killed(hosts):
    with Running(hosts[1], *TWO, '--image', 'base') as job:
        job.job.send_signal(signal.SIGKILL)
        hosts.assert_clean(60)


@pytest.mark.parametrize('command', ['pkill -9 reigen', 'pkill -9 -f reigen'])
def test_nothing_stays_when_all_is_killed_by_name_everywhere(hosts, command):
    with Running(hosts[1], *TWO, '--image', 'base'):
        for node in reversed(hosts.nodes):
            node.run(command.split())
        hosts.assert_clean(60)
    ran(hosts[1], *TWO, '--image', 'base', '--', 'true')  # removes directories, where all was hit


def test_a_killed_container_is_named(hosts):
    with Running(hosts[1], *TWO, '--image', 'base') as job:
        hosts[2].docker('kill', *hosts[2].containers())
        code, _, err = job.end()
    assert code == 76 and 'node2' in err and 'ended: exit code 137' in err, err


def test_docker_stop_gives_each_rank_one_signal(hosts):
    """The daemon tells process 1 of the container, an agent, which is to tell its ranks once."""
    rank = ('import signal as s\n'
            's.pthread_sigmask(s.SIG_BLOCK, {s.SIGTERM})\n'
            'print("here", flush=True)\n'
            'got = s.sigwaitinfo({s.SIGTERM})\n'
            'while got:\n'
            '    print("told", flush=True)\n'
            '    got = s.sigtimedwait({s.SIGTERM}, 2)\n')
    with Running(hosts[1], *TWO, '--image', 'base', command=('python3', '-c', rank)) as job:
        hosts[2].docker('stop', *hosts[2].containers())
        code, out, err = job.end()
    assert out.count('told') == 2 and 'node2' in err, (code, out, err)


@pytest.mark.parametrize('node, says', [
    (1, r'host node1: the program that holds its container \(process \d+\) ended: signal 9'),
    (2, r'host node2: the program that holds its container was killed there, or')])
def test_a_killed_contain_is_named(hosts, node, says):
    with Running(hosts[1], *TWO, '--image', 'base') as job:
        kill(hosts[node], 'agent contain')
        code, _, err = job.end()
    assert code == 76 and re.search(says, err), err
    wait_until(lambda: not hosts[node].containers(), 60, 'end of the container')
    ran(hosts[1], *TWO, '--image', 'base', '--', 'true')  # removes the directory that it left


def test_a_killed_agent_in_a_container_is_named(hosts):
    with Running(hosts[1], *TWO, '--image', 'base') as job:
        kill(hosts[2], 'reigen-agent inside')
        code, _, err = job.end()
    assert code == 76 and 'host node2' in err, err


@pytest.mark.parametrize('victim, code, text', [
    ('agent contain', 69, 'host localhost: reigen-agent ended before it was ready'),
    ('sleep 1000', 125, 'host localhost: pulling base: docker pull ended: signal 9'),
])
def test_what_is_killed_during_a_pull_is_named_and_leaves_no_pull(slow, victim, code, text):
    node, env = slow
    job = node.popen([PROGRAMS.reigen, 'run', '-np', '1', '--image', 'base', '--', 'true'],
                     env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: any('sleep 1000' in p for p in node.processes().values()), 30, 'the pull')
    kill(node, victim)
    _, err = job.communicate(timeout=TIMEOUT)
    assert (job.returncode, text in err) == (code, True), err
    wait_until(lambda: not any('sleep 1000' in p for p in node.processes().values()), 30,
               'the end of the pull')
    ran(node, '-np', '1', '--image', 'base', '--', 'true')  # sweeps the directory


def test_the_next_start_sweeps_what_a_killed_one_left(hosts):
    with Running(hosts[1], '-np', '1', '--image', 'base') as job:
        kill(hosts[1], 'agent contain')
        code, _, err = job.end()
        assert code != 0, err
    wait_until(lambda: not hosts[1].containers(), 60, 'end of the container')
    assert job_folders(hosts[1])
    base = hosts[1].path('/run/user/2001/reigen')
    for name, days in (('bundle-old', 40), ('bundle-new', 20), ('bundle-x.12', 1),
                       ('.reigen-half', 1)):
        hosts[1].run(['mkdir', '-p', f'/run/user/2001/reigen/{name}'], check=True)
        then = time.time() - days * 24 * 3600
        os.utime(base / name, (then, then))
    ran(hosts[1], '-np', '1', '--image', 'base', '--', 'true')
    wait_until(lambda: not job_folders(hosts[1]), 60, 'removal of the directories')
    left = {p.name for p in base.iterdir()}
    assert 'bundle-new' in left and not left & {'bundle-old', 'bundle-x.12', '.reigen-half'}


def test_a_sweep_spares_jobs_that_run(hosts):
    """Also one whose `contain` is dead, as long as its agent lives."""
    with Running(hosts[1], '-np', '1', '--image', 'base') as job:
        ran(hosts[1], '-np', '1', '--image', 'base', '--', 'true')
        assert len(hosts[1].containers()) == 1 and job.job.poll() is None


def test_a_killed_dockerd_leaves_nothing_once_it_is_back(hosts):
    with Running(hosts[1], *TWO, '--image', 'base') as job:
        hosts[2].stop_dockerd(signal.SIGKILL)
        hosts[2].start_dockerd()
        job.job.send_signal(signal.SIGTERM)
        job.end()
    wait_until(lambda: not hosts[2].containers(), 60, 'end of the container')
    hosts[2].end_shims()


def test_a_host_that_loses_power_is_named():
    with Cluster(2, dockerd=True, images=['base']) as own:
        with Running(own[1], *TWO, '--lease', '6', '--image', 'base') as job:
            own[2].kill()
            code, _, err = job.end()
        assert code == 76 and 'host node2' in err, err
        wait_until(lambda: not own[1].containers(), 60, 'end of the other container')


def test_jobs_are_listed_and_stopped_from_elsewhere(hosts):
    node = hosts[1]
    reigen(node, '--all', command='stop')  # what other tests have left
    with Running(node, *TWO, '--image', 'base') as job:
        listed = ran(node, command='jobs').splitlines()
        assert len(listed) == 2 and 'running' in listed[1] and 'sleep 1000' in listed[1]
        ident = listed[1].split()[0]
        assert reigen(node, 'nosuch', command='stop').returncode == 2
        ran(node, ident[:-3], command='stop')
        assert job.end()[0] == 143
    assert 'No job' in ran(node, command='jobs')


def test_stop_removes_what_a_killed_launcher_left(hosts):
    node = hosts[1]
    with Running(node, *TWO, '--image', 'base') as job:
        # An agent that is stopped does not see that the launcher has gone.
        label = node.docker('ps', '--format', '{{.Names}}').strip()
        for each in hosts.nodes:
            each.docker('pause', *each.containers())
            kill(each, 'agent contain', 'STOP')
        job.job.send_signal(signal.SIGKILL)
        job.job.wait(TIMEOUT)
        assert hosts[1].containers() == [label]
        assert 'dead' in ran(node, command='jobs')
        ran(node, '--clean', '-np', 1, command='doctor')
        assert 'dead' not in ran(node, command='jobs')
        for each in hosts.nodes:
            assert not each.containers()
            kill(each, 'agent contain', 'CONT')


def test_two_jobs_share_hosts(hosts):
    with Running(hosts[1], *TWO, '--image', 'base'):
        out = ran(hosts[1], '--no-tag-output', *TWO, '--image', 'scratch-static', '--', '/program')
        assert len(out.splitlines()) == 2
        assert len(hosts[2].containers()) == 1


# ---------------------------------------------------------------- other runtimes

@pytest.fixture(scope='module')
def podman(cluster2):
    """node1, with images for Podman of alice and of root."""
    node = cluster2[1]
    node.docker('save', '-o', '/var/tmp/images.tar', 'scratch-static', 'base')
    node.run(['chmod', '644', '/var/tmp/images.tar'], user='root', check=True)
    for user in ('alice', 'root'):
        node.run(['podman', 'load', '-q', '-i', '/var/tmp/images.tar'], user=user, timeout=240,
                 check=True)
    return node


@pytest.mark.parametrize('user', ['alice', 'root'])
def test_podman_runs_ranks_as_the_caller(hosts, podman, user):
    show = ran(podman, '-np', '2', '--container-runtime', 'podman', '--image', 'base', '--', 'sh',
               '-c', 'echo "$(id -un) $(id -u):$(id -g) $PWD" && touch made', user=user,
               timeout=240)
    home = Node.home(user)
    uid = 2001 if user == 'alice' else 0
    assert sorted(show.splitlines()) == [f'[{r}] {user} {uid}:{uid} {home}' for r in range(2)]
    made = podman.path(f'{home}/made')
    assert (made.stat().st_uid, made.stat().st_gid) == (uid, uid)
    made.unlink()
    assert not podman.run(['podman', 'ps', '-aq'], user=user).stdout
    assert hosts


@pytest.mark.parametrize('user', ['alice', 'root'])
def test_podmans_containers_are_kept_to_the_cpus_of_who_starts_them(hosts, podman, user):
    last = max(os.sched_getaffinity(0))
    done = podman.run(['taskset', '-c', str(last), PROGRAMS.reigen, 'run', '-np', '1',
                       '--container-runtime', 'podman', '--image', 'base', '--', 'grep',
                       'Cpus_allowed_list', '/proc/self/status'], user=user, timeout=TIMEOUT)
    assert done.returncode == 0 and done.stdout.split()[-1] == str(last), done.stderr
    assert hosts


def test_podman_runs_an_empty_image_without_rights(hosts, podman):
    out = ran(podman, '-np', '1', '--container-runtime', 'podman', '--image', 'scratch-static',
              '--container-option=--read-only', '--container-option=--cap-drop=ALL', '--',
              '/program')
    assert 'uid 2001 gid 2001' in out
    done = reigen(podman, '-np', '1', '--container-runtime', 'podman', '--image', 'nosuch:1',
                  '--', '/program')
    assert done.returncode == 125 and 'whole name' in done.stderr
    assert hosts


def test_podman_takes_the_place_of_a_docker_that_does_not_run(hosts, podman):
    done = reigen(podman, '-np', '1', '--image', 'localhost/base', '--', 'id', '-un',
                  env={'DOCKER_HOST': 'unix:///nosuch.sock'})
    assert done.stdout == 'alice\n' and 'docker is not usable here, trying podman' in done.stderr
    assert hosts


# Keeps its arguments, and runs the command on the image, a directory, in name spaces of its own.
APPTAINER = r'''#!/bin/bash
printf '%s\n' "$@" > "$HOME/argv"
binds=() pwd=/
shift
while [ "${1#-}" != "$1" ]; do
    case $1 in
    --bind=*) binds+=("${1#--bind=}") ;;
    --pwd=*) pwd=${1#--pwd=} ;;
    esac
    shift
done
export root=$1 pwd all="${binds[*]}"; shift
exec unshare --user --map-root-user --mount --pid --fork --kill-child bash -c '
    for bind in $all; do
        IFS=: read -r from to mode <<< "$bind"
        mkdir -p "$root$to" && mount --rbind "$from" "$root$to" || exit 1
    done
    mkdir -p "$root/proc" "$root/dev"
    mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"
    exec chroot "$root" "$@"' bash "$@"
'''


def test_apptainer_gets_the_image_the_binds_and_the_agent(hosts):
    """With a stand-in, as Apptainer is not in Debian: it keeps its argv and runs the command."""
    node = hosts[1]
    node.write('bin/apptainer', APPTAINER, mode=0o755)
    node.run(['mkdir', '-p', 'rootfs'], check=True)
    name = node.docker('create', 'scratch-static').strip()
    try:
        node.docker('export', '-o', f'{HOME}/rootfs.tar', name)
    finally:
        node.docker('rm', name)
    node.run(['chmod', '644', f'{HOME}/rootfs.tar'], user='root', check=True)
    node.run(['tar', '-C', 'rootfs', '-xf', 'rootfs.tar', '--exclude=dev/*'], check=True)
    env = {'PATH': f'{HOME}/bin:/usr/bin:/bin:/usr/sbin'}
    out = ran(node, '-np', '2', '--container-runtime', 'apptainer', '--image', f'{HOME}/rootfs',
              '--gpus', 'all', '--container-option=--writable-tmpfs', '--', '/program', env=env)
    assert out.count('program rank') == 2
    argv = node.path('argv').read_text().split('\n')
    assert argv[:4] == ['exec', '--pid', '--cleanenv', '--nv']
    assert f'--pwd={HOME}' in argv and '--writable-tmpfs' in argv
    assert argv[-5:] == [f'{HOME}/rootfs', '/reigen/bin/reigen-agent', 'inside', '/reigen/run/boot',
                         '']
    done = reigen(node, '-np', '1', '--container-runtime', 'apptainer', '--image', 'x.sif',
                  '--privileged', '--', '/program', env=env)
    assert done.returncode == 2 and 'Apptainer cannot do that' in done.stderr


def test_enroot_gets_a_file_mounts_gpus_and_the_agent(hosts):
    """With a stand-in, as enroot is not in Debian; in Slurm: tests/slurm/test_enroot.py."""
    node = hosts[1]
    node.write('bin/enroot', ENROOT.read_text(), mode=0o755)
    node.write('image.sqsh', 'hsqs mine\n')
    env = {'PATH': f'{HOME}/bin:/usr/bin:/bin:/usr/sbin', 'MINE': 'a b'}
    out = ran(node, '--no-tag-output', '-np', '2', '--container-runtime', 'enroot', '--image',
              './image.sqsh', '--mount', '/opt:/srv:ro', '--gpus', '2', '--env', 'MINE', '--', 'sh',
              '-c', 'echo $(id -u) $PWD $MINE $HOME $NVIDIA_VISIBLE_DEVICES; cat /image', env=env)
    assert out.splitlines().count(f'2001 {HOME} a b {HOME} 0,1') == 2 and out.count('mine') == 2
    words = shlex.split(node.path('enroot.log').read_text())
    assert words[1:4] == ['start', '--rw', '--rc'] and f'{HOME}/./image.sqsh' in words
    assert '--mount=/opt:/srv:none:x-create=auto,rbind,ro' in words
    assert 'RESTRICT_DEV=yes' in words and 'LOGIN=no' in words
    done = reigen(node, '-np', '1', '--container-runtime', 'enroot', '--image', './image.sqsh',
                  '--network', 'none', '--', 'true', env=env)
    assert done.returncode == 2 and 'have the host\'s network' in done.stderr
