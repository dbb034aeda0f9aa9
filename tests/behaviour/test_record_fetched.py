# SPDX-License-Identifier: Apache-2.0
"""The record of a job whose head a platform runs comes here while the job runs.

The platform's programs are played; what they start beside the head is the real agent."""
import json
import os
import re
import subprocess

import pytest

from built import PROGRAMS, environment
from test_kubernetes_played import played  # noqa: F401 (a fixture)
from test_submitted import Queue, SINCE
from test_top import SRUN, dump, head_of, jobs  # noqa: F401 (a fixture)
from wait import until

LIMIT = 60
FILES = {'events.jsonl', 'samples.jsonl'}  # the ranks write nothing
ELSEWHERE = 'elsewhere'  # a folder that only the head knows


def record_of(number):
    """What the agent beside the head of this number gives."""
    return subprocess.run([PROGRAMS.agent, 'record', number], env=environment(), text=True,
                          capture_output=True, timeout=LIMIT, check=False,
                          stdin=subprocess.DEVNULL)


def recording(head, number):
    """Wait until it has all of its files."""
    def told():
        assert head.poll() is None, 'the job has ended'
        return FILES <= set(re.findall(r'^(\S+\.jsonl) \d+$', record_of(number).stdout, re.M))
    until(told, 'a record with all files', LIMIT)


@pytest.fixture(name='queue')
def submitted(tmp_path):
    """Of Slurm, which has the job of this process's number."""
    number = str(os.getpid())  # by which nobody else's head is known
    queue = Queue(tmp_path)
    (queue.folder / 'srun').write_text(SRUN)
    (queue.folder / 'srun').chmod(0o755)
    queue.says('sbatch', f'{number}\n')
    queue.says('squeue', f'{number}|RUNNING|None|{SINCE}|1:02:03|n1\n')
    assert queue.submit().returncode == 0
    queue.number = number
    return queue


def events_of(folder):
    return [json.loads(line) for line in (folder / 'events.jsonl').read_text().splitlines()]


def test_of_slurm_it_is_fetched_by_a_step_of_the_job(jobs, queue, tmp_path):  # noqa: F811
    kept = queue.cwd / f'{queue.number}.record'
    with head_of(jobs, tmp_path, queue.number, '--record', tmp_path / ELSEWHERE,
                 XDG_STATE_HOME=tmp_path / 'other') as head:
        recording(head, queue.number)
        # What srun says before and behind it is no part of it.
        (queue.folder / 'srun').write_text(
            SRUN.replace('exec "$@"', 'echo srun: a word >&2; "$@"; c=$?; echo srun: end >&2; '
                                      'exit $c'))
        done = queue.reigen('report', queue.number)
        assert (done.returncode, done.stdout) == (0, f'{queue.number}.record/report.html\n'), done
        assert {p.name for p in kept.iterdir()} == FILES | {'report.html'}
        assert kept.stat().st_mode & 0o777 == 0o700
        assert {p.stat().st_mode & 0o777 for p in kept.iterdir()} == {0o600}
        assert 'The job runs, and the record goes on' in (kept / 'report.html').read_text()
        there = (tmp_path / ELSEWHERE / 'events.jsonl').read_text()
        assert there.startswith((kept / 'events.jsonl').read_text())
        (kept / 'events.jsonl').write_text('older')
        assert queue.reigen('report', '-o', '-', queue.number).stdout.startswith('<!DOCTYPE html>')
        assert [e['event'] for e in events_of(kept)][:3] == ['record', 'job', 'start']
        head.terminate()
        head.wait(LIMIT)
    gone = queue.reigen('report', queue.number)
    assert gone.returncode == 69 and 'its head does not answer: ' in gone.stderr, gone
    queue.says('squeue', '')
    (tmp_path / 'state/reigen/slurm' / queue.number).open('a').write('exit 143\n')
    over = queue.reigen('report', queue.number)
    assert over.returncode == 69 and f'reigen report {queue.number}.record' in over.stderr, over
    assert queue.reigen('report', f'{queue.number}.record').returncode == 0


def test_where_the_list_of_jobs_is_the_same_it_is_read_where_it_is(jobs, queue,  # noqa: F811
                                                                    tmp_path):
    with head_of(jobs, tmp_path, queue.number, '--record', tmp_path / ELSEWHERE) as head:
        recording(head, queue.number)
        done = queue.reigen('report', queue.number)
    assert (done.returncode, done.stdout) == (0, f'{tmp_path}/{ELSEWHERE}/report.html\n'), done
    assert not any(queue.cwd.glob('*.record'))


def test_what_is_not_there_to_be_fetched_is_told(jobs, queue, tmp_path):  # noqa: F811
    other = {'XDG_STATE_HOME': tmp_path / 'other'}
    with head_of(jobs, tmp_path, queue.number, **other):
        plain = until(lambda: 'not recorded' in (now := record_of(queue.number)).stdout and now,
                      'an answer', LIMIT)
        assert plain.returncode == 69, plain
        done = queue.reigen('report', queue.number)
        assert done.returncode == 69, done
        assert f'job {queue.number}: it is not recorded; start it with --record DIR' in done.stderr
    queue.says('squeue', f'{queue.number}|PENDING|Priority|{SINCE}|0:00|\n')
    waits = queue.reigen('report', queue.number)
    assert waits.returncode == 69 and 'Slurm says PENDING; its record is fetched while it runs' \
        in waits.stderr, waits


@pytest.mark.parametrize('says, told', [
    ('echo srun: error: no such step >&2; exit 1', 'srun: error: no such step'),
    ('exit 7', 'has ended with 7'),
    ('printf "reigen-record 1\\nevents.jsonl 10\\nabc"', 'did not come whole'),
    ('printf "reigen-record 1\\n../x 3\\nabcreigen-record-end\\n"', 'did not come whole'),
    ('printf "reigen-record 1\\nevents.jsonl 99999999999999999999\\nabc"', 'did not come whole'),
    ('printf "reigen-record 1\\nevents.jsonl 3\\nabcreigen-record-end\\n"', 'no record')])
def test_what_is_no_record_is_refused(queue, says, told):
    (queue.folder / 'srun').write_text(f'#!/bin/sh\n{says}\n')
    done = queue.reigen('report', queue.number)
    assert done.returncode in (2, 69) and told in done.stderr, done
    assert told == 'no record' or not any(queue.cwd.iterdir()), 'something of it was kept'


def test_a_folder_that_holds_something_else_stays_as_it_is(queue):
    mine = queue.cwd / f'{queue.number}.record'
    mine.mkdir()
    (mine / 'thesis').write_text('mine')
    (queue.folder / 'srun').write_text(
        '#!/bin/sh\nprintf "reigen-record 1\\nevents.jsonl 3\\nabcreigen-record-end\\n"\n')
    done = queue.reigen('report', queue.number)
    assert done.returncode == 2 and 'holds no record; move it away' in done.stderr, done
    assert [p.name for p in mine.iterdir()] == ['thesis']


def test_of_kubernetes_it_is_fetched_by_kubectl_exec(jobs, played, tmp_path):  # noqa: F811
    name = f'job{os.getpid()}'
    labels = {'app.kubernetes.io/name': 'reigen', 'app.kubernetes.io/instance': name}
    made = {'kind': 'Job', 'metadata': {'name': name, 'labels': labels},
            'spec': {'completions': 1}, 'status': {'active': 1}}
    pod = {'kind': 'Pod', 'metadata': {
        'name': f'{name}-0-a', 'creationTimestamp': '2026-01-01T00:00:00Z',
        'labels': {**labels, 'batch.kubernetes.io/job-completion-index': '0'}},
        'spec': {'nodeName': 'node1'}, 'status': {'phase': 'Running', 'containerStatuses': [
            {'name': 'reigen', 'state': {'running': {}}}]}}
    asks = f'os.execv({str(PROGRAMS.agent)!r}, words[words.index("--") + 1:])'
    (played.folder / 'plays').write_text(json.dumps({
        'config view': ['say("space@ctx")'], 'exec': [asks], 'get job': [f'print({dump(made)})'],
        'get pods': [f'print({dump({"items": [pod]})})'],
        'get jobs,pods': [f'print({dump({"items": [made, pod]})})']}))
    with head_of(jobs, tmp_path, name, '--record', tmp_path / ELSEWHERE,
                 XDG_STATE_HOME=tmp_path / 'other') as head:
        recording(head, name)
        done = subprocess.run([PROGRAMS.reigen, 'report', '--namespace', 'space', name],
                              env=played.env, capture_output=True, text=True, timeout=LIMIT,
                              check=False, stdin=subprocess.DEVNULL, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f'{name}.record/report.html\n'), done
    assert {p.name for p in (tmp_path / f'{name}.record').iterdir()} == FILES | {'report.html'}
