# SPDX-License-Identifier: Apache-2.0
"""Jobs in Slurm's queue, with programs in the place of Slurm's: reigen run --submit and after."""
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from built import PROGRAMS, environment
from wait import until

LIMIT = 60
SINCE = '2026-11-30T14:05:09'  # as squeue writes it
# Puts down its arguments and what it was not to be told, and says what the test wants it to say.
FAKE = '''#!/bin/sh
me=${0##*/}
{ echo "$me $*"; env | grep -E '^(SQUEUE_|SCANCEL_|SBATCH_|SLURM_STEPMGR)'; } >>"$FAKES/asked"
test $me = sbatch && cat >"$FAKES/script"
cat "$FAKES/$me.says"
exit $(cat "$FAKES/$me.code" 2>/dev/null || echo 0)
'''
QUEUE_DOWN = 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n'


class Queue:
    def __init__(self, folder):
        self.folder = folder / 'fakes'
        self.folder.mkdir()
        self.records = folder / 'state/reigen/slurm'
        self.cwd = folder / 'cwd'
        self.cwd.mkdir()
        self.env = environment(PATH=f'{self.folder}:{os.environ["PATH"]}', FAKES=self.folder,
                               XDG_STATE_HOME=folder / 'state')
        for name in ('sbatch', 'squeue', 'scancel'):
            (self.folder / name).write_text(FAKE)
            (self.folder / name).chmod(0o755)
            self.says(name, '')
        self.says('sbatch', '12\n')

    def says(self, name, text, code=0):
        (self.folder / f'{name}.says').write_text(text)
        (self.folder / f'{name}.code').write_text(str(code))

    def reigen(self, *words, cwd=None, **env):
        return subprocess.run([PROGRAMS.reigen, *words], cwd=cwd or self.cwd, text=True,
                              capture_output=True, timeout=LIMIT, check=False,
                              env={**self.env, **env}, stdin=subprocess.DEVNULL)

    def submit(self, *options, cwd=None, **env):
        return self.reigen('run', '--on', 'slurm', '--submit', *options, '--', 'true', cwd=cwd,
                           **env)

    def asked(self):
        return (self.folder / 'asked').read_text()

    def record(self, number=12):
        return self.records / str(number)


@pytest.fixture
def queue(tmp_path):
    return Queue(tmp_path)


# ------------------------------------------------------------------------------ submission

def test_the_output_is_where_the_job_was_submitted_whatever_its_name(queue):
    cwd = queue.cwd / 'it\'s 50%j a "dir"'
    cwd.mkdir()
    done = queue.submit(cwd=cwd)
    assert (done.returncode, done.stdout) == (0, '12\n'), done.stderr
    assert f'--output={str(cwd).replace("%", "%%")}/reigen-%j.log' in queue.asked()
    assert f'log {cwd}/reigen-12.log\n' in queue.record().read_text()


@pytest.mark.parametrize('options,folder,said', [
    ((), 'back\\slash', 'submit it from another one'),
    ((), 'line\nbreak', 'submit it from another one'),
    (('--share-env', 'SECRET'), 'plain', 'the job would not have it'),
    (('--slurm-option=--array=0-3',), 'plain', 'not an array'),
    (('--slurm-option=-a0-3',), 'plain', 'not an array')])
def test_what_cannot_be_submitted_is_refused_before_it_is_lost(queue, options, folder, said):
    cwd = queue.cwd / folder
    cwd.mkdir()
    done = queue.submit(*options, cwd=cwd, SECRET='hush')
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not (queue.folder / 'asked').exists()


def test_sbatchs_refusal_is_told_with_a_remedy(queue):
    queue.says('sbatch', 'sbatch: be nice to others\nsbatch: error: invalid partition\n'
               'sbatch: error: Batch job submission failed: Invalid partition name specified\n', 1)
    done = queue.submit()
    assert done.returncode == 69, done.stderr
    assert 'Invalid partition name specified; sinfo -s lists the partitions' in done.stderr


def test_the_script_runs_the_plan_and_nothing_is_parsed_again(queue):
    """What the command line named may be gone, and its job file changed, when the job runs."""
    config = queue.cwd / 'job.yaml'
    config.write_text('np: 3\nmax-restarts: 2\n')
    assert queue.submit('--config', 'job.yaml', '--env', 'TOKEN=hush').returncode == 0
    config.unlink()
    text = (queue.folder / 'script').read_text()
    plan = Path(re.search(r" 'head' '--plan' '([^']+)' &", text)[1])
    assert plan.parent == queue.records and plan.stat().st_mode & 0o777 == 0o600
    assert b'TOKEN=hush' in plan.read_bytes() and 'hush' not in text
    queue.says('sbatch', 'sbatch: error: no\n', 1)
    assert queue.submit().returncode == 69
    assert list(queue.records.glob('plan.*')) == [plan], 'a job that was refused leaves its plan'


def test_defaults_that_would_change_the_submission_do_not_count(queue):
    assert queue.submit(SBATCH_WAIT='1', SBATCH_ARRAY_INX='0-9', SBATCH_QOS='q').returncode == 0
    assert queue.asked().count('SBATCH_') == queue.asked().count('SBATCH_QOS=q') == 1


def test_a_job_may_be_submitted_from_within_another_one(queue):
    inside = {'SLURM_JOB_ID': '7', 'SLURM_STEPMGR': 'node1', 'SLURM_NTASKS': '4'}
    assert queue.submit(**inside).returncode == 0
    assert 'SLURM_STEPMGR' not in queue.asked()


def test_a_job_with_the_number_of_an_old_one_is_not_taken_for_it(queue):
    assert queue.submit().returncode == 0
    with queue.record().open('a') as record:
        record.write('exit 9\n')
    queue.says('squeue', f'12|PENDING|Priority|{SINCE}|0:00|\n')
    assert queue.submit(cwd=queue.folder).returncode == 0
    told = queue.record().read_text()
    assert 'exit' not in told and f'log {queue.folder}/' in told


@pytest.mark.parametrize('signo', [signal.SIGTERM, signal.SIGUSR1])
def test_the_script_hands_signals_on_and_puts_down_how_it_ended(queue, signo):
    """As of sbatch --signal=B:USR1@60, which only the script gets."""
    stand_in = queue.folder / 'reigen'
    stand_in.write_text('#!/bin/sh\ntrap "exit 7" TERM USR1\necho up\n'
                        'for i in $(seq 600); do sleep 0.1; done\n')
    stand_in.chmod(0o755)
    assert queue.submit().returncode == 0
    script = queue.folder / 'script'
    text = script.read_text()
    assert os.path.realpath(PROGRAMS.agent) in text
    script.write_text(text.replace(os.path.realpath(PROGRAMS.agent), str(stand_in)))
    with queue.record().open('a') as record:
        record.write('exit 75\n')   # of a run that was put back into the queue
    for word in ('PENDING', 'REQUEUE_HOLD'):
        queue.says('squeue', f'12|{word}|BeginTime|{SINCE}|0:00|\n')
        waits = json.loads(queue.reigen('status', '12', '--json').stdout)
        assert (waits['state'], waits['exit_code']) == ('pending', None)
        assert queue.reigen('jobs').stdout.splitlines()[1].split()[:2] == ['12', 'pending']
    queue.says('squeue', f'12|RUNNING|None|{SINCE}|0:10|n1\n')
    with subprocess.Popen(['sh', script], env={**queue.env, 'SLURM_JOB_ID': '12'}, text=True,
                          stdout=subprocess.PIPE) as shell:
        assert shell.stdout.readline() == 'up\n'
        again = json.loads(queue.reigen('status', '12', '--json').stdout)
        assert (again['state'], again['exit_code']) == ('running', None)
        assert queue.reigen('jobs').stdout.splitlines()[1].split()[:2] == ['12', 'running']
        wait_until_caught(shell.pid, signo)
        shell.send_signal(signo)
        assert shell.wait(LIMIT) == 7
    assert queue.record().read_text().endswith('exit 7\n')


@pytest.mark.parametrize('options, most', [(('--min-np', '1'), 3), (('--max-restarts', '1'), 1)])
def test_a_job_whose_head_is_lost_with_its_node_begins_again_some_times(queue, options, most):
    """In a row, that is, and when they were short. One whose node was cut off puts down its end
    when there is another run."""
    assert queue.submit('-np', '2', *options).returncode == 0
    assert '--requeue' in queue.asked()
    script, agent = queue.folder / 'script', os.path.realpath(PROGRAMS.agent)
    text = script.read_text()
    assert agent in text

    def run(restarts, head):
        stand_in = queue.folder / 'head'
        stand_in.write_text(f'#!/bin/sh\n{head}\n')
        stand_in.chmod(0o755)
        script.write_text(text.replace(agent, str(stand_in)))
        done = subprocess.run(['sh', script], capture_output=True, text=True, check=False, env={
            **queue.env, 'SLURM_JOB_ID': '12', 'SLURM_RESTART_COUNT': str(restarts)}, timeout=LIMIT)
        return done.returncode, done.stderr

    lost = 'kill -9 $PPID'
    assert run(0, lost) == (-9, '')
    code, said = run(1, 'exit 75')
    assert code == 75 and f'the job begins again: 1 of {most} times at most' in said
    assert run(2, lost) == (-9, '')
    for number in range(1, most + 1):
        assert f'again: {number} of {most} times' in run(number + 2, lost)[1]
    code, said = run(most + 3, 'echo began')
    assert code == 76 and f'{most + 1} runs in a row' in said and f'again {most} times' in said
    assert queue.record().read_text().endswith('exit 76\n')
    assert run(0, f'echo begin 9 >>{queue.record()}; exit 75')[0] == 75
    assert queue.record().read_text().endswith('begin 9\n')
    # One that has run for more than an hour has done its work.
    queue.record().write_text(''.join(f'begin {n * 3600}\n' for n in range(most + 3)))
    assert f'again: 1 of {most} times' in run(9, lost)[1]


def wait_until_caught(pid, signo):
    def caught():
        status = Path(f'/proc/{pid}/status').read_text()
        return int(re.search(r'SigCgt:\s*(\w+)', status)[1], 16) >> (signo - 1) & 1
    until(caught, f'a handler of signal {signo}', LIMIT)


def test_records_of_long_ago_are_removed(queue):
    assert queue.submit().returncode == 0
    long_ago = time.time() - 100 * 24 * 3600
    for each in queue.records.iterdir():
        os.utime(each, (long_ago, long_ago))
    queue.says('sbatch', '13\n')
    assert queue.submit().returncode == 0
    assert {each.name.split('.')[0] for each in queue.records.iterdir()} == {'13', 'plan'}
    assert len(list(queue.records.iterdir())) == 2


# ------------------------------------------------------------------------------ afterwards

def test_a_job_of_another_cluster_is_looked_for_there(queue):
    queue.says('sbatch', '12;far\n')
    queue.says('squeue', f'CLUSTER: far\n12|RUNNING|None|{SINCE}|0:10|n[1-2]\n')
    assert queue.submit().stdout == '12\n'
    status = queue.reigen('status', '12')
    assert 'job 12: RUNNING on n[1-2] for 0:10' in status.stdout, status.stderr
    queue.says('squeue', f'CLUSTER: far\n12|CANCELLED|None|{SINCE}|0:10|n[1-2]\n')
    assert queue.reigen('stop', '12').returncode == 0
    assert queue.asked().count('--clusters=far') == 3 and 'scancel 12 --clusters' in queue.asked()


@pytest.mark.parametrize('code,told', [(None, 'ended by Slurm before it could say how: TIMEOUT'),
                                       (75, 'ended with exit code 75, for Slurm: TIMEOUT')])
def test_how_slurm_ended_a_job_is_told_while_it_knows(queue, code, told):
    assert queue.submit().returncode == 0
    if code is not None:
        with queue.record().open('a') as record:
            record.write(f'exit {code}\n')
    queue.says('squeue', f'12|TIMEOUT|TimeLimit|{SINCE}|1:00|n1\n')
    assert f'job 12: {told}\n' in queue.reigen('status', '12').stdout
    queue.says('squeue', 'slurm_load_jobs error: Invalid job id specified\n', 1)
    assert f'job 12: {told.split(": ")[0].split(", ")[0]}\n' in queue.reigen('status', '12').stdout


def test_a_job_on_very_many_nodes_is_not_taken_for_an_ended_one(queue):
    nodes = f'n[{",".join(str(n) for n in range(1001, 4001, 2))}]'
    assert queue.submit().returncode == 0
    queue.says('squeue', f'12|RUNNING|None|{SINCE}|0:10|{nodes}\n')
    assert 'job 12: RUNNING on n[1001,1003,' in queue.reigen('status', '12').stdout
    assert '--format=%i|%T|%r|%V|%M|%N' in queue.asked()


def test_why_a_job_waits_is_told_where_slurm_says_it(queue):
    assert queue.submit().returncode == 0
    queue.says('squeue', f'12|PENDING|None|{SINCE}|0:00|\n')
    assert queue.reigen('status', '12').stdout.startswith('job 12: PENDING\n')
    queue.says('squeue', f'12|PENDING|Resources|{SINCE}|0:00|\n')
    assert queue.reigen('status', '12').stdout.startswith('job 12: PENDING: Resources\n')


@pytest.mark.parametrize('reason,told', [
    ('PartitionConfig', ' (the partition has or allows less: see sinfo -s); it will not start as '
     'things are: reigen stop 12, and ask for fewer ranks or --nodes, or less of what they have'),
    ('QOSMaxNodePerUserLimit', ' (jobs of yours that run count, too: see squeue --me; if there '
     'are none, it will not start as things are: reigen stop 12, and ask for less)'),
    ('AssocMaxWallDurationPerJobLimit', '; it will not start as things are: reigen stop 12, and '
     'ask for less --time'),
    ('Priority', '')])
def test_what_helps_a_job_that_waits_is_told(queue, reason, told):
    assert queue.submit().returncode == 0
    queue.says('squeue', f'12|PENDING|{reason}|{SINCE}|0:00|\n')
    assert queue.reigen('status', '12').stdout.startswith(f'job 12: PENDING: {reason}{told}\n')
    facts = json.loads(queue.reigen('status', '--json', '12').stdout)
    assert facts['reason'] == reason


def test_a_job_whose_directory_its_node_lacks_is_told_of_it(queue):
    """Slurm cannot open its output there, and says no more than this."""
    assert queue.submit().returncode == 0
    queue.says('squeue', f'12|FAILED|JobLaunchFailure|{SINCE}|0:00|n1\n')
    told = queue.reigen('status', '12').stdout
    assert 'how: FAILED, JobLaunchFailure (its first node could not start it; that must have ' \
        'the directory /' in told and 'submit it from one that all share' in told, told


def test_a_queue_that_does_not_answer_is_not_the_jobs_end(queue):
    assert queue.submit().returncode == 0
    queue.says('squeue', QUEUE_DOWN, 1)
    queue.says('scancel', 'scancel: error: slurm_kill_job2 error: connect failure\n', 1)
    status = queue.reigen('status', '12')
    assert status.returncode == 69 and 'Unable to contact slurm controller' in status.stderr
    stop = queue.reigen('stop', '12')
    assert stop.returncode == 69 and 'scancel: ' in stop.stderr and 'failure' in stop.stderr


def test_users_defaults_hide_no_job(queue):
    assert queue.submit().returncode == 0
    queue.says('squeue', f'12|PENDING|Priority|{SINCE}|0:00|\n')
    hiding = {'SQUEUE_STATES': 'RUNNING', 'SQUEUE_PARTITION': 'x', 'SCANCEL_STATE': 'PENDING'}
    assert 'PENDING: Priority' in queue.reigen('status', '12', **hiding).stdout
    queue.says('squeue', '')
    assert queue.reigen('stop', '12', **hiding).returncode == 0
    assert 'SQUEUE_' not in queue.asked() and 'SCANCEL_' not in queue.asked()


def test_submitted_jobs_are_listed_with_one_question(queue):
    for number in ('12', '13', '14', '15'):
        queue.says('sbatch', f'{number}\n')
        assert queue.submit().returncode == 0
    with queue.record(15).open('a') as record:
        record.write('exit 3\n')
    queue.says('squeue', f'12|RUNNING|None|{SINCE}|1:10|n[1-2]\n'
                         f'13|PENDING|Priority|{SINCE}|0:00|\n')
    (queue.folder / 'asked').unlink()
    rows = [line.split()[:5] for line in queue.reigen('jobs').stdout.splitlines()[1:]]
    assert rows == [['12', 'running', '1:10', '-', 'n[1-2]'], ['13', 'pending', '0:00', '-', '-']]
    assert queue.asked().count('squeue') == 1 and '--jobs=12,13,14 ' in queue.asked()
    told = {job['id']: job for job in json.loads(queue.reigen('jobs', '-a', '--json').stdout)}
    assert {number: job['state'] for number, job in told.items()} == {
        '12': 'running', '13': 'pending', '14': 'ended', '15': 'ended'}
    assert told['13']['reason'] == 'Priority' and told['15']['exit_code'] == 3
    assert json.loads(queue.reigen('status', '12', '--json').stdout)['nodes'] == 'n[1-2]'
    queue.says('squeue', QUEUE_DOWN, 1)
    down = queue.reigen('jobs')
    assert down.returncode == 0 and down.stdout.count('unknown') == 3, down
    assert 'Slurm does not answer (squeue: slurm_load_jobs error' in down.stderr
    assert queue.asked().count('squeue') == 4     # one for the three of them


@pytest.mark.parametrize('options', [(), ('-f',)])
def test_a_job_without_output_is_told_apart_from_an_empty_one(queue, options):
    assert queue.submit().returncode == 0
    none = queue.reigen('logs', *options, '12')
    assert none.returncode == 69 and 'reigen status 12' in none.stderr, none.stderr
    (queue.cwd / 'reigen-12.log').touch()
    assert queue.reigen('logs', *options, '12').returncode == 0


def test_the_output_of_a_job_that_is_run_again_is_followed_from_its_start(queue):
    assert queue.submit().returncode == 0
    log = queue.cwd / 'reigen-12.log'
    log.write_text('first run\n')
    queue.says('squeue', f'12|RUNNING|None|{SINCE}|0:10|n1\n')
    with subprocess.Popen([PROGRAMS.reigen, 'logs', '-f', '12'], env=queue.env, text=True,
                          stdout=subprocess.PIPE) as following:
        assert following.stdout.readline() == 'first run\n'
        log.write_text('second\n')
        assert following.stdout.readline() == 'second\n'
        queue.says('squeue', '')
        with queue.record().open('a') as record:
            record.write('exit 3\n')
        assert following.wait(LIMIT) == 0
    attached = queue.reigen('attach', '12')
    assert (attached.returncode, attached.stdout) == (3, 'second\n'), attached
    assert 'leave it out' in queue.reigen('attach', '--tail', '1', '12').stderr


@pytest.mark.parametrize('words', [['logs', '-f'], ['attach']])
def test_who_follows_a_job_that_waits_reads_why_and_since_when(queue, words):
    """Once for each reason, and then its output."""
    assert queue.submit().returncode == 0
    queue.says('squeue', f'12|PENDING|Priority|{SINCE}|0:00|\n')
    with subprocess.Popen([PROGRAMS.reigen, *words, '12'], env=queue.env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as following:
        said = following.stderr.readline()
        assert said.startswith(f'reigen: job 12 is pending since {SINCE}: Priority'), said
        assert said.endswith('; its output follows when it runs\n'), said
        queue.says('squeue', f'12|PENDING|PartitionDown|{SINCE}|0:00|\n')
        assert f'pending since {SINCE}: PartitionDown' in following.stderr.readline()
        queue.says('squeue', f'12|RUNNING|None|{SINCE}|0:10|n1\n')
        assert following.stderr.readline() == 'reigen: job 12 runs now, on n1\n'
        (queue.cwd / 'reigen-12.log').write_text('hello\n')
        assert following.stdout.readline() == 'hello\n'
        queue.says('squeue', '')
        with queue.record().open('a') as record:
            record.write('exit 3\n')
        assert following.wait(LIMIT) == (3 if words == ['attach'] else 0)
        assert following.stderr.read() == ''


@pytest.mark.parametrize('command', ['status', 'logs', 'stop'])
@pytest.mark.parametrize('number', ['13', 'x', '12;13', '../12', '', '-1', '1' * 70])
def test_what_is_no_jobs_number_is_refused(queue, command, number):
    assert queue.submit().returncode == 0
    done = queue.reigen(command, number)
    assert done.returncode == 2 and command in done.stderr, done.stderr
