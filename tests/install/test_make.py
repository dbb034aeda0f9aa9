# SPDX-License-Identifier: Apache-2.0
"""make, make install, and what they leave behind."""
import ctypes
import os
import re
import shlex
import subprocess
import time
from pathlib import Path

import pytest

import compiled
import travels
from clones import copy_source, make_in
from variants import rest
from wait import until

ROOT = Path(__file__).resolve().parents[2]


def run(*argv, **kwargs):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=60,
                          check=False, **kwargs)


def seconds_of(function, *args):
    start = time.monotonic()
    result = function(*args)
    return time.monotonic() - start, result


@pytest.mark.serial
def test_make_with_nothing_to_do_prints_one_line_in_a_second(make):
    make(ROOT)
    took, (status, output) = seconds_of(make, ROOT)
    assert status == 0, output
    assert re.fullmatch(r'up to date: .*\n', output), output
    assert took < 2.0


@pytest.mark.serial
def test_packages_that_are_there_are_not_installed_again():
    run('tools/deps.sh', 'check', cwd=ROOT)
    took, done = seconds_of(lambda: run('tools/deps.sh', 'check', cwd=ROOT))
    assert (done.returncode, done.stdout, done.stderr) == (0, '', '')
    assert took < 0.6


def test_help_has_every_text_whole():
    lines = run('make', 'help', cwd=ROOT).stdout.splitlines()
    texts = re.findall(r'^([a-z-]+): *## (.+)$', (ROOT / 'Makefile').read_text(), re.M)
    assert len(texts) > 8 and any(': ' in text for _, text in texts)
    assert [line.split(None, 2)[1:] for line in lines] == [[name, text] for name, text in texts]


def test_a_long_step_says_what_it_does(tmp_path):
    log = tmp_path / 'log'
    step = f'. {ROOT}/tools/progress.sh; progress "build: compiling" {log} sh -c'
    # On a terminal, in a line that is wiped.
    inner = shlex.quote(f"{step} 'echo [1/9] first; sleep 2; echo [9/9] last'; echo $?")
    inner = inner.replace(str(log), f'{log}2')
    with subprocess.Popen(['script', '-qec', f'sh -c {inner}', '/dev/null'],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as terminal:
        done = run('sh', '-c', f"{step} 'echo one; sleep 3; echo two; exit 7'; echo $?")
        assert done.stdout == 'build: compiling ...\n7\n', done
        assert log.read_text() == 'one\ntwo\n'
        quick = run('sh', '-c', f"{step} 'echo one'; echo $?")
        assert quick.stdout == '0\n'
        seen = terminal.communicate(timeout=60)[0]
    assert b'\r\x1b[Kbuild: compiling: [1/9] first' in seen
    assert seen.endswith(b'\r\x1b[K0\r\n'), seen


def test_a_step_prints_its_result_and_all_of_it_when_it_failed(tmp_path):
    (tmp_path / 'build').mkdir()
    step = f'. {ROOT}/tools/progress.sh; step "wheel" sh -c'
    words = "'echo [1/9] first >&2; echo result; exit "
    good = run('sh', '-c', f"{step} {words}0'; echo $?", cwd=tmp_path)
    assert (good.stdout, good.stderr) == ('result\n0\n', ''), good
    bad = run('sh', '-c', f"{step} {words}3'; echo $?", cwd=tmp_path)
    assert (bad.stdout, bad.stderr) == ('3\n', '[1/9] first\nresult\n'), bad
    assert list((tmp_path / 'build').iterdir()) == []


def test_an_unknown_set_of_packages_is_refused():
    done = run('tools/deps.sh', 'everything', cwd=ROOT)
    assert done.returncode == 2
    assert 'usage' in done.stderr


def test_missing_packages_without_root_or_sudo_are_named(tmp_path):
    fake = tmp_path / 'bin'
    fake.mkdir()
    for name in ('sh', 'awk', 'dirname', 'cat', 'stat', 'head', 'tail', 'mkdir', 'mv', 'python3'):
        (fake / name).symlink_to(Path('/usr/bin') / name)
    for name, text in (('dpkg-query', 'exit 1'), ('apt-get', 'exit 1'), ('id', 'echo 1000')):
        (fake / name).write_text(f'#!/bin/sh\n{text}\n')
        (fake / name).chmod(0o755)
    done = run('tools/deps.sh', 'build', cwd=ROOT, env={'PATH': str(fake)})
    assert done.returncode == 77
    assert 'apt-get install' in done.stderr and 'libsodium-dev' in done.stderr


def test_venv_does_not_stand_on_itself(tmp_path):
    """.venv is removed before it is made from the answer."""
    for folder in ('tools', '.venv/bin', 'own', 'link'):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / 'tools/python.sh').symlink_to(ROOT / 'tools/python.sh')
    for python in ('own/python3', 'python'):
        (tmp_path / python).write_text('#!/bin/sh\necho "$0"\necho /opt/torch/__init__.py\n')
        (tmp_path / python).chmod(0o755)
    (tmp_path / '.venv/bin/python3').symlink_to(tmp_path / 'python')
    (tmp_path / 'link/python3').symlink_to('../.venv/bin/python3')
    (tmp_path / 'whole').symlink_to('.venv')
    own = tmp_path / 'own'
    for first in ('.venv/bin', 'link', 'whole/bin', 'own'):
        done = run('tools/python.sh', cwd=tmp_path,
                   env={'PATH': f'{tmp_path / first}:{own}:/usr/bin:/bin'})
        assert (done.stdout, done.stderr) == (f'{own}/python3\n', ''), first
    (own / 'python3').unlink()
    done = run('tools/python.sh', cwd=tmp_path, env={'PATH': f'{tmp_path}/.venv/bin:/bin'})
    assert done.stdout.endswith('/bin/python3\n') and str(tmp_path) not in done.stdout, done


def test_venv_imports_horovod_from_anywhere(tmp_path):
    done = run(ROOT / '.venv/bin/python', '-c',
               'import horovod.torch as hvd; hvd.init(); print(hvd.size(), hvd.rank())',
               cwd=tmp_path)
    assert done.stdout.strip() == '1 0', done.stderr


def test_venv_knows_both_distributions(tmp_path):
    done = run(ROOT / '.venv/bin/python', '-c', 'import importlib.metadata as m, horovod\n'
               'print(m.version("horovod") == horovod.__version__ + "+reigen",'
               ' m.requires("horovod"), m.version("reigen"))', cwd=tmp_path)
    assert done.stdout == "True ['reigen (==0.1.0)'] 0.1.0\n", done.stderr


@pytest.fixture(scope='module')
def prefix(tmp_path_factory):
    """What make install puts under a prefix."""
    where = tmp_path_factory.mktemp('prefix') / 'opt'
    done = run('make', 'install', f'PREFIX={where}', cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return where


def test_install_puts_every_part_under_the_prefix(prefix):
    found = {str(p.relative_to(prefix)) for p in prefix.rglob('*') if p.is_file()}
    for wanted in (r'bin/reigen', r'bin/reigen-agent', r'bin/reigen-bench',
                   r'bin/horovodrun',
                   r'bin/srun_docker\.sh', r'bin/run_dock_asuser\.sh',
                   r'bin/create_mpisshconfig\.sh',
                   r'include/reigen/reigen\.h',
                   r'lib/libreigen\.so(\.[\d.]+)?', r'lib/pkgconfig/reigen\.pc',
                   r'share/reigen/examples/pytorch_mnist\.py',
                   r'share/reigen/examples/slurm/pytorch_mnode/pytorch_hvd_mnist_example\.sh',
                   r'share/reigen/examples/data/train-images-idx3-ubyte\.gz',
                   r'share/man/man1/reigen\.1(\.gz)?',
                   r'share/man/man1/horovodrun\.1(\.gz)?',
                   *(rf'share/man/man1/reigen-{page}\.1(\.gz)?'
                     for page in ('srun-docker', 'run-dock-asuser', 'sshconfig', 'doctor', 'stop')),
                   *(f'share/{place}{end}' for place, end in
                     (('man/man1/srun_docker.sh', '.1'), ('man/man1/run_dock_asuser.sh', '.1'),
                      ('man/man1/create_mpisshconfig.sh', '.1'),
                      ('bash-completion/completions/srun_docker.sh', ''),
                      ('fish/vendor_completions.d/create_mpisshconfig.sh', '.fish'))),
                   r'share/bash-completion/completions/reigen(\.bash)?',
                   r'share/zsh/site-functions/_reigen',
                   r'share/fish/vendor_completions\.d/reigen\.fish',
                   r'lib/python[\d.]+/[a-z]+-packages/horovod/torch/__init__\.py',
                   r'lib/python[\d.]+/[a-z]+-packages/reigen/libreigen\.so'):
        assert any(re.fullmatch(wanted, name) for name in found), f'{wanted} not in {sorted(found)}'


def test_nothing_installed_knows_where_it_was_built(prefix):
    secret = str(ROOT).encode()
    knows = [str(p) for p in prefix.rglob('*') if p.is_file() and secret in p.read_bytes()]
    assert knows == []


def test_what_make_sends_to_hosts_and_images_needs_glibc_2_28_alone(tmp_path):
    travels.check(travels.unpacked(ROOT / '.venv/bin/reigen', tmp_path))


def test_what_an_installation_sends_needs_glibc_2_28_alone(prefix, tmp_path):
    travels.check(travels.unpacked(prefix / 'bin/reigen', tmp_path))


def test_installed_launcher_finds_its_agent(prefix):
    done = run(prefix / 'bin/reigen', 'run', '-np', '2', '--', 'sh', '-c', 'echo rank $RANK',
               cwd='/', env={'PATH': '/usr/bin:/bin'})
    assert done.returncode == 0, done.stderr
    assert 'rank 0' in done.stdout and 'rank 1' in done.stdout


def test_installed_python_package_brings_its_library(prefix):
    site = next(prefix.glob('lib/python*/*-packages'))
    done = run(ROOT / '.venv/bin/python', '-c',
               'import reigen, horovod.torch as hvd\n'
               'hvd.init(); print(hvd.size(), reigen.__file__)',
               cwd='/', env={**os.environ, 'PYTHONPATH': str(site)})
    assert done.returncode == 0, done.stderr
    assert str(site) in done.stdout


def test_installed_header_and_library_fit_together(prefix, tmp_path):
    source = tmp_path / 'use.c'
    source.write_text('#include <reigen/reigen.h>\n#include <stdio.h>\n'
                      'int main(void) { puts(reigen_version()); return reigen_size() > 0; }\n')
    env = {**os.environ, 'PKG_CONFIG_PATH': str(prefix / 'lib/pkgconfig')}
    flags = run('pkg-config', '--cflags', '--libs', 'reigen', env=env)
    assert flags.returncode == 0, flags.stderr
    done = run('cc', source, '-o', tmp_path / 'use', *flags.stdout.split())
    assert done.returncode == 0, done.stderr
    done = run(tmp_path / 'use', env={'LD_LIBRARY_PATH': str(prefix / 'lib')})
    assert re.fullmatch(r'\d+\.\d+\.\d+\n', done.stdout), done.stderr
    ctypes.CDLL(str(prefix / 'lib/libreigen.so'))


EXAMPLES = {
    'allreduce': [f'rank {r} of 4: 1.5 2.5 3.5 4.5' for r in range(4)],
    'async': [f'rank {r}: layer 0 is 6, layer 7 is 34' for r in range(4)],
    'process_set': ["rank 0: the even ranks' sum is 2", "rank 1: the odd ranks' sum is 4",
                    "rank 2: the even ranks' sum is 2", "rank 3: the odd ranks' sum is 4"],
}


@pytest.mark.parametrize('name', EXAMPLES)
def test_an_example_in_c_is_built_as_the_page_says(prefix, tmp_path, name):
    block = re.search(r'```sh\n(.*?)```', (ROOT / 'docs/c.md').read_text(), re.S)[1]
    commands = block.replace('DIR/', f'{prefix}/').replace('allreduce', name)
    commands = commands.replace('cc -o', 'cc -std=c11 -Wall -Wextra -Werror -o')
    (tmp_path / f'{name}.c').symlink_to(prefix / f'share/reigen/examples/c/{name}.c')
    done = run('sh', '-ec', commands.replace('reigen run', 'reigen run --no-tag-output'),
               cwd=tmp_path, env={**os.environ, 'PATH': f'{prefix}/bin:/usr/bin:/bin'})
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, EXAMPLES[name]), done.stderr


def test_destdir_is_put_before_the_prefix(tmp_path):
    done = run('make', 'install', 'PREFIX=/opt/reigen', f'DESTDIR={tmp_path}', cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / 'opt/reigen/bin/reigen').exists()


def test_uninstall_removes_what_install_put_there_and_nothing_else(make, tmp_path):
    prefix = tmp_path / 'a place'
    (prefix / 'bin').mkdir(parents=True)
    (prefix / 'bin/other').write_text('of somebody else')
    for _ in range(2):
        status, output = make(ROOT, 'install', f'PREFIX={prefix}')
        assert status == 0, output
    # What an older version had, and what python makes of the packages.
    manifest = prefix / 'share/reigen/installed'
    old = prefix / 'share/reigen/old'
    old.write_text('of the version before')
    manifest.write_text(manifest.read_text() + f'file {old}\n')
    site = next(prefix.glob('lib/python*/*-packages'))
    assert run('python3', '-c', 'import horovod', env={'PATH': '/usr/bin', 'PYTHONPATH': str(site)}
               ).returncode == 0
    status, output = make(ROOT, 'install', f'PREFIX={prefix}')
    assert status == 0 and not old.exists(), output
    status, output = make(ROOT, 'uninstall', f'PREFIX={prefix}')
    assert status == 0, output
    assert [str(p.relative_to(prefix)) for p in prefix.rglob('*')] == ['bin', 'bin/other']
    status, output = make(ROOT, 'uninstall', f'PREFIX={prefix}')
    assert status != 0 and 'nothing to remove' in output


def test_an_installation_that_was_cut_off_can_be_removed(make, tmp_path):
    """The list is there before the first file is; here a folder stands in the way of a program."""
    prefix = tmp_path / 'opt'
    (prefix / 'bin/reigen').mkdir(parents=True)
    status, output = make(ROOT, 'install', f'PREFIX={prefix}')
    assert status != 0 and (prefix / 'bin/reigen-agent').exists(), output
    (prefix / 'bin/reigen').rmdir()
    status, output = make(ROOT, 'uninstall', f'PREFIX={prefix}')
    assert status == 0, output
    assert [str(p.relative_to(prefix)) for p in prefix.rglob('*')] == ['bin']


def test_python_m_reigen_is_the_program(tmp_path):
    done = run(ROOT / '.venv/bin/python', '-m', 'reigen', 'version', cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, 'reigen 0.1.0\n'), done.stderr
    done = run(ROOT / '.venv/bin/python', '-m', 'reigen', 'run', '--', 'sh', '-c', 'exit 3')
    assert done.returncode == 3
    done = run(ROOT / '.venv/bin/python', '-m', 'reigen', 'version',
               env={**os.environ, 'REIGEN_LAUNCHER': '/nowhere'})
    assert done.returncode == 1 and done.stderr.startswith('python -m reigen: REIGEN_LAUNCHER is')


@pytest.mark.parametrize('arguments, says', [((), 'usage'), (('PREFIX=here',), 'absolute')])
def test_install_without_a_usable_prefix_is_refused(make, arguments, says):
    status, output = make(ROOT, 'install', *arguments)
    assert status != 0
    assert says in output


@pytest.fixture(scope='module')
def interrupted(tmp_path_factory):
    """A clone whose build was cut off at two points and finished, and what make said at the end."""
    where = tmp_path_factory.mktemp('interrupted')
    clone = copy_source(where / 'a clone')
    (where / 'home').mkdir()
    child = subprocess.Popen(['make'], cwd=clone, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True)
    until((clone / 'build/meson-private').exists, 'a setup that has begun', 60)
    os.killpg(child.pid, 9)
    child.wait()
    assert not (clone / 'build/.installed').exists()
    # A setup that got as far as half a build.ninja.
    (clone / 'build').mkdir(exist_ok=True)
    (clone / 'build/build.ninja').write_text('rule x\n')
    return clone, make_in(where / 'home', **compiled.cache())


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_interrupted_build_is_finished_by_the_next(interrupted):
    """Stamps are written last: a build directory cut off at any point is repaired."""
    clone, make = interrupted
    status, output = make(clone)
    assert status == 0, output
    (clone / '.venv/.reigen').unlink()
    status, output = make(clone)
    assert status == 0, output
    # An installation that got as far as half a program.
    (clone / '.venv/bin/reigen').write_bytes(b'half')
    (clone / 'build/.installed').unlink()
    status, output = make(clone)
    assert status == 0, output
    status, output = make(clone)
    assert output.startswith('up to date'), output
    assert run(clone / '.venv/bin/reigen', '--version').returncode == 0


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize('step', [16, rest(1)])
def test_another_folder_gives_the_same_bytes(interrupted, step):
    """Hosts keep the agent by its digest, and whoever distrusts a binary can make it again. A cache
    has bytes that another folder's compiler wrote, so it is not asked for one object of `step`."""
    clone, make = interrupted
    for tree in (clone, ROOT):
        status, output = make(tree)
        assert status == 0, output
    build = clone / 'build'
    objects = sorted(path.relative_to(build) for path in build.rglob('*.o'))[::step]
    assert {path.parts[0] for path in objects} >= {'src', 'bindings'}, 'each compiler has its turn'
    for name in objects:
        (build / name).unlink()
    done = subprocess.run(['ninja', '-C', build, *objects], capture_output=True, text=True,
                          timeout=300, env={**os.environ, 'CCACHE_DISABLE': '1'}, check=False)
    assert done.returncode == 0, done.stdout
    for name in ('src/programs/agent/reigen-agent', 'src/programs/reigen', 'src/coll/libreigen.so',
                 'bindings/tensorflow/libreigen_tensorflow.so', *objects):
        assert (build / name).read_bytes() == (ROOT / 'build' / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_clone_that_was_moved_builds_again(interrupted):
    clone, make = interrupted
    status, output = make(clone)
    assert status == 0, output
    moved = clone.parent / 'elsewhere'
    clone.rename(moved)
    try:
        status, output = make(moved)
        assert status == 0, output
        done = run(moved / '.venv/bin/python', '-c', 'import sys; print(sys.prefix)')
        assert done.stdout.strip() == str(moved / '.venv')
    finally:
        moved.rename(clone)
