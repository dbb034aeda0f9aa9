# SPDX-License-Identifier: Apache-2.0
"""--sync: the directory goes to hosts that lack it, as it was when the job began. Hosts are homes
on this computer, so they have the launcher's directory, until what stands for ssh changes it. Hosts
that really lack it: tests/hosts."""
import os
import shutil
import signal
import subprocess

import pytest

from built import PROGRAMS, environment
from wait import until

SSH = '''#!/bin/sh
while [ "$1" != -- ]; do shift; done
export HOME={folder}/home/$2 LOGIN=$2
unset XDG_RUNTIME_DIR
mkdir -p "$HOME"
cd "$HOME" || exit
{before}
exec sh -c "$3"
'''
#: A host that has another directory by that name.
OTHER = 'echo "echo other" >{work}/train.sh; rm -f {work}/gone; echo more >{work}/new'


@pytest.fixture
def place(tmp_path, reigen, start):
    """A directory to work in, with a script, and how a job is run from there."""
    work, tmp = tmp_path / 'work', tmp_path / 'tmp'
    for folder in (work, tmp):
        folder.mkdir()
    (work / 'train.sh').write_text('#!/bin/sh\necho $LOGIN has the first; pwd\n')
    (work / 'train.sh').chmod(0o755)

    class Place:
        def __init__(self):
            self.work, self.tmp, self.home = work, tmp, tmp_path / 'home'

        def env(self, before=':', **more):
            ssh = tmp_path / 'fake-ssh'
            ssh.write_text(SSH.format(folder=tmp_path, before=before.format(work=work)))
            ssh.chmod(0o755)
            return environment(REIGEN_SSH=ssh, HOME=tmp_path, TMPDIR=tmp, **more)

        def run(self, *words, before=':', cwd=work, **more):
            return reigen('run', '--no-tag-output', *words, cwd=cwd,
                          env=self.env(before, **more))

        def start(self, *words, before=':'):
            return start(PROGRAMS.reigen, 'run', '--no-tag-output', *words, cwd=work,
                         env=self.env(before))

        def git(self, *words):
            subprocess.run(['git', '-C', work, '-c', 'user.name=a', '-c', 'user.email=a@b', *words],
                           check=True, capture_output=True)

        def left(self):
            """What jobs have left in TMPDIR, but what is kept for the next one."""
            return [str(p.relative_to(tmp)) for p in tmp.glob('*/*') if p.name != 'files']

    place = Place()
    yield place
    until(lambda: not place.left(), 'nothing is left in TMPDIR', seen=place.left)


def test_ranks_run_in_a_copy_of_what_was_there(place):
    (place.work / 'gone').write_bytes(bytes(3 << 20))
    (place.work / 'in/deep').mkdir(parents=True)
    (place.work / 'in/deep/odd\nname').write_text('x')
    os.symlink('deep/odd\nname', place.work / 'in/link')
    os.symlink('/etc', place.work / 'outside')
    with open(os.fsencode(place.work) + b'/bytes-\xff', 'w') as file:
        file.write('y')
    done = place.run('--sync', '-H', 'a,b', '--', 'sh', '-c', './train.sh; wc -c <gone; '
                     'ls | grep -v bytes; cat in/link bytes*; readlink in/link; '
                     'ls -l train.sh | cut -c1-10',
                     before=OTHER)
    assert done.returncode == 0, done.stderr
    assert 'a has the first' in done.stdout and 'b has the first' in done.stdout
    assert done.stdout.count(f'{place.tmp}/reigen-{os.getuid()}/job-') == 2
    assert done.stdout.count('3145728') == 2 and done.stdout.count('xydeep/odd\nname') == 2
    assert done.stdout.count('-rwx') == 2
    assert 'new\n' not in done.stdout and 'outside\n' not in done.stdout
    assert f'{place.work} is in no git work tree, so all that is in it is sent' in done.stderr
    assert 'left out' in done.stderr and 'outside' in done.stderr


def test_only_what_has_changed_is_sent_again(place):
    (place.work / 'gone').write_bytes(bytes(3 << 20))
    for name, sent in (('first', '3 MiB'), ('second', None), ('third', '4 bytes')):
        (place.work / 'name').write_text('name' if sent == '4 bytes' else '')
        done = place.run('-v', '-v', '--sync', '-H', 'a', '--', 'wc', '-c', 'gone',
                         before='rm -f {work}/gone {work}/name')
        assert '3145728' in done.stdout, done.stderr
        assert (f'of {sent}' if sent else '') in done.stderr, (name, done.stderr)
        assert ('sending files' in done.stderr) == bool(sent), (name, done.stderr)
        (place.work / 'gone').write_bytes(bytes(3 << 20))


def test_a_directory_that_is_there_is_used_as_it_is(place):
    done = place.run('--sync', '-H', 'a,b', '--', './train.sh')
    assert sorted(done.stdout.split('\n')[:4]) == sorted(
        ['a has the first', 'b has the first', *[str(place.work)] * 2]), done.stderr


@pytest.mark.skipif(not shutil.which('git'), reason='git is not installed')
def test_what_git_ignores_stays_here(place):
    for name in ('kept', 'junk', 'data/big', 'lib/code'):
        (place.work / name).parent.mkdir(exist_ok=True)
        (place.work / name).write_text(name)
    (place.work / '.gitignore').write_text('junk\ndata/\n')
    place.git('init')
    place.git('add', 'train.sh', 'kept')
    place.git('commit', '-m', 'first')
    (place.work / 'kept').unlink()
    place.git('init', 'lib')  # a repository in it
    done = place.run('--sync', '-H', 'a', '--', 'sh', '-c', 'find . ! -type d | sort',
                     before=OTHER)
    assert done.stdout.split() == ['./.gitignore', './lib/code', './train.sh'], done.stderr
    assert 'git' not in done.stderr


def test_a_rank_starts_where_the_user_is_in_a_directory_above(place):
    (place.work / 'sub').mkdir()
    done = place.run('--sync=..', '-H', 'a', '--', 'sh', '-c', 'pwd; ../train.sh',
                     before=OTHER, cwd=place.work / 'sub')
    assert done.stdout.startswith(f'{place.tmp}/') and '/sub\na has the first' in done.stdout


def test_what_is_too_large_is_named(place):
    (place.work / 'weights').write_bytes(bytes(3 << 20))
    done = place.run('--sync', '--sync-limit', '2m', '-H', 'a', '--', './train.sh')
    assert done.returncode == 2
    assert '2 MiB are allowed; the largest are weights (3 MiB), train.sh' in done.stderr


def test_a_file_that_does_not_stand_still_is_named(place, start):
    log = place.work / 'log'
    with log.open('w') as file:
        file.truncate(32 << 20)
    writer = start('sh', '-c', f'while :; do echo line >>{log}; done')
    until(lambda: log.stat().st_size > 32 << 20, 'the writer has begun')
    done = place.run('--sync', '-H', 'a', '--', './train.sh')
    writer.kill()
    assert done.returncode == 2 and f'{log} changes while it is read' in done.stderr


def test_each_start_of_a_job_has_the_same(place):
    done = place.run('--sync', '--max-restarts', '1', '-H', 'a', '--', 'sh', '-c',
                     './train.sh; [ -e ../../again ] || { touch ../../again; exit 3; }',
                     before=OTHER)
    (place.tmp / 'again').unlink()
    assert done.returncode == 0 and done.stdout.count('a has the first') == 2, done.stderr


def test_a_host_that_comes_later_has_the_same(place, tmp_path):
    hosts = tmp_path / 'hosts'
    hosts.write_text('a:1\n')
    job = place.start('--sync', '-np', '1', '--min-np', '1', '--max-np', '2',
                      '--host-discovery-script', f'cat {hosts}', '--', 'sh', '-c',
                      './train.sh; exec sleep 1000', before=OTHER)
    assert job.stdout.readline() == 'a has the first\n'
    hosts.write_text('a:1\nb:1\n')
    lines = [job.stdout.readline() for _ in range(3)]
    assert 'b has the first\n' in lines, lines
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=60)


def test_the_copy_goes_with_a_killed_launcher(place):
    job = place.start('--sync', '-H', 'a', '--', 'sh', '-c', './train.sh; exec sleep 1000',
                      before=OTHER)
    assert job.stdout.readline() == 'a has the first\n'
    assert place.left()
    job.kill()
    until(lambda: not place.left(), 'the agent has removed the copy', seen=place.left)


def test_a_killed_agent_s_copy_is_removed_by_the_next_job(place):
    job = place.start('--sync', '-H', 'a', '--', 'sh', '-c',
                      './train.sh; kill -9 $PPID; exec sleep 1000', before=OTHER)
    job.communicate(timeout=60)
    assert place.left()
    assert place.run('-H', 'a', '--', 'true').returncode == 0


#: In a name space of mounts of its own: TMPDIR has 1 MiB, and nothing else takes a job's directory.
FULL = ('exec unshare -m sh -ec \'mount --bind {root} {root}; '
        'mount -t tmpfs -o size=1m none {root}/tmp; for d in /tmp /var/tmp /dev/shm; '
        'do mount --rbind $d $d; mount -o remount,ro,bind $d; done; '
        'TMPDIR={root}/tmp exec sh -c "$0"\' "$3"')


@pytest.mark.skipif(os.geteuid() != 0, reason='mounts need root')
def test_a_host_without_room_says_so(place, tmp_path):
    (place.work / 'gone').write_bytes(bytes(3 << 20))
    done = place.run('--sync', '-H', 'a', '--', './train.sh',
                     before=OTHER + '\n' + FULL.replace('{root}', str(tmp_path)))
    assert done.returncode == 69, done.stderr
    assert 'host a: the directory of --sync cannot be there: none of TMPDIR,' in done.stderr
    assert 'has room for files of 3 MiB and lets programs run; 1' in done.stderr


def test_without_it_the_hint_names_the_script(place):
    (place.work / 'train.py').write_text('print(1)')
    done = place.run('-H', 'a', '--', 'python3', '-u', 'train.py', '--log', 'train.sh',
                     before='rm {work}/train.py')
    assert done.returncode == 2
    assert 'train.py is here, but not on a: --sync, or a shared directory\n' in done.stderr


def test_without_it_the_hint_names_the_program_or_the_directory(place):
    done = place.run('-H', 'a', '--', './train.sh', before='rm {work}/train.sh')
    assert done.returncode == 127
    assert './train.sh is here, but not on a: --sync, or a shared directory\n' in done.stderr
    other = place.home.parent / 'other'
    other.mkdir()
    done = place.run('-H', 'a', '--cwd', other, '--', 'true', before=f'rmdir {other}')
    assert f'{other} is here, but not on a: --sync, or a shared directory\n' in done.stderr


def test_there_is_no_hint_where_the_script_is(place):
    done = place.run('-H', 'a', '--', 'sh', '-c', 'exit 3', 'train.sh')
    assert done.returncode == 3 and 'is here, but' not in done.stderr


@pytest.mark.parametrize('words, says', [
    (['--sync', '--on', 'slurm', '--submit'], 'not together with --submit'),
    (['--sync', '--on', 'kubernetes', '--image', 'x'], 'put it into the image or a volume'),
    (['--sync', '--write-plan', 'plan'], 'not together with --write-plan'),
    (['--sync', '--engine', 'openmpi'], 'a shared file system'),
    (['--sync=/nowhere', '-H', 'a'], '--sync /nowhere: No such file'),
    (['--sync=..', '--cwd', '/', '-H', 'a'], '--cwd / is not in')])
def test_what_cannot_be_sent_is_refused(place, words, says):
    done = place.run('-np', '1', *words, '--', './train.sh')
    assert done.returncode == 2 and says in done.stderr, done.stderr
