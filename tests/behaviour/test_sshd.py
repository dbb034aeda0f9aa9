# SPDX-License-Identifier: Apache-2.0
"""reigen sshd, also in the place of /usr/sbin/sshd, as images of deploy/docker have it."""
import os
import shlex
import subprocess

import pytest

from built import PROGRAMS, ROOT, environment
from ranks import free_port

SSHD = '/usr/sbin/sshd'
LIMIT = 60
ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason='mounts')


@pytest.fixture
def told(tmp_path):
    """told(*words): what the real sshd would get; with a folder of keys that is ours."""
    fake = tmp_path / 'sshd.real'
    fake.write_text('#!/bin/sh\nfor word; do echo "$word"; done\n')
    fake.chmod(0o755)
    env = environment(REIGEN_SSHD=fake, HOME=tmp_path)
    for name in ['PATH', 'LD_LIBRARY_PATH', 'PYTHONPATH']:
        env.pop(name, None)
    env['PATH'] = '/usr/bin:/bin'

    def run(*words):
        return apart([PROGRAMS.reigen, 'sshd', *words], env)

    return run


def apart(words, env, folder=None, before='true'):
    """Run it as root with an /etc/ssh, a /root/.ssh, a /run and a loopback device of its own: so
    nobody takes a port that was free a moment ago."""
    line = ('ip link set lo up && mount -t tmpfs none /etc/ssh && mount -t tmpfs none /run && '
            f'mkdir -p /root/.ssh && {before} && exec "$@"')
    if folder:
        line = f'mount --bind {shlex.quote(str(folder))} /root/.ssh && ' + line
    return subprocess.run(['unshare', '-mn', 'sh', '-c', line, 'sh', *map(str, words)], env=env,
                          capture_output=True, text=True, timeout=LIMIT, check=False,
                          stdin=subprocess.DEVNULL)


@ROOT_ONLY
@pytest.mark.parametrize('words, wanted', [
    # mpi-operator's, of which it needs /etc/ssh's settings and port 22
    (['-De'], ['-D', '-e']),
    (['-eD'], ['-D', '-e']),
    (['-D', '-p', '22'], ['-D', '-p22']),
    # render kubeflow-openmpi's
    (['-D', '-e', '-f', '/a/sshd_config', '-h', '/a/key'],
     ['-D', '-e', '-f', '/a/sshd_config', '-h', '/a/key']),
    (['-p2222', '-f/a/config'], ['-p2222', '-f', '/a/config']),
    (['-t'], ['-t']), (['-Tf', '/a/config'], ['-T', '-f', '/a/config']),
    (['-46dqeE/log'], ['-4', '-6', '-d', '-q', '-e', '-E', '/log']),
    (['-o', 'Port=2200', '-oLogLevel=DEBUG', '-g', '30', '-u0'],
     ['-o', 'Port=2200', '-o', 'LogLevel=DEBUG', '-g', '30', '-u', '0']),
    ([], []),
])
def test_sshd_gets_its_own_options_as_they_are(told, words, wanted):
    done = told('--as-sshd', *words)
    said = done.stdout.splitlines()
    extra = [word for word in said if word.startswith('-oSetEnv')]
    assert [word for word in said if word not in extra] == wanted, done
    # sshd does not pass on its environment, and settings of the user's file are his.
    assert bool(extra) != any('-f' in word or word == '-Tf' for word in words)


@ROOT_ONLY
def test_host_keys_are_made_where_the_image_has_none(told, tmp_path):
    env = environment(REIGEN_SSHD=tmp_path / 'sshd.real', HOME=tmp_path, PATH='/usr/bin:/bin')
    (tmp_path / 'sshd.real').write_text('#!/bin/sh\nls /etc/ssh /run\n')
    line = [PROGRAMS.reigen, 'sshd', '--as-sshd', '-De']
    made = apart(line, env).stdout
    assert 'ssh_host_ed25519_key.pub' in made and 'sshd' in made.splitlines()
    kept = apart(line, env, before='touch /etc/ssh/ssh_host_rsa_key').stdout
    assert 'ssh_host_rsa_key' in kept and 'ed25519' not in kept
    own = apart([*line, '-h', '/key'], env).stdout
    assert 'ssh_host' not in own


@ROOT_ONLY
def test_keys_in_a_volume_of_kubernetes_are_trusted(told, tmp_path):
    """Its folder may be written to by anybody, which sshd would not like."""
    data = tmp_path / 'volume/..2026'
    data.mkdir(parents=True)
    (data / 'authorized_keys').write_text('')
    os.symlink('..2026', tmp_path / 'volume/..data')
    os.symlink('..data/authorized_keys', tmp_path / 'volume/authorized_keys')
    env = environment(REIGEN_SSHD=tmp_path / 'sshd.real')
    line = [PROGRAMS.reigen, 'sshd', '--as-sshd', '-De']
    assert '-oStrictModes=no' in apart(line, env, tmp_path / 'volume').stdout.splitlines()
    assert 'StrictModes' not in apart(line, env).stdout
    assert 'StrictModes' not in apart([*line, '-f', '/c'], env, tmp_path / 'volume').stdout


@ROOT_ONLY
def test_a_port_of_its_own_has_the_shared_keys_and_sshds_other_options(told, tmp_path):
    done = told('--as-sshd', '-De', '-p', free_port(), '--dir', tmp_path / 'keys',
                '-oLogLevel=DEBUG', '-E', tmp_path / 'log')
    said = done.stdout.splitlines()
    assert f'-oHostKey={tmp_path}/keys/reigen_host_key' in said, done
    assert '-o' in said and 'LogLevel=DEBUG' in said and str(tmp_path / 'log') in said
    assert said[-2:] == ['-D', '-e'] and (tmp_path / 'keys/id_ed25519').exists()


@pytest.mark.parametrize('words, said', [
    (['-p'], 'sshd -p: its value is missing'), (['-Dp'], 'sshd -p: its value is missing'),
    (['-E'], 'sshd -E: its value is missing'), (['--port'], 'sshd --port: its value is missing'),
    (['-Dz'], 'sshd -Dz: unknown option'), (['--prt', '1'], 'did you mean --port?'),
    (['-p', '0'], 'sshd -p'), (['-p', '22'], 'give a port that only these hosts use'),
    (['start'], 'sshd start: it takes options only'),
    (['--as-sshd', '--dir', '/d'], 'give one by -p'),
])
def test_what_sshd_does_not_take_is_refused(reigen, words, said):
    done = reigen('sshd', *words)
    assert done.returncode == 2 and said in done.stderr, done


@ROOT_ONLY
@pytest.mark.skipif(not os.path.exists(SSHD), reason='no sshd')
def test_a_real_sshd_takes_them(tmp_path):
    """In the place of sshd, with clustered options: it listens, and a key of its folder logs in."""
    port = free_port()
    script = (f'{PROGRAMS.reigen} sshd --as-sshd -p{port} -oLogLevel=VERBOSE -E {tmp_path}/log && '
              f'ssh -p {port} -o BatchMode=yes -o HostName=127.0.0.1 localhost echo logged in; '
              f'kill $(cat /run/reigen-sshd.{port}/pid)')
    (tmp_path / 'ssh').mkdir(mode=0o700)
    done = apart(['sh', '-c', script], environment(HOME='/root'), tmp_path / 'ssh')
    assert 'logged in' in done.stdout, done
    assert 'Accepted publickey' in (tmp_path / 'log').read_text()
    # As an MPIJob's worker has it, on the system's port and settings but for the port here.
    script = (f'{PROGRAMS.reigen} sshd --as-sshd -De -oPort={port} -oPidFile=/run/pid & '
              'while [ ! -s /run/pid ]; do kill -0 $! || exit 1; sleep 0.1; done; '
              f'ssh -p {port} -oBatchMode=yes -oStrictHostKeyChecking=no -oHostName=127.0.0.1 '
              'localhost echo again; '
              'kill $!; wait')
    done = apart(['sh', '-c', script], environment(HOME='/root'), tmp_path / 'ssh',
                 'touch /etc/ssh/sshd_config')
    assert 'again' in done.stdout, done


@ROOT_ONLY
def test_settings_of_our_images_check_no_keys_in_an_mpijob_and_all_elsewhere(tmp_path):
    recipe = (ROOT / 'deploy/docker/setup/sshd.sh').read_text()
    (tmp_path / 'config').write_text(recipe.split("reigen.conf <<'END'\n")[1].split('END\n')[0])
    for more, wanted in [({}, 'yes'), ({'K_MPI_JOB_ROLE': 'launcher'}, 'no')]:
        done = subprocess.run(['ssh', '-G', '-F', tmp_path / 'config', 'train-worker-0'],
                              env=environment(**more), capture_output=True, text=True, check=True)
        found = dict(line.split(' ', 1) for line in done.stdout.splitlines() if ' ' in line)
        assert found['stricthostkeychecking'] in {'yes': ('yes', 'true'), 'no': ('no', 'false')}[
            wanted], more
