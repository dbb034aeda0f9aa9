# SPDX-License-Identifier: Apache-2.0
"""reigen horovodrun, and the link of that name."""
import re
import subprocess

import pytest

pytestmark = pytest.mark.sanitize


@pytest.fixture
def horovodrun(reigen):
    return lambda *arguments, **kwargs: reigen('horovodrun', *arguments, **kwargs)


def test_lines_have_horovods_prefix_even_with_one_rank(horovodrun):
    done = horovodrun('-np', 2, 'sh', '-c', 'echo out $HOROVOD_RANK; echo err >&2')
    assert sorted(done.stdout.splitlines()) == ['[0]<stdout>:out 0', '[1]<stdout>:out 1']
    assert sorted(done.stderr.splitlines()) == ['[0]<stderr>:err', '[1]<stderr>:err']
    done = horovodrun('-np', 1, '-prefix-timestamp', 'echo', 'x')
    assert re.fullmatch(r'\w{3} \w{3} \d\d \d\d:\d\d:\d\d \d{4}\[0\]<stdout>:x\n', done.stdout)


def test_a_failure_is_told_in_horovods_words_too(horovodrun):
    done = horovodrun('-np', 2, 'sh', '-c', 'test $RANK = 0 && sleep 30; exit 7', timeout=30)
    assert done.returncode == 7
    assert 'rank 1 on localhost failed first: exit code 7' in done.stderr
    assert done.stderr.endswith('The first process to do so was:\nProcess name: 1\nExit code: 7\n')
    assert 'one or more processes exited with non-zero status' in done.stderr


def test_output_goes_to_files_and_flags_to_variables(horovodrun, tmp_path):
    config = tmp_path / 'h.yaml'
    config.write_text('params:\n  cache_capacity: 5\n  cycle_time_ms: 2\n')
    done = horovodrun('-np', 2, '-H', 'localhost:2', '--output-filename', tmp_path / 'out',
                      '--config-file', config, '--cache-capacity', 9, '--timeline-filename', 't',
                      'sh', '-c', 'echo $HOROVOD_CACHE_CAPACITY $HOROVOD_CYCLE_TIME '
                      '$HOROVOD_TIMELINE')
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert (tmp_path / f'out/rank.{rank}/stdout').read_text() == '9 2 t\n'
    assert 'reigen: params.cycle_time_ms: ' in done.stderr


def test_what_cannot_be_done_is_refused_with_a_remedy(horovodrun):
    for arguments, says in ((('-np', 1, '--min-np', 2, 'x'), '--min-np 2: more than -np 1'),
                            (('-np', 3, '--max-np', 2, 'x'), '--max-np 2: less than -np 3'),
                            (('--jsrun', '-np', 1, 'x'), 'leave --jsrun out'),
                            (('-np', 1, '--cycle-time-ms', -1, 'x'), 'ms=-1 must be >= 0'),
                            (('x',), '-np is missing')):
        done = horovodrun(*arguments)
        assert done.returncode == 2
        assert says in done.stderr and "Try 'reigen horovodrun --help'" in done.stderr


def test_the_name_of_the_link_is_the_command(programs, start, tmp_path):
    link = tmp_path / 'horovodrun'
    link.symlink_to(programs.reigen)
    out, err = start(link, '--version').communicate(timeout=20)
    assert out == '0.28.1+reigen\n', err
    out, err = start(link, '-np', 2, 'echo', 'hi').communicate(timeout=30)
    assert sorted(out.splitlines()) == ['[0]<stdout>:hi', '[1]<stdout>:hi'], err


def test_check_build_marks_what_there_is(horovodrun):
    done = horovodrun('--check-build')
    assert done.returncode == 0
    heads = re.findall(r'^Available .*:$', done.stdout, re.M)
    assert heads == ['Available Frameworks:', 'Available Controllers:',
                     'Available Tensor Operations:']
    assert '    [ ] MXNet\n' in done.stdout and '    [X] Reigen\n' in done.stdout
    assert re.search(r'^    \[[X ]\] PyTorch$', done.stdout, re.M)
    # Programs refuse to run where neither is there; jobs of both kinds are taken.
    assert done.stdout.count('    [X] Gloo\n') == done.stdout.count('    [X] MPI\n') == 2


@pytest.mark.parametrize('version, mark', [(22105, 'X'), (21800, 'X'), (21708, ' '), (None, ' ')])
def test_check_build_says_whether_nccl_can_be_loaded(horovodrun, tmp_path, version, mark):
    library = tmp_path / 'libnccl.so.2'
    if version:
        subprocess.run(['cc', '-shared', '-fPIC', '-x', 'c', '-', '-o', library], text=True,
                       input=f'int ncclGetVersion(int *v) {{ *v = {version}; return 0; }}',
                       check=True, timeout=60)
    done = horovodrun('--check-build', env={'REIGEN_NCCL': str(library)})
    assert done.returncode == 0 and f'    [{mark}] NCCL\n' in done.stdout, done.stdout


def test_help_lists_every_flag_of_horovods(horovodrun):
    text = horovodrun('--help').stdout
    for flag in ('num-proc', 'min-np', 'blacklist-cooldown-range', 'no-hierarchical-allgather',
                 'gloo-timeout-seconds', 'log-hide-timestamp', 'stall-check', 'binding-args'):
        assert f'--{flag}' in text, flag
    assert max(map(len, text.splitlines())) <= 80
