# SPDX-License-Identifier: Apache-2.0
"""What options of `reigen run` do, as a person sees it: places, environment, files, exit codes."""
import json
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

import processes
from built import environment

def expand(part):
    first, _, last = part.partition('-')
    return range(int(first), int(last or first) + 1)


CONTRACT = ['REIGEN', 'HOROVOD']


def rank_env(out):
    """{rank: {name: value}} from ranks that ran `env` untagged, one file each."""
    return {int(p.parent.name.split('.')[1]): dict(
        line.split('=', 1) for line in p.read_text().splitlines() if '=' in line)
        for p in out.glob('rank.*/stdout')}


def test_ranks_find_all_variables_and_the_callers_environment(reigen, tmp_path):
    done = reigen('run', '-np', 3, '--output-dir', tmp_path / 'o', '-x', 'GIVEN=a b', '--env',
                  'CALLER', '--', 'env', env=environment(CALLER='mine', INHERITED='too'))
    assert done.returncode == 0, done.stderr
    envs = rank_env(tmp_path / 'o')
    assert sorted(envs) == [0, 1, 2]
    for rank, env in envs.items():
        for prefix in CONTRACT:
            assert env[f'{prefix}_RANK'] == env[f'{prefix}_LOCAL_RANK'] == str(rank)
            assert env[f'{prefix}_SIZE'] == env[f'{prefix}_LOCAL_SIZE'] == '3'
            assert env[f'{prefix}_CROSS_RANK'] == '0' and env[f'{prefix}_CROSS_SIZE'] == '1'
        assert env['RANK'] == env['LOCAL_RANK'] == str(rank)
        assert env['WORLD_SIZE'] == env['LOCAL_WORLD_SIZE'] == '3'
        assert env['GROUP_RANK'] == '0' and env['MASTER_ADDR'] == '127.0.0.1'
        assert int(env['MASTER_PORT']) > 0 and env['PYTHONUNBUFFERED'] == '1'
        assert int(env['OMP_NUM_THREADS']) >= 1
        assert (env['GIVEN'], env['CALLER'], env['INHERITED']) == ('a b', 'mine', 'too')
        assert 'TF_CONFIG' not in env
    assert len({env['MASTER_PORT'] for env in envs.values()}) == 1


@pytest.mark.parametrize('words', [['run', '-np', 1, 'true'], ['horovodrun', '-np', 1, 'true'],
                                   ['doctor']])
def test_a_wrong_port_range_of_the_environment_is_named(reigen, words):
    done = reigen(*words, env=environment(REIGEN_PORT_RANGE='2000-'))
    assert done.returncode == 2, done
    assert 'REIGEN_PORT_RANGE 2000-: give ports as FIRST-LAST' in done.stderr


def test_threads_stay_as_the_caller_set_them(reigen):
    done = reigen('run', '-np', 1, 'sh', '-c', 'echo $OMP_NUM_THREADS',
                  env=environment(OMP_NUM_THREADS=17))
    assert done.stdout == '17\n'


def test_tf_config_has_a_worker_for_every_rank(reigen, tmp_path):
    done = reigen('run', '-np', 2, '--tf-config', '--output-dir', tmp_path / 'o', 'env')
    assert done.returncode == 0, done.stderr
    for rank, env in rank_env(tmp_path / 'o').items():
        config = json.loads(env['TF_CONFIG'])
        assert config['task'] == {'type': 'worker', 'index': rank}
        assert len(set(config['cluster']['worker'])) == 2


def test_a_secret_reaches_the_ranks_and_nothing_else(reigen, tmp_path):
    secret = 'tell-nobody-4711'
    env = environment(TOKEN=secret)
    done = reigen('run', '-np', 2, '--share-env', 'TOKEN', '--verbose', '--verbose',
                  '--display-map', 'sh', '-c', 'test "$TOKEN" = tell-nobody-"4711" && echo found',
                  env=env)
    assert done.returncode == 0 and done.stdout.count('found') == 2
    assert secret not in done.stderr
    agents = reigen('run', '-np', 1, '--share-env', 'TOKEN', '--', 'sh', '-c',
                    'tr "\\0" "\\n" </proc/$PPID/environ', env=env)
    assert 'PATH=' in agents.stdout and secret not in agents.stdout
    dry = reigen('run', '-np', 1, '--share-env', 'TOKEN', '--dry-run', 'x', env=env)
    assert dry.returncode == 0 and secret not in dry.stdout and 'TOKEN="$TOKEN"' in dry.stdout


def test_cwd_is_where_ranks_run(reigen, tmp_path):
    assert reigen('run', '-np', 1, '--cwd', tmp_path, 'pwd').stdout.strip() == str(tmp_path)
    done = reigen('run', '--cwd', tmp_path / 'nowhere', 'pwd')
    assert done.returncode == 2 and 'nowhere' in done.stderr


def test_ranks_are_bound_to_cores(reigen):
    env = {k: v for k, v in environment().items() if k != 'OMP_NUM_THREADS'}
    done = reigen('run', '-H', 'localhost:1', '--bind-to', 'core', '--report-bindings', 'python3',
                  '-c', 'import os; print(*sorted(os.sched_getaffinity(0)), sep=",", end=" "); '
                  'print(os.environ["OMP_NUM_THREADS"])', env=env)
    assert done.returncode == 0
    told = re.search(r'rank 0 on localhost: cpus ([\d,-]+)', done.stderr)[1]
    cpus = [c for part in told.split(',') for c in expand(part)]
    assert done.stdout.split() == [','.join(map(str, cpus)), str(len(cpus))]
    cores = len(os.sched_getaffinity(0))
    done = reigen('run', '-H', f'localhost:{2 * cores}', '--bind-to', 'core', 'true')
    assert done.returncode == 2 and '--bind-to none' in done.stderr


def test_the_map_is_shown_before_the_job_runs(reigen):
    done = reigen('run', '-np', 2, '--display-map', 'echo', 'x')
    assert '2 ranks on 1 host' in done.stderr and '0-1' in done.stderr
    assert done.stdout.count('x') == 2


def test_a_dry_run_starts_nothing_and_its_script_runs(reigen, tmp_path):
    mark = tmp_path / "it's here"
    done = reigen('run', '-np', 2, '--dry-run', '--cwd', tmp_path, '--max-restarts', 1, '-x',
                  "Q=a'b $HOME", '--', 'sh', '-c',
                  'echo "$RANK of $WORLD_SIZE, $REIGEN_RESTART $Q"; touch "$0"', mark)
    assert done.returncode == 0 and not mark.exists()
    assert done.stdout.startswith('# A script: ')
    ran = subprocess.run(['sh'], input=done.stdout, capture_output=True, text=True, timeout=20,
                         env=environment(), check=True)
    assert sorted(ran.stdout.splitlines()) == ["0 of 2, 0 a'b $HOME", "1 of 2, 0 a'b $HOME"]
    assert mark.exists()


def test_a_plan_of_ranks_here_is_a_sentence(reigen):
    done = reigen('plan', '-np', 2, 'true')
    assert (done.returncode, done.stdout) == (
        0, '2 ranks on this computer: they would start now. reigen run --dry-run prints a script '
           'of them.\n')
    done = reigen('plan', '-np', 2, 'no-such-program')
    assert done.returncode == 127 and 'it would not start' in done.stderr and not done.stdout
    for command in ('/etc/passwd', './nowhere', '/no/such'):
        done = reigen('plan', '-np', '1', '--', command)
        assert done.returncode == 127 and f'{command} is not a program' in done.stderr
    done = reigen('plan', '-np', '1', '--env', 'PATH=/none', '--', 'ls')
    assert done.returncode == 127 and 'ls is not found in PATH' in done.stderr
    assert json.loads(reigen('plan', '-np', 2, '--json', 'true').stdout)['event'] == 'plan'


def test_many_more_ranks_than_cores_are_remarked(reigen):
    cores = len(os.sched_getaffinity(0))
    for ranks, said in ((8 * cores, 0), (8 * cores + 1, 1)):
        done = reigen('run', '-np', ranks, '--dry-run', 'true')
        assert done.stderr.count(f'-np {ranks}: this computer has {cores} core') == said, done


def test_1_is_explained(reigen):
    said = reigen('explain', 1).stdout
    assert 'an exception that nobody caught' in said
    assert 'exception' not in reigen('explain', 7).stdout


@pytest.mark.parametrize('shell', ['dash', 'bash'])
def test_the_script_of_a_dry_run_ends_as_the_job_does(reigen, tmp_path, shell):
    """Rank 1 waits until all have begun, so that the others must be ended."""
    words = ('read line; echo "$RANK $line"; touch "$0-$RANK"; while [ $RANK = 1 ]; do '
             '[ -e "$0-0" ] && [ -e "$0-2" ] && exit 3; sleep 0.01; done; sleep 600 & wait')
    script = tmp_path / 'job.sh'
    script.write_text(reigen('run', '-np', 3, '--dry-run', '--', 'sh', '-c', words,
                             tmp_path / 'mark').stdout)
    ran = subprocess.run([shell, script], input='mine\n', capture_output=True, text=True,
                         timeout=60, env=environment(), check=False)
    assert ran.returncode == 3, ran
    assert sorted(ran.stdout.splitlines()) == ['0 mine', '1 ', '2 '], ran
    processes.assert_gone(str(tmp_path))
    script.write_text(reigen('run', '-np', 2, '--grace', '100ms', '--dry-run', '--', 'sh', '-c',
                             'trap "" TERM; touch "$0-$RANK"; while :; do sleep 0.01; done',
                             tmp_path / 'deaf').stdout)
    with subprocess.Popen([shell, script], stdin=subprocess.DEVNULL, env=environment()) as told:
        processes.wait_for(lambda: len(list(tmp_path.glob('deaf-*'))) == 2, 'two ranks', 60)
        told.terminate()
        assert told.wait(60) == 143
    processes.assert_gone(str(tmp_path))


@pytest.mark.parametrize('words', [['-H', 'localhost:1,far-away.example:1'],
                                   ['--image', 'i'], ['--engine', 'script']])
def test_a_dry_run_of_what_no_script_could_do_is_a_plan(reigen, words):
    plan = reigen('run', '--dry-run', *words, '-x', 'A=1\n2', '--', 'true').stdout.splitlines()
    assert plan[0].startswith('# A plan, not a script: ')
    assert all(line.startswith('#') for line in plan), plan
    event = json.loads(reigen('run', '--dry-run', '--json', *words, '--', 'true').stdout)
    assert event['event'] == 'plan' and event['command'] == ['true']


@pytest.mark.sanitize
def test_our_packages_come_here_too_when_they_are_asked_for(reigen, tmp_path):
    """As they come to other hosts, where nobody has to ask: tests/hosts/test_ssh.py. A run without
    a home may have left the same archive in another of the agent's places."""
    own = tmp_path / 'own'
    (own / 'horovod').mkdir(parents=True)
    (own / 'horovod/__init__.py').touch()
    show = ('from importlib.util import find_spec; '
            'print(*[spec and spec.origin for spec in map(find_spec, ("horovod", "reigen"))])')
    env = environment(HOME=tmp_path, PYTHONPATH=own)
    done = reigen('run', '-np', 2, '--inject-runtime', '--', '/usr/bin/python3', '-c', show,
                  env=env)
    assert done.returncode == 0, done.stderr
    bundle = Path(done.stdout.split()[-1]).parents[1]
    assert bundle.name.startswith('bundle-'), done.stdout
    assert sorted(done.stdout.splitlines()) == [
        f'[{r}] {own}/horovod/__init__.py {bundle}/reigen/__init__.py' for r in range(2)]
    inode = (bundle / 'horovod/torch/__init__.py').stat().st_ino
    env['PYTHONPATH'] = f'{bundle}/nosuch'
    done = reigen('run', '--no-tag-output', '-np', 1, '--inject-runtime', '--', '/usr/bin/python3',
                  '-c', show, env=env)
    assert done.stdout == f'{bundle}/horovod/__init__.py {bundle}/reigen/__init__.py\n', done.stderr
    assert (bundle / 'horovod/torch/__init__.py').stat().st_ino == inode
    assert not list(bundle.parent.glob('.*'))


def test_a_job_file_describes_the_job_and_options_override_it(reigen, tmp_path):
    job = tmp_path / 'job.yaml'
    job.write_text('command: [sh, -c, "echo $A $B $WORLD_SIZE"]\nnp: 2\nenv: {A: one, B: two}\n'
                   'tag-output: false\n')
    assert reigen('run', '--config', job).stdout.splitlines() == ['one two 2'] * 2
    assert reigen('run', '-np', 1, '--config', job, '-x', 'B=3').stdout == 'one 3 1\n'
    assert reigen('run', '--config', job, '--', 'echo', 'mine').stdout.splitlines() == ['mine'] * 2


def test_a_broken_job_file_is_named_with_line_and_column(reigen, tmp_path):
    job = tmp_path / 'job.yaml'
    job.write_text('command: [true]\nnp: 2\nbind-too: core\n')
    done = reigen('run', '--config', job)
    assert done.returncode == 2
    assert f'{job}:3:1: unknown key "bind-too"; did you mean bind-to?' in done.stderr
    assert "Try 'reigen run --help'" in done.stderr


def test_hosts_that_are_not_this_computer_are_refused_with_on_local(reigen, tmp_path):
    done = reigen('run', '--on', 'local', '-H', 'localhost:1,far-away.example:2', 'true')
    assert done.returncode == 69 and 'host far-away.example is not this computer' in done.stderr
    hosts = tmp_path / 'hosts'
    hosts.write_text('localhost slots=2\n127.0.0.1:1\n')
    done = reigen('run', '--hostfile', hosts, 'sh', '-c', 'echo $REIGEN_HOSTNAME')
    assert done.returncode == 0
    assert sorted(line.split()[1] for line in done.stdout.splitlines()) == \
        ['127.0.0.1', 'localhost', 'localhost']


@pytest.mark.parametrize('args, code, says', [
    (['frobnicate'], 2, 'unknown command frobnicate'),
    (['rnu', 'x'], 2, 'did you mean run?'),
    (['-np', '4', 'x'], 2, 'reigen run -np'),
    (['run'], 2, 'no command'),
    (['run', '-np', '0', 'true'], 2, '-np 0'),
    (['run', '-np', 'x', 'true'], 2, '-np'),
    (['run', '--nop', 'true'], 2, 'unknown option --nop'),
    (['run', '-H', 'localhost:2', '-np', '3', 'true'], 2, 'only 2 slots'),
    (['run', '-H', 'localhost:2', '-np', '3', 'true'], 2, 'give more slots (-H localhost:3)'),
    (['run', '-H', 'localhost:1,127.0.0.1:1', '-np', '5', 'true'], 2,
     'give more slots (--ranks-per-host 3)'),
    (['run', 'no-such-program-here'], 127, 'no-such-program-here'),
    (['run', '/etc/passwd'], 126, 'chmod +x'),
    (['run', '/'], 126, 'cannot start /: it is a directory'),
    (['explain', 'x'], 2, 'explain x'),
    (['completion', 'csh'], 2, 'csh'),
    (['man', 'nosuch'], 2, 'nosuch'),
])
def test_wrong_use_is_answered_with_value_remedy_and_code(reigen, args, code, says):
    done = reigen(*args)
    assert done.returncode == code
    assert says in done.stderr and done.stderr.startswith('reigen: ')
    assert done.stdout == ''


def test_a_script_without_its_interpreter_is_answered_with_it(reigen, tmp_path):
    (tmp_path / 'train.py').write_text('print("hello")')
    (tmp_path / 'folder').mkdir()
    os.symlink('/bin/true', tmp_path / 'prog')
    python = 'python' if shutil.which('python') else 'python3'
    for command in (['run'], ['horovodrun']):
        for name, code, says in (
                ('train.py', 127, f'not found in PATH; did you mean {python} train.py?'),
                ('./train.py', 126, f'(permission denied); did you mean {python} ./train.py?'),
                (tmp_path / 'train.py', 126, f'did you mean {python} {tmp_path}/train.py?'),
                ('nosuch.py', 127, 'cannot start nosuch.py: no such file'),
                ('./folder', 126, 'cannot start ./folder: it is a directory'),
                ('prog', 127, 'not found in PATH; give its path, or ./prog')):
            done = reigen(*command, '-np', 2, '--cwd', tmp_path, name, '--epochs', '4')
            assert done.returncode == code and says in done.stderr, done.stderr
    for line in ('echo a; echo b', './a.sh | ./b.sh'):
        done = reigen('run', '-np', 1, '--cwd', tmp_path, '--', line)
        assert f"did you mean sh -c '{line}'?" in done.stderr and done.returncode == 127, done
    (tmp_path / 'train.py').chmod(0o755)  # but it has no #! line
    done = reigen('run', '--cwd', tmp_path, './train.py')
    assert f'did you mean {python} ./train.py?' in done.stderr and done.returncode == 126


def test_mpiruns_command_lines_run_with_reigen_run(reigen):
    done = reigen('run', '-np', 3, '-H', 'localhost:3', '--mca', 'orte_keep_fqdn_hostnames', 't',
                  '--allow-run-as-root', '--display-map', '--tag-output', '--timestamp-output',
                  '-bind-to', 'none', '-map-by', 'slot', '-x', 'PATH', '-x', 'SURELY_UNSET',
                  '-mca', 'pml', 'ob1', 'sh', '-c', "echo hello world")
    assert done.returncode == 0 and done.stdout.count('hello world') == 3
    assert done.stderr.count('ignored') == 2 and 'SURELY_UNSET' in done.stderr  # --mca, -mca
    quiet = reigen('run', '-np', 1, '-q', '-mca', 'a', 'b', 'true')
    assert quiet.stderr == ''


def test_output_dir_keeps_every_byte_and_pads_ranks(reigen, tmp_path):
    out = tmp_path / 'deep' / 'er'
    done = reigen('run', '-np', 11, '--output-dir', out, '--ranks', '3', 'sh', '-c',
                  r'printf "a\0\377\n%s" $RANK; printf e$RANK >&2', errors='replace')
    assert done.returncode == 0
    assert sorted(p.name for p in out.iterdir()) == [f'rank.{r:02}' for r in range(11)]
    for r in range(11):
        assert (out / f'rank.{r:02}/stdout').read_bytes() == b'a\0\xff\n' + str(r).encode()
        assert (out / f'rank.{r:02}/stderr').read_text() == f'e{r}'
    assert done.stderr == '[3] e3\n'


def test_files_of_an_earlier_job_with_more_ranks_are_told_of_and_stay(reigen, tmp_path):
    told = []
    for np, options in ((4, ()), (4, ()), (2, ()), (1, ('--quiet',)), (11, ())):
        done = reigen('run', '-np', np, '--output-dir', 'out', *options, '--', 'sh', '-c',
                      'echo $RANK of $WORLD_SIZE', cwd=tmp_path)
        assert done.returncode == 0, done
        told += re.findall('reigen: (--output-dir .*)', done.stderr) or ['nothing']
    assert told == ['nothing', 'nothing', '--output-dir out: rank.2 and 1 more are of an earlier '
                    'job, and stay as they are', 'nothing', '--output-dir out: rank.0 and 3 more '
                    'are of an earlier job, and stay as they are'], told
    assert (tmp_path / 'out/rank.3/stdout').read_text() == '3 of 4\n'


def test_an_output_dir_that_cannot_be_is_refused_before_the_start(reigen, tmp_path):
    (tmp_path / 'file').write_text('')
    done = reigen('run', '--output-dir', tmp_path / 'file' / 'x', 'touch', tmp_path / 'ran')
    assert done.returncode == 2
    assert '--output-dir' in done.stderr and str(tmp_path / 'file') in done.stderr
    assert not (tmp_path / 'ran').exists()


@pytest.mark.skipif(os.geteuid() != 0, reason='mounting a small file system needs root')
def test_a_full_disk_under_output_dir_is_named_and_the_job_goes_on(reigen, tmp_path, programs):
    script = f'''
        mount -t tmpfs -o size=256k none {tmp_path} || exit 99
        {programs.reigen} run -np 2 --no-tag-output --output-dir {tmp_path}/o sh -c '
            if [ $RANK = 1 ]; then head -c 2000000 /dev/zero; sleep 0.2; fi
            echo done >&2' >/dev/null
    '''
    done = subprocess.run(['unshare', '--mount', 'sh', '-c', script], capture_output=True,
                          text=True, timeout=60, env=environment())
    if done.returncode in (1, 99) and ('unshare' in done.stderr or 'mount' in done.stderr):
        pytest.skip('no mount namespace here: ' + done.stderr.strip())
    assert done.returncode == 74, done.stderr
    assert 'rank.1/stdout: No space left on device' in done.stderr
    assert done.stderr.count('done') == 2


def test_lost_standard_output_is_74(reigen):
    with open('/dev/full', 'wb') as full:
        done = reigen('run', '-np', 2, 'echo', 'x', stdout=full)
    assert done.returncode == 74 and 'No space left on device' in done.stderr


# The descriptor that is closed comes first.
CLOSED = ['sh', '-c', 'n=$1; shift; if [ $n = 1 ]; then exec >&-; else exec 2>&-; fi; exec "$@"',
          'sh']


@pytest.mark.parametrize('place', ['closed', '/dev/full'])
@pytest.mark.parametrize('arguments', [
    ['run', '--', 'echo', 'x'], ['run', '-np', 2, '--', 'printf', 'x'],
    ['run', '--json', '--', 'true'], ['run', '--dry-run', '--', 'true'], ['run', '--help'],
    ['horovodrun', '-np', 2, 'echo', 'x'], ['horovodrun', '--help'],
    ['horovodrun', '--check-build'], ['srun-docker', '--help'], ['doctor'], ['jobs'],
    ['explain', '74'], ['man'], ['completion', 'bash'], ['help'], ['--help'], ['--version'],
    ['sshconfig', '--help'], ['run-dock-asuser', '--help'], ['rsh', '--help'],
], ids=lambda arguments: '-'.join(map(str, arguments)))
def test_whatever_standard_output_does_not_take_is_74(start, programs, arguments, place):
    closed = CLOSED + ['1'] if place == 'closed' else ['sh', '-c', 'exec "$@" >/dev/full', 'sh']
    child = start(*closed, programs.reigen, *arguments)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 74, err
    assert ('it is closed' if place == 'closed' else 'No space left on device') in err


@pytest.mark.parametrize('script,code', [('echo x >&2', 74), ('echo x >&2; exit 3', 3),
                                         ('echo x', 0)])
def test_a_closed_standard_error_takes_nothing_either(start, programs, script, code):
    child = start(*CLOSED, 2, programs.reigen, 'run', '-np', 1, '--', 'sh', '-c', script)
    out, _ = child.communicate(timeout=60)
    assert (child.returncode, out) == (code, 'x\n' if code == 0 else '')


def test_nothing_is_lost_where_nothing_is_written(start, programs):
    child = start(*CLOSED, 1, programs.reigen, 'run', '--', 'true')
    child.communicate(timeout=60)
    assert child.returncode == 0


PAI_JOB = ('{"jobName": "a", "image": "i", "taskRoles": [{"name": "w", "taskNumber": 1, '
           '"cpuNumber": 1,\n"memoryMB": 99, "gpuNumber": 0, "command": "true"}]}\n')


@pytest.mark.parametrize('words, text', [
    (['run', '-np', 2, '--hostfile', '{}', 'true'], '# ours\nlocalhost slots=2\n'),
    (['run', '-np', 2, '-machinefile', '{}', 'true'], 'localhost:2\n'),
    (['run', '--env-file', '{}', '--', 'sh', '-c', '[ "$A" = 1 ]'], 'A=1\n'),
    (['run', '--config', '{}'], 'np: 2\ncommand: ["true"]\n'),
    (['run', '--app', '{}'], '-n 1 true\n-n 1 true\n'),
    (['horovodrun', '-np', 1, '--config-file', '{}', 'true'], 'params:\n  cycle_time_ms: 1\n'),
    (['pai', 'check', '{}'], PAI_JOB),
], ids=lambda value: '-'.join(map(str, value[:3])) if isinstance(value, list) else None)
def test_files_of_other_systems_editors_are_read(reigen, tmp_path, words, text):
    """With a byte order mark in front, and their line ends."""
    for mark in (b'', b'\xef\xbb\xbf'):
        for end in ('\n', '\r\n'):
            file = tmp_path / 'file'
            file.write_bytes(mark + text.replace('\n', end).encode())
            done = reigen(*[str(w).format(file) if w == '{}' else w for w in words])
            assert done.returncode == 0, (mark, end, done)


def test_an_unknown_code_and_every_known_one_are_explained(reigen):
    listed = reigen('explain').stdout
    for code in (0, 2, 69, 70, 74, 75, 76, 77, 124, 125, 126, 127):
        assert any(line.startswith(f'{code} ') for line in listed.splitlines())
        assert reigen('explain', code).stdout.startswith(f'{code} (')
    assert 'Killed' in reigen('explain', 137).stdout
    assert "rank's own" in reigen('explain', 33).stdout


def test_the_timeout_ends_the_job_with_124(reigen):
    done = reigen('run', '-np', 2, '--timeout', '300ms', '--grace', '1', 'sleep', 60, timeout=20)
    assert done.returncode == 124 and '--timeout' in done.stderr


def test_umask_of_files_is_the_callers(reigen, tmp_path):
    reigen('run', '-np', 1, '--output-dir', tmp_path / 'o', 'true', umask=0o077)
    assert stat.S_IMODE((tmp_path / 'o/rank.0/stdout').stat().st_mode) == 0o600


@pytest.mark.parametrize('given,named', [
    ({'arguments': ['--', *['true'] * 131073]}, r'words: 131073 are too many, at most 131072'),
    ({'config': 'command: ["true", {long}]'}, r'words: number 2 has 131072 bytes; .* 131071'),
    ({'config': 'command: ["true"]\nenv: {{A: {long}}}'}, r'--env: A has 131074 bytes; .* 131071'),
    ({'arguments': ['--tf-config', '-H', 'host-number-one:4096,host-number-two:4096', 'true']},
     r'told of the job: TF_CONFIG has \d+ bytes; .* 131071'),
], ids=['words', 'word', 'variable', 'tf-config'])
def test_what_no_host_could_be_given_is_refused_before_anything_starts(reigen, tmp_path, given,
                                                                       named):
    if 'config' in given:
        config = tmp_path / 'job.yaml'
        config.write_text(given['config'].format(long='x' * 131072))
        done = reigen('run', '--config', config)
    else:
        done = reigen('run', *given['arguments'])
    assert done.returncode == 2, done.stderr
    assert re.search(named, done.stderr), done.stderr[:500]
    assert 'failed' not in done.stderr and 'rank 0' not in done.stderr


def test_without_proc_it_says_what_is_missing(start, programs):
    apart = ['unshare', *([] if os.geteuid() == 0 else ['-r']), '--mount', 'sh', '-c',
             'mount -t tmpfs none /proc && exec "$@"', 'sh']
    if subprocess.run([*apart, 'true'], capture_output=True, check=False).returncode:
        pytest.skip('no mount name space: unshare is refused')
    plain = {k: v for k, v in environment().items() if k != 'REIGEN_AGENT'}
    for env, code in ((plain, 69), ({**plain, 'REIGEN_AGENT': str(programs.agent)}, 0)):
        child = start(*apart, programs.reigen, 'run', '-np', 1, '--', 'true', env=env)
        _, err = child.communicate(timeout=60)
        assert child.returncode == code and '/proc is not mounted here' in err, err


def test_as_many_words_as_are_allowed_arrive(reigen):
    done = reigen('run', '-np', 1, '--', 'sh', '-c', 'echo $#', *['a'] * (131072 - 3))
    assert (done.returncode, done.stdout) == (0, f'{131072 - 4}\n'), done.stderr


@pytest.mark.parametrize('words, list_', [
    (['-H', 'node1', 'node2', 'true'], 'node1,node2'),
    (['-H', 'node1:2', 'node2:2', 'true'], 'node1:2,node2:2'),
    (['--hosts=gpu-a', 'localhost', 'true'], 'gpu-a,localhost'),
    (['-H', 'a', 'me@b', 'true'], 'a,me@b')])
def test_a_forgotten_comma_between_hosts_is_asked_for(reigen, words, list_):
    done = reigen('run', *words)
    assert done.returncode == 2, done
    option = words[0].partition('=')[0]
    assert f'If it is a host, write a comma: {option} {list_}; if ' in done.stderr, done.stderr


@pytest.mark.parametrize('words', [
    ['-H', 'localhost', 'true'], ['-H', 'localhost', '--', 'localhost2'],
    ['-H', 'localhost', 'no-such-program.invalid'],
    ['-H', 'localhost1', '-np', '1', 'localhost2']])
def test_a_command_behind_hosts_is_one(reigen, words):
    done = reigen('run', '--dry-run', *words)
    assert done.returncode == 0, done.stderr


NEEDS = [(['--ssh-port', '22', '--ssh-identity', 'x'], 'no host of this job is reached by ssh',
          ['--on', 'ssh', '-H', 'node1:1']),
         (['--reset-limit', '3'], 'this job is not elastic', ['--min-np', '1']),
         (['--slots-per-host', '3'], 'no --host-discovery-script names the hosts',
          ['--host-discovery-script', 'echo localhost']),
         (['--pull', 'always'], 'there is no container', ['--image', 'x']),
         (['--restart-always'], 'nothing is started again', ['--max-restarts', '1'])]


@pytest.mark.parametrize('words, why, more', NEEDS, ids=[need[0][0] for need in NEEDS])
def test_an_option_without_effect_is_named_with_the_cause(reigen, words, why, more, tmp_path):
    plan = tmp_path / 'plan'
    done = reigen('run', '-np', '1', *words, '--write-plan', plan, '--', 'true')
    assert done.returncode == 0, done.stderr
    names = ', '.join(word for word in words if word.startswith('-'))
    assert f'reigen: {names}: no effect, as {why}' in done.stderr, done.stderr
    done = reigen('run', '-np', '1', *words, *more, '--write-plan', plan, '--', 'true')
    assert 'no effect' not in done.stderr, done.stderr
    quiet = reigen('run', '-q', '-np', '1', *words, '--write-plan', plan, '--', 'true')
    assert quiet.stderr == '', quiet.stderr
