# SPDX-License-Identifier: Apache-2.0
"""What is asked of Slurm reaches salloc and sbatch as it was said, with programs in their place."""
import os
import signal
import subprocess

import pytest

import built

# Puts down what it was asked for, and gives nothing.
ASKED = '#!/bin/sh\nfor word; do echo "$word"; done >"${0%/*}/asked"\necho error: no >&2\nexit 1\n'
WISHES = ['--nodes', '2', '--nodelist', 'n[1-2]', '--exclude', 'n3', '--partition', 'first',
          '--account', 'a b', '--time', '1-2:00', '--gres', 'gpu:4',
          '--slurm-option=--constraint=ib', '--slurm-option=--comment=two  words',
          '--ntasks-per-node=4', '--mem=1g', '-J', 'train']
WORDS = ['--nodes=2', '--ntasks=8', '--nodelist=n[1-2]', '--exclude=n3', '--partition=first',
         '--account=a b', '--time=1-2:00', '--gres=gpu:4', '--constraint=ib',
         '--comment=two  words', '--ntasks-per-node=4', '--mem=1g', '--job-name=train']
LIMIT_S = 60


@pytest.mark.parametrize('program,command,rest', [
    ('salloc', 'run', ['true']), ('sbatch', 'run', ['--submit', 'true']), ('salloc', 'doctor', [])])
def test_what_is_wished_for_is_asked_for(tmp_path, program, command, rest):
    path = tmp_path / program
    path.write_text(ASKED)
    path.chmod(0o755)
    env = built.environment(PATH=f'{tmp_path}:{os.environ["PATH"]}', HOME=tmp_path)
    done = subprocess.run([built.PROGRAMS.reigen, command, '--on', 'slurm', '-np', '8', *WISHES,
                           *rest], env=env, cwd=tmp_path, capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)
    assert done.returncode == 69 and 'error: no' in done.stderr, done.stderr
    asked = (tmp_path / 'asked').read_text().splitlines()
    end = asked.index('--') if '--' in asked else len(asked)
    assert sorted(set(WORDS) - set(asked[:end])) == [], asked


@pytest.mark.parametrize('more, gres', [
    ([], ['--gres=gpu:8']), (['--gres', 'gpu:a100:8'], ['--gres=gpu:a100:8']),
    (['--gpus-per-node', '8'], [])])
def test_gpus_of_ranks_are_asked_for_by_the_node(tmp_path, more, gres):
    path = tmp_path / 'salloc'
    path.write_text(ASKED)
    path.chmod(0o755)
    env = built.environment(PATH=f'{tmp_path}:{os.environ["PATH"]}', HOME=tmp_path)
    subprocess.run([built.PROGRAMS.reigen, 'run', '--on', 'slurm', '--ranks-per-host', '4',
                    '--gpus-per-rank', '2', *more, 'true'], env=env, cwd=tmp_path,
                   capture_output=True, timeout=LIMIT_S, check=False)
    asked = (tmp_path / 'asked').read_text().splitlines()
    assert [word for word in asked if word.startswith('--gres')] == gres, asked


@pytest.mark.parametrize('more, most', [
    (['--nodes', '2'], ['--ntasks-per-node=4']), (['--nodes', '3'], ['--ntasks-per-node=3']),
    (['--nodelist', 'n[1-4]'], ['--ntasks-per-node=2']), (['-H', 'a,b'], ['--ntasks-per-node=4']),
    ([], []), (['-H', 'a:6,b:2'], []),
    (['--nodes', '2', '--slurm-option=--distribution=block'], []),
    (['--nodes', '2', '--slurm-option=--ntasks-per-gpu=1'], ['--ntasks-per-gpu=1'])])
def test_ranks_are_spread_evenly_over_nodes_that_are_counted(tmp_path, more, most):
    """Slurm alone fills the first node, whose GPUs are then too few."""
    path = tmp_path / 'salloc'
    path.write_text(ASKED)
    path.chmod(0o755)
    env = built.environment(PATH=f'{tmp_path}:{os.environ["PATH"]}', HOME=tmp_path)
    subprocess.run([built.PROGRAMS.reigen, 'run', '--on', 'slurm', '-np', '8', *more, 'true'],
                   env=env, cwd=tmp_path, capture_output=True, timeout=LIMIT_S, check=False)
    asked = (tmp_path / 'asked').read_text().splitlines()
    assert [word for word in asked if word.startswith('--ntasks-per')] == most, asked


@pytest.mark.parametrize('ranks, gres', [(['--nodes', '2', '-np', '5'], ['--gres=gpu:6']),
                                         (['-np', '1'], ['--gres=gpu:2']), (['-np', '2'], [])])
def test_gpus_of_ranks_are_asked_for_where_the_nodes_are_counted(tmp_path, ranks, gres):
    path = tmp_path / 'salloc'
    path.write_text(ASKED)
    path.chmod(0o755)
    env = built.environment(PATH=f'{tmp_path}:{os.environ["PATH"]}', HOME=tmp_path)
    subprocess.run([built.PROGRAMS.reigen, 'run', '--on', 'slurm', *ranks, '--gpus-per-rank', '2',
                    'true'], env=env, cwd=tmp_path, capture_output=True, timeout=LIMIT_S,
                   check=False)
    asked = (tmp_path / 'asked').read_text().splitlines()
    assert [word for word in asked if word.startswith('--gres')] == gres, asked


JOB = '''{"jobName": "roles", "image": "i", "taskRoles": [
    {"name": "master", "command": "true"}, {"name": "worker", "taskNumber": 3, "command": "true"}]}
'''


@pytest.mark.parametrize('more, tasks', [
    (['--nodes', '2'], ['--ntasks=2', '--ntasks-per-node=1']),
    (['--nodelist', 'n[1-3]'], ['--ntasks=3', '--ntasks-per-node=1']),
    (['-H', 'a,b'], ['--ntasks=2', '--ntasks-per-node=1']),
    (['--nodes', '2', '--ranks-per-host', '2'], ['--ntasks=4', '--ntasks-per-node=2']),
    (['--nodes', '9'], ['--ntasks=4', '--ntasks-per-node=1']),
    ([], ['--ntasks=4', '--ntasks-per-node=1'])])
def test_tasks_of_roles_that_share_nodes_ask_for_no_more_than_these_have(tmp_path, more, tasks):
    path = tmp_path / 'salloc'
    path.write_text(ASKED)
    path.chmod(0o755)
    (tmp_path / 'job.json').write_text(JOB)
    env = built.environment(PATH=f'{tmp_path}:{os.environ["PATH"]}', HOME=tmp_path)
    subprocess.run([built.PROGRAMS.reigen, 'run', '--config', 'job.json', '--image', 'none',
                    '--on', 'slurm', *more], env=env, cwd=tmp_path, capture_output=True,
                   timeout=LIMIT_S, check=False)
    asked = (tmp_path / 'asked').read_text().splitlines()
    assert [word for word in asked if word.startswith('--ntasks')] == tasks, asked


# As salloc in a queue: tells a number, and goes on when squeue has said all.
WAITING = '''#!/bin/sh
echo "salloc: Pending job allocation 12" >&2
while test -s "${0%/*}/states"; do sleep 0.1; done
echo "salloc: Job allocation 12 has been revoked." >&2
exit 1
'''
# The same, but only a signal ends it.
ENDLESS = '''#!/bin/sh
trap 'touch "${0%/*}/ended"; exit 1' TERM
echo "salloc: Pending job allocation 12" >&2
while :; do sleep 0.1; done
'''
SQUEUE = '''#!/bin/sh
cd "${0%/*}"
echo "$*" >>asked
echo "squeue: a remark|with|a line" >&2
echo "CLUSTER: far"
head -n 1 states
sed -i 1d states
'''


def test_what_the_queue_says_is_told_whatever_the_jobs_name(tmp_path):
    for name, text in (('salloc', WAITING), ('squeue', SQUEUE)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / 'states').write_text('12|PENDING|PartitionNodeLimit|N/A\n12|CONFIGURING|None|N/A\n')
    env = built.environment(PATH=f'{tmp_path}:{os.environ["PATH"]}')
    done = subprocess.run([built.PROGRAMS.reigen, 'run', '--on', 'slurm', '--nodes', '2',
                           '--slurm-option=--job-name=mine', 'true'], env=env, text=True,
                          capture_output=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 69, done.stderr
    told = done.stderr.splitlines()
    assert told[0] == ('reigen: waiting for Slurm: job 12 is pending: PartitionNodeLimit '
                       '(the partition allows fewer nodes, or some are down: see sinfo); it will '
                       'not start as things are: press Ctrl-C, and ask for fewer --nodes')
    assert told[1] == 'reigen: waiting for Slurm: job 12 has nodes, which are not up yet'
    assert 'has been revoked; somebody has cancelled it' in told[2]
    asked = (tmp_path / 'asked').read_text().splitlines()
    assert len(asked) == 2 and all('--jobs=12' in each for each in asked)


@pytest.mark.parametrize('signo', [signal.SIGINT, signal.SIGTERM])
def test_who_waits_no_longer_is_told_that_the_request_was_taken_back(tmp_path, signo):
    for name, text in (('salloc', ENDLESS), ('squeue', SQUEUE), ('scancel', '#!/bin/sh\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / 'states').write_text('12|PENDING|AssocMaxNodePerJobLimit|N/A\n')
    env = built.environment(PATH=f'{tmp_path}:{os.environ["PATH"]}')
    job = subprocess.Popen([built.PROGRAMS.reigen, 'run', '--on', 'slurm', 'true'], env=env,
                           text=True, stderr=subprocess.PIPE)
    try:
        assert job.stderr.readline().endswith(
            'AssocMaxNodePerJobLimit; it will not start as things are: press Ctrl-C, and ask for '
            'fewer --nodes\n')
        job.send_signal(signo)
        _, err = job.communicate(timeout=LIMIT_S)
        # As before: a shell ends a script whose program SIGINT has ended.
        assert err == 'reigen: the request (job 12) was taken back\n'
        assert job.returncode == -signo and (tmp_path / 'ended').exists()
    finally:
        job.kill()
        job.communicate(timeout=LIMIT_S)


@pytest.mark.parametrize('more', [['--nodes', '2'], []])
def test_gpus_are_asked_for_also_where_nobody_says_how_many_ranks_there_are(tmp_path, more):
    """Then each node has one."""
    path = tmp_path / 'salloc'
    path.write_text(ASKED)
    path.chmod(0o755)
    env = built.environment(PATH=f'{tmp_path}:{os.environ["PATH"]}', HOME=tmp_path)
    subprocess.run([built.PROGRAMS.reigen, 'run', '--on', 'slurm', '--gpus-per-rank', '2', *more,
                    'true'], env=env, cwd=tmp_path, capture_output=True, timeout=LIMIT_S,
                   check=False)
    asked = (tmp_path / 'asked').read_text().splitlines()
    assert '--gres=gpu:2' in asked and '--ntasks-per-node=1' in asked, asked
