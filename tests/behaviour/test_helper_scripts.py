# SPDX-License-Identifier: Apache-2.0
"""What srun_docker.sh's users have beside it: create_mpisshconfig.sh and run_dock_asuser.sh."""
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path

import built
import pytest

from wait import until

REIGEN = built.PROGRAMS.reigen
USER = pwd.getpwuid(os.getuid()).pw_name
NOBODY = 65534

pytestmark = pytest.mark.timeout(120)


def run(*argv, **options):
    env = built.environment(**options.pop('env', {}))
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=60,
                          check=False, env=env, **options)


def contents(folder):
    return {str(p.relative_to(folder)): (p.stat().st_mode & 0o777, p.read_text())
            for p in sorted(folder.rglob('*')) if p.is_file() and not p.is_symlink()}


# ---------------------------------------------------------------------------- sshconfig

@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """A directory in which `server` and `user` were made, by the script's name."""
    folder = tmp_path_factory.mktemp('ssh')
    link = folder / 'create_mpisshconfig.sh'
    link.symlink_to(REIGEN)
    done = run(link, '--dir', folder / 'server', '--ssh-dir', folder / 'user', '--hosts',
               'dgx*,hsw*')
    assert done.returncode == 0, done.stderr
    return folder


def sshconfig(folder, *words, **options):
    return run(REIGEN, 'sshconfig', f'--dir={folder}/server', f'--ssh-dir={folder}/user', *words,
               **options)


def copy_keys(made, folder):
    """Keys take long to make."""
    for key in [*(made / 'server').glob('ssh_host_*'), *(made / 'user').glob('id_rsa_mpi*')]:
        (folder / key.parent.name).mkdir(exist_ok=True)
        shutil.copy(key, folder / key.parent.name)


def test_sshconfig_makes_keys_and_settings_that_todays_sshd_takes(made):
    modes = {name: mode for name, (mode, _) in contents(made / 'server').items()}
    keys = [f'ssh_host_{kind}_key' for kind in ('rsa', 'ecdsa', 'ed25519')]
    for name in keys:
        assert modes[name] == 0o600 and modes[f'{name}.pub'] == 0o644
    for name in ('sshd_config', 'ssh_config', 'known_hosts'):
        assert modes[name] == 0o644
    assert (made / 'server').stat().st_mode & 0o077 == 0
    text = (made / 'server/sshd_config').read_text()
    for line in ('Port 12345', 'PermitRootLogin yes', 'StrictModes no', 'UsePAM no',
                 *(f'HostKey "{made}/server/{name}"' for name in keys)):
        assert line in text.splitlines(), text
    done = run('/usr/sbin/sshd', '-T', '-f', made / 'server/sshd_config')
    # Where sshd has never run as a service its directory is missing, which is no fault of ours.
    assert done.returncode == 0 and 'port 12345\n' in done.stdout or \
        'Missing privilege separation directory' in done.stderr, done.stderr


def test_sshconfig_lets_the_user_in_and_tells_ssh_so(made):
    user = contents(made / 'user')
    assert {name: user[name][0] for name in ('id_rsa_mpi', 'authorized_keys', 'config')} == dict(
        id_rsa_mpi=0o600, authorized_keys=0o600, config=0o600)
    assert user['authorized_keys'][1].split()[:2] == user['id_rsa_mpi.pub'][1].split()[:2]
    told = run('ssh', '-G', '-F', made / 'user/config', 'hsw07').stdout
    for line in ('port 12345', f'identityfile {made}/user/id_rsa_mpi',
                 f'userknownhostsfile {made}/server/known_hosts {made}/user/known_hosts'):
        assert line in told.splitlines(), told
    assert re.search('^stricthostkeychecking (yes|true)$', told, re.M), told
    assert 'port 22\n' in run('ssh', '-G', '-F', made / 'user/config', 'elsewhere').stdout


def test_sshconfig_changes_nothing_twice_and_nothing_in_a_dry_run(made):
    before = contents(made)
    done = sshconfig(made, '--hosts=dgx* hsw*')
    assert done.returncode == 0 and 'made' not in done.stdout, done.stdout
    assert contents(made) == before
    done = sshconfig(made, '--hosts=other', '--port=7001', '--dry-run')
    assert 'would have changed' in done.stdout and 'Host other\n    Port 7001' in done.stdout
    assert contents(made) == before


def test_sshconfig_keeps_what_others_wrote(made, tmp_path):
    user, server = tmp_path / 'user', tmp_path / 'server'
    copy_keys(made, tmp_path)
    (user / 'config').write_text('ServerAliveInterval 7\nHost x\n    Port 1\n')
    (user / 'authorized_keys').write_text('ssh-rsa AAAA mine')
    (server / 'sshd_config').write_text('mine\n')
    for port in (7001, 7002):
        assert sshconfig(tmp_path, '--hosts=n*', f'--port={port}').returncode == 0
    text = (user / 'config').read_text()
    assert text.count('Host n*') == 1 and 'Port 7002' in text and 'Port 7001' not in text
    for host, port in (('n1', 7002), ('x', 1)):
        told = run('ssh', '-G', '-F', user / 'config', host).stdout.splitlines()
        assert f'port {port}' in told and 'serveraliveinterval 7' in told, told
    assert len((user / 'authorized_keys').read_text().splitlines()) == 2
    assert (server / 'sshd_config.old').read_text() == 'mine\n'
    (server / 'sshd_config').write_text('mine again\n')
    assert sshconfig(tmp_path, '--hosts=n*', '--port=7002').returncode == 0
    assert (server / 'sshd_config.old').read_text() == 'mine\n'
    assert (server / 'sshd_config.old.2').read_text() == 'mine again\n'
    assert {line.split()[0] for line in (server / 'known_hosts').read_text().splitlines()} == \
        {'[*]:7001', '[*]:7002'}


def test_sshconfig_finds_its_block_whatever_an_editor_did_to_line_ends(made, tmp_path):
    copy_keys(made, tmp_path)
    config = tmp_path / 'user/config'
    config.write_text('Host z\n    # as # >>> reigen sshconfig >>>\n    Port 3\n'
                      'Host x\n    Port 1')
    for name in ('a*', 'b*', 'c*'):
        done = sshconfig(tmp_path, f'--hosts={name}')
        assert done.returncode == 0, done.stderr
        config.write_bytes(config.read_bytes().replace(b'\n', b' \r\n'))
    text = config.read_text()
    assert re.findall('(?m)^Host (.*[^ \r\n])', text) == ['c*', 'z', 'x'], text


def test_sshconfig_writes_through_a_link_and_not_over_one(made, tmp_path):
    copy_keys(made, tmp_path)
    config, real = tmp_path / 'user/config', tmp_path / 'dotfiles'
    config.symlink_to('../dotfiles')
    done = sshconfig(tmp_path, '--hosts=a')
    assert done.returncode == 2 and 'a link to what is not there' in done.stderr, done
    real.write_text('Host x\n')
    real.chmod(0o666)
    assert sshconfig(tmp_path, '--hosts=a').returncode == 0
    assert config.is_symlink() and 'Host a\n' in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize('name', ['id_rsa_mpi', 'id_rsa_mpi.pub'])
def test_sshconfig_makes_no_key_in_the_place_of_a_link(made, tmp_path, name):
    """It may lead to a volume that is not mounted now."""
    copy_keys(made, tmp_path)
    for key in (tmp_path / 'user').iterdir():
        key.unlink()
    link = tmp_path / 'user' / name
    link.symlink_to('/rg-not-there/key')
    done = sshconfig(tmp_path, '--hosts=a')
    assert done.returncode == 2 and f'{link} is a link, and there is no key' in done.stderr, done
    assert link.is_symlink() and [p.name for p in link.parent.iterdir()] == [name]


def test_sshconfig_neither_replaces_nor_closes_what_is_no_file(made, tmp_path):
    copy_keys(made, tmp_path)
    null, known = tmp_path / 'null', tmp_path / 'server/known_hosts'
    try:
        os.mknod(null, stat.S_IFCHR, os.makedev(1, 3))
        null.chmod(0o666)
        null.read_bytes()
    except PermissionError:
        pytest.skip('devices cannot be made here, or not be used')
    known.symlink_to(null)
    done = sshconfig(tmp_path, '--hosts=a')
    assert done.returncode == 0 and known.is_symlink(), done
    (tmp_path / 'user/config').unlink()
    (tmp_path / 'user/config').symlink_to(null)
    done = sshconfig(tmp_path, '--hosts=a')
    assert done.returncode == 2 and 'which is no ordinary file' in done.stderr, done
    assert stat.S_ISCHR(null.stat().st_mode) and null.stat().st_mode & 0o777 == 0o666


def test_sshconfig_gives_keys_the_mode_that_ssh_wants(made, tmp_path):
    copy_keys(made, tmp_path)
    for key in (tmp_path / 'server/ssh_host_rsa_key', tmp_path / 'user/id_rsa_mpi'):
        key.chmod(0o644)
    done = sshconfig(tmp_path, '--dry-run')
    assert done.stdout.count('would have changed the mode of') == 2, done
    done = sshconfig(tmp_path)
    assert done.returncode == 0 and done.stdout.count('changed the mode of') == 2, done
    for key in (tmp_path / 'server/ssh_host_rsa_key', tmp_path / 'user/id_rsa_mpi'):
        assert key.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize('name, text, says', [
    ('ssh_host_rsa_key', '', 'ssh_host_rsa_key is not a whole private key; remove it'),
    ('ssh_host_rsa_key', '-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n', 'not a whole private key'),
    ('ssh_host_rsa_key.pub', '', 'ssh_host_rsa_key.pub is not a public key'),
])
def test_sshconfig_does_not_take_half_a_key_for_one(made, tmp_path, name, text, says):
    copy_keys(made, tmp_path)
    (tmp_path / 'server' / name).write_text(text)
    done = sshconfig(tmp_path)
    assert done.returncode == 2 and says in done.stderr, done


def test_sshconfig_leaves_no_half_key_behind(tmp_path):
    """ssh-keygen on a full disk: it has written a part, and fails."""
    fake = tmp_path / 'ssh-keygen'
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -f ]; do shift; done\n'
                    'printf "%s\\n" "-----BEGIN" >"$2"; : >"$2.pub"; echo no space >&2; exit 1\n')
    fake.chmod(0o755)
    done = sshconfig(tmp_path, env={'PATH': f'{tmp_path}:{os.environ["PATH"]}'})
    assert done.returncode == 74 and 'no space' in done.stderr and 'made' not in done.stdout, done
    assert [path.name for path in (tmp_path / 'server').iterdir()] == ['.reigen.lock']


def test_sshconfig_asks_slurm_how_its_nodes_are_called(tmp_path):
    fake = tmp_path / 'sinfo'
    fake.write_text('#!/bin/sh\nprintf "dgx%02d\\n" 1 2 3\necho hsw7\necho login\necho 9\n')
    fake.chmod(0o755)
    done = sshconfig(tmp_path, '--dry-run', env={'PATH': f'{tmp_path}:{os.environ["PATH"]}'})
    assert 'Host dgx* hsw* login 9\n' in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize('words, text', [
    (['--port=22'], 'give a port that is free'),
    (['--port=x'], '--port x'),
    (['--hosts=a[1-3]'], "'[' cannot stand in a pattern"),
    (['--hosts= '], 'no pattern'),
    (['--dir=a"b'], 'quotes'),
    (['--nonsense'], 'sshconfig --nonsense: unknown option'),
    (['--hots=x'], 'sshconfig --hots=x: unknown option; did you mean --hosts?'),
    (['x'], 'sshconfig x: it takes options only'),
    (['--dir'], 'sshconfig --dir: its value is missing; write --dir DIR'),
    (['--dry-run=x'], 'sshconfig --dry-run takes no value'),
])
def test_sshconfig_names_what_is_wrong(tmp_path, words, text):
    done = run(REIGEN, 'sshconfig', f'--ssh-dir={tmp_path}/user', '--dry-run', *words)
    assert done.returncode == 2 and text in done.stderr, done


# ---------------------------------------------------------------------------- run-dock-asuser

GPUS = ('NV_GPU', 'NVIDIA_VISIBLE_DEVICES', 'CUDA_VISIBLE_DEVICES', 'SLURM_JOB_GPUS',
        'SLURM_STEP_GPUS')
DOCKER = '''#!/bin/bash
# What it was told, one line each but for the question for the image; create gives an id, cp what
# the image has.
test "$1" = image || { printf '%s|' "$@"; echo; } >>$LOG
case $1 in
pull) echo "docker says" >&2; $PULL ;;
create)
    eval "$CREATE"
    test -z "$FAIL" && echo 0123456789abcdef || { echo "docker says" >&2; exit 1; } ;;
version) test "$FAIL" != daemon ;;
container) test "$FAIL" = name || test -n "$STATE" && echo "$STATE" ;;
image) test "$FAIL" != image ;;
cp) case $2 in
    *:/etc/passwd | *:/etc/group) test -z "$ETC" || { eval "$ETC"; exit; } ;;
    esac
    case $2 in
    *:/etc/passwd) printf 'root:x:0:0:root:/root:/bin/sh\\nimage:x:7:7::/:/bin/sh\\n' >"$3" ;;
    *:/etc/group) printf 'imagegroup:x:7:\\n' >"$3" ;;
    *) cp "$2/passwd" "$2/group" $KEEP/ ;;
    esac ;;
start) test "$2" != --attach || { trap 'exit 9' TERM; $START; } ;;
exec) $START ;;
esac
'''


@pytest.fixture
def docker(tmp_path):
    """Runs run_dock_asuser.sh with a docker that keeps what it is told; (result, lines)."""
    for name in ('bin', 'keep', 'tmp', 'work'):
        (tmp_path / name).mkdir()
    (tmp_path / 'bin/docker').write_text(DOCKER)
    (tmp_path / 'bin/docker').chmod(0o755)
    (tmp_path / 'bin/run_dock_asuser.sh').symlink_to(REIGEN)
    env = {'PATH': f'{tmp_path}/bin:/usr/bin:/bin', 'LOG': tmp_path / 'log', 'START': 'exit 5',
           'KEEP': tmp_path / 'keep', 'TMPDIR': tmp_path / 'tmp', 'HOME': tmp_path, 'FAIL': '',
           'STATE': '', 'CREATE': 'true', 'PULL': 'exit 1', 'ETC': ''}

    def start(*words, **more):
        return subprocess.Popen(
            [tmp_path / 'bin/run_dock_asuser.sh', *words], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path / 'work',
            env={k: v for k, v in built.environment(**env).items() if k not in GPUS} | more)

    def lines():
        log = tmp_path / 'log'
        return [line[:-1].split('|') for line in log.read_text().splitlines()] \
            if log.exists() else []

    return start, lines, tmp_path


def end(job):
    out, err = job.communicate(timeout=60)
    return subprocess.CompletedProcess(job.args, job.returncode, out, err)


def test_a_command_runs_as_the_user_and_its_code_is_ours(docker):
    start, lines, folder = docker
    done = end(start('--container=IMG', '--noninteractive', '--datamnts=/opt,/srv', '--privileged',
                     '--dockopts=-e "A=b c" --cap-add=IPC_LOCK', '--envlist=X,Y=1',
                     '--dockcmd=./job.sh "two words"', '--epochs=5', '', '--dockname', 'mine'))
    assert done.returncode == 5, done
    create = lines()[0]
    where = create.index('IMG')
    assert create[where:] == ['IMG', './job.sh', 'two words', '--epochs=5', '']
    for word in ('--name=mine', f'--user={os.getuid()}:{os.getgid()}', f'--env=HOME={folder}',
                 f'--env=USER={USER}', f'--mount=type=bind,source={folder},target={folder}',
                 '--mount=type=bind,source=/srv,target=/srv', f'--workdir={folder}/work',
                 '--privileged', '--env=X', '--env=Y=1', '--network=host', '--cap-add=IPC_LOCK'):
        assert word in create[:where], create
    assert create[create.index('-e') + 1] == 'A=b c'
    assert lines()[-2:] == [['start', '--attach', '--interactive', '0123456789abcdef'],
                            ['rm', '-f', '-v', '0123456789abcdef']]
    # Nothing is written where the user stands, and nothing stays.
    assert list((folder / 'work').iterdir()) == [] and list((folder / 'tmp').iterdir()) == []


@pytest.fixture
def ordinary():
    """A folder of a user who is not root, and how to become them. Root needs no name in an image,
    and what the others must not read."""
    with tempfile.TemporaryDirectory(prefix='dock-') as name:
        folder = Path(name)
        for each in ('bin', 'keep', 'tmp', 'work'):
            (folder / each).mkdir()
        (folder / 'bin/docker').write_text(DOCKER)
        (folder / 'bin/docker').chmod(0o755)
        shutil.copy(REIGEN, folder / 'bin/run_dock_asuser.sh')
        (folder / 'secret').write_text('secret:x:1:1::/:/bin/sh\n')
        who = {}
        if os.getuid() == 0:
            who = {'user': NOBODY, 'group': NOBODY, 'extra_groups': []}
            for path in [folder, *folder.rglob('*')]:
                os.chown(path, NOBODY, NOBODY)
        yield folder, who


@pytest.mark.parametrize('made', ['ln -s "$HOME/secret" "$3"', 'mkfifo "$3"',
                                  'mkdir -p "$3/sub"; ln -s "$HOME" "$3/sub/home"', None])
def test_what_an_image_has_in_a_files_place_leads_nowhere(ordinary, made):
    folder, who = ordinary
    env = {'PATH': f'{folder}/bin:/usr/bin:/bin', 'LOG': folder / 'log', 'START': 'exit 5',
           'KEEP': folder / 'keep', 'TMPDIR': folder / 'tmp', 'HOME': folder, 'FAIL': '',
           'STATE': '', 'CREATE': 'true', 'PULL': 'exit 1', 'ETC': made or ''}
    done = subprocess.run(
        [folder / 'bin/run_dock_asuser.sh', '--container=IMG', '--noninteractive', '--dockcmd=id'],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder / 'work', timeout=60,
        env={k: v for k, v in built.environment(**env).items() if k not in GPUS}, check=False,
        **who)
    assert done.returncode == 5, done
    told = (folder / 'keep/passwd').read_text() + (folder / 'keep/group').read_text()
    assert 'secret' not in told and 'root:x:0' in told
    assert ('image:x:7:7' in told) == (made is None), told
    assert list((folder / 'tmp').iterdir()) == []
    assert (folder / 'secret').read_text() == 'secret:x:1:1::/:/bin/sh\n'


def test_a_session_is_for_bash_and_takes_its_container_along(docker):
    start, lines, _ = docker
    done = end(start('--container', 'IMG', '--entrypoint=bash', '--bashinit=rc',
                     '--workdir=default'))
    assert done.returncode == 5, done
    assert f'--name={USER}_dock' in lines()[0] and '--entrypoint=bash' in lines()[0]
    assert '--tty' in lines()[0] and not [w for w in lines()[0] if w.startswith('--workdir')]
    assert lines()[-3:] == [['start', '0123456789abcdef'],
                            ['exec', '--interactive', '0123456789abcdef', 'bash', '--rcfile', 'rc'],
                            ['rm', '-f', '-v', '0123456789abcdef']]
    # The home is the host's, and so is its .bashrc.
    end(start('--container', 'IMG'))
    assert lines()[-2][3:] == ['bash', '--rcfile', '/dev/null']


@pytest.mark.parametrize('words, last', [
    (['--daemon'], 'start'), (['--keepalive'], 'exec'),
    (['--keepalive', '--noninteractive'], 'start'),
])
def test_a_container_that_is_to_stay_stays(docker, words, last):
    start, lines, _ = docker
    end(start('--container=IMG', *words))
    assert lines()[-1][0] == last


def created(docker, *words, **env):
    """docker create's command line for these options."""
    start, lines, _ = docker
    done = end(start('--container=IMG', *words, **env))
    assert done.returncode == 5, done
    return lines()[-next(i for i, line in enumerate(lines()[::-1], 1) if line[0] == 'create')]


def test_values_that_scripts_leave_empty_say_nothing(docker):
    plain = created(docker)
    said = ['--net=', '--entrypoint=', '--workdir=', '--bashinit=', '--datamnts=', '--dockopts=',
            '--dockcmd=', '--envlist=', '--dockname=']
    assert created(docker, *said) == plain


def test_infiniband_devices_are_an_option_and_no_word_of_the_command(docker):
    told = created(docker, '--ibdevices=/dev/infiniband/uverbs0,/dev/null', '--dockcmd=x')
    assert told[-2:] == ['IMG', 'x'], told
    assert {'--device=/dev/infiniband/uverbs0', '--device=/dev/null',
            '--cap-add=IPC_LOCK'} <= set(told), told
    told = created(docker, '--ibdevices', '--noninteractive', './job.sh')
    assert told[-2:] == ['IMG', './job.sh'], told
    assert ('--device=/dev/infiniband' in told) == Path('/dev/infiniband').exists(), told
    start, _, _ = docker
    refused = end(start('--container=IMG', '--ibdevices=mlx5_0'))
    assert refused.returncode == 2 and 'is not a device' in refused.stderr, refused


def test_published_ports_need_docker_s_own_network(docker):
    assert '--network=host' in created(docker)
    for ports in ('-p 8888:80', '-p8888:80', '-P'):
        told = created(docker, f'--dockopts={ports}')
        assert not [word for word in told if word.startswith('--network')], told
    assert '--network=bridge' in created(docker, '--net=bridge', '--dockopts=-p 8888:80')


def test_the_last_value_of_an_option_counts(docker):
    told = created(docker, '--datamnts=/opt', '--datamnts=/srv', '--dockcmd=a', '--dockcmd=b')
    assert told[-2:] == ['IMG', 'b'] and not [word for word in told if '/opt' in word], told


def test_the_image_s_user_has_nothing_of_ours(docker):
    start, lines, folder = docker
    told = created(docker, '--userdefault')
    assert not [w for w in told if w.startswith(('--user', '--group-add', '--env'))], told
    assert not [w for w in told if f'source={folder},' in w] and lines()[1][0] == 'start', lines()


def test_a_privileged_container_may_lock_memory(docker):
    assert '--ulimit=memlock=-1' in created(docker, '--privileged')
    assert '--ulimit=memlock=-1' not in created(docker)


def wait_for_line(job, lines, *words):
    def is_there():
        assert job.poll() is None
        return any(line[:len(words)] == list(words) for line in lines())
    until(is_there, ' '.join(words), 30, lines)


def test_a_signal_while_docker_creates_leaves_no_container(docker):
    start, lines, folder = docker
    os.mkfifo(folder / 'go')
    job = start('--container=IMG', CREATE=f'read line <{folder}/go')
    wait_for_line(job, lines, 'create')
    job.send_signal(signal.SIGTERM)
    # The signal is pending or was taken; what docker creates now must not stay.
    with open(folder / 'go', 'w', encoding='ascii') as go:
        go.write('\n')
    done = end(job)
    assert done.returncode == 143 and [line[0] for line in lines()] == ['create', 'rm'], (done,
                                                                                       lines())


def test_a_signal_while_docker_fetches_the_image_ends_that(docker):
    start, lines, _ = docker
    job = start('--container=IMG', FAIL='image', PULL='exec sleep 60')
    wait_for_line(job, lines, 'pull')
    job.send_signal(signal.SIGINT)
    done = end(job)
    assert done.returncode == 130 and [line[0] for line in lines()] == ['pull'], (done, lines())


def test_sigterm_reaches_the_command_and_the_container_is_removed(docker):
    start, lines, _ = docker
    job = start('--container=IMG', '--noninteractive', START='exec sleep 60')
    wait_for_line(job, lines, 'start', '--attach')
    job.send_signal(signal.SIGTERM)
    done = end(job)
    assert done.returncode in (9, 143) and lines()[-1][0] == 'rm', (done, lines())


@pytest.mark.parametrize('cause, code, text', [
    ('daemon', 69, 'start its daemon'),
    ('name', 125, f'there is a container {USER}_dock already'),
    ('image', 125, '--container=IMG: the image is not on this computer'),
    ('options', 125, 'docker create ended with 1; its message is above'),
])
def test_docker_that_fails_is_named_and_nobody_elses_container_is_touched(docker, cause, code,
                                                                          text):
    start, lines, _ = docker
    done = end(start('--container=IMG', FAIL=cause))
    assert done.returncode == code and 'docker says' in done.stderr and text in done.stderr, done
    assert {line[0] for line in lines()} <= {'create', 'version', 'container', 'pull'}


@pytest.mark.parametrize('state, code', [
    ('0001-01-01T00:00:00Z 127', 127), ('0001-01-01T00:00:00Z 128', 125),
    ('2026-11-21T18:54:49.1Z 1', 1), ('', 1),
])
def test_a_command_that_cannot_be_started_is_told_from_one_that_ends_with_1(docker, state, code):
    start, lines, _ = docker
    done = end(start('--container=IMG', '--noninteractive', START='exit 1', STATE=state))
    assert done.returncode == code and ('could not be started' in done.stderr) == (code != 1), done
    assert lines()[-1][0] == 'rm'


@pytest.mark.parametrize('words, text', [
    ([], 'give --container=IMAGE'),
    (['--container=I', '--daemon', '--noninteractive'], 'exclude each other'),
    (['--container=I', '--daemon=yes'], '--daemon takes no value'),
    (['--container'], "--container: its value is missing"),
    (['--container='], "--container: its value is empty"),
    (['--container', '--daemon'], '--container: its value is missing; write --container=IMAGE'),
    (['--container=--rm'], 'docker would take the value for an option'),
    (['--container=I', '--deamon'], '--deamon: did you mean --daemon?'),
    (['--container=I', '--data-mnts=/opt'], 'did you mean --datamnts?'),
    (['--container=I', '--dockopts=-e "x'], '--dockopts'),
])
def test_run_dock_asuser_names_what_is_wrong(docker, words, text):
    start, lines, _ = docker
    done = end(start(*words))
    assert done.returncode == 2 and text in done.stderr and lines() == [], done


def test_no_docker_is_said(docker):
    start, _, folder = docker
    done = end(start('--container=IMG', PATH=str(folder)))
    assert done.returncode == 69 and 'docker is not in PATH' in done.stderr, done


def test_the_gpus_are_those_that_were_given(docker):
    start, _, folder = docker
    (folder / 'bin/nvidia-smi').write_text('#!/bin/sh\n')
    (folder / 'bin/nvidia-smi').chmod(0o755)
    for env, gpus in (({'NV_GPU': '2,3'}, '"device=2,3"'),
                      ({'SLURM_STEP_GPUS': '1'}, '"device=1"'),
                      ({'SLURM_JOB_GPUS': '0,1', 'NV_GPU': '1'}, '"device=1"')):
        told = end(start('--container=IMG', '--dry-run', **env)).stdout
        assert told.startswith('# A plan, not a script: ')
        assert f"'--gpus={gpus}'" in told, (env, told)
    for word in ('--nvdock1', '--nvdock2'):
        told = end(start('--container=IMG', '--dry-run', word, NV_GPU='2,3')).stdout
        assert '--runtime=nvidia' in told and 'NVIDIA_VISIBLE_DEVICES=2,3' in told, told
        assert '--gpus' not in told
    told = created(docker, SLURM_STEP_GPUS='')
    assert '--env=NVIDIA_VISIBLE_DEVICES=void' in told, told
    assert not [word for word in told if word.startswith('--gpus')], told


@pytest.mark.parametrize('sinfo, env, gpus', [
    ('gpu:2', {}, None), ('gpu:2', {'NV_GPU': '0'}, None), ('(null)', {}, 'all'),
    ('(null)', {'NV_GPU': '0'}, '"device=0"'), ('gpu:2', {'SLURM_JOB_GPUS': '1'}, '"device=1"')])
def test_a_job_of_slurms_that_asked_for_no_gpu_gets_none(docker, sinfo, env, gpus):
    _, _, folder = docker
    for name, says in (('nvidia-smi', ''), ('sinfo', f'echo "{sinfo}"')):
        (folder / 'bin' / name).write_text(f'#!/bin/sh\n{says}\n')
        (folder / 'bin' / name).chmod(0o755)
    told = created(docker, SLURM_JOB_ID='7', SLURMD_NODENAME='n1', **env)
    found = [word for word in told if word.startswith('--gpus=')]
    assert found == ([f'--gpus={gpus}'] if gpus else []), told
    assert ('--env=NVIDIA_VISIBLE_DEVICES=void' in told) == (gpus is None), told



def test_the_container_is_kept_to_the_callers_cpus(docker):
    ours = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(ours)})
    try:
        assert f'--cpuset-cpus={max(ours)}' in created(docker)
        told = created(docker, '--dockopts=--cpuset-cpus 7')
        assert not [word for word in told if word.startswith('--cpuset-cpus=')], told
    finally:
        os.sched_setaffinity(0, ours)


def test_what_looks_like_our_options_can_be_the_command_s(docker):
    start, lines, _ = docker
    end(start('--container=IMG', '--noninteractive', '--dockcmd=./job.sh', '--deamon', '--',
              '--net'))
    assert lines()[0][-4:] == ['IMG', './job.sh', '--deamon', '--net']


def test_help_comes_by_the_scripts_name(docker):
    start, _, _ = docker
    done = end(start('--help'))
    assert done.returncode == 0 and '--noninteractive' in done.stdout and done.stderr == ''


def test_install_scripts_makes_the_names_where_they_are_asked_for(tmp_path):
    def install(*words):
        return subprocess.run([REIGEN, 'install-scripts', *words], capture_output=True, text=True,
                              timeout=60, check=False)
    for _ in range(2):  # the second time they are there
        done = install(tmp_path)
        assert done.returncode == 0, done.stderr
    for name, option in (('srun_docker.sh', '--script'), ('run_dock_asuser.sh', '--dockcmd'),
                         ('create_mpisshconfig.sh', '--hosts')):
        shown = subprocess.run([tmp_path / name, '--help'], capture_output=True, text=True,
                               timeout=60, check=True).stdout
        assert option in shown and f'{tmp_path}/{name} -> ' in done.stdout
    (tmp_path / 'srun_docker.sh').unlink()
    (tmp_path / 'srun_docker.sh').write_text('mine')
    (tmp_path / 'run_dock_asuser.sh').unlink()
    (tmp_path / 'run_dock_asuser.sh').symlink_to('/gone/bin/reigen')
    done = install(tmp_path)
    assert done.returncode == 2 and f'{tmp_path}/srun_docker.sh is there already' in done.stderr
    assert (tmp_path / 'srun_docker.sh').read_text() == 'mine'
    (tmp_path / 'srun_docker.sh').unlink()
    assert install(tmp_path).returncode == 0
    assert (tmp_path / 'run_dock_asuser.sh').resolve() == (tmp_path / 'srun_docker.sh').resolve()
    for words, said in (([], 'name the directory'), (['a', 'b'], 'one argument too many'),
                        (['--force'], 'unknown option --force'),
                        ([tmp_path / 'none'], 'make the directory first')):
        done = install(*words)
        assert done.returncode == 2 and said in done.stderr, done.stderr
