# SPDX-License-Identifier: Apache-2.0
"""The record of a job whose head a platform runs comes here while the job runs.

The platform's programs are played; what they start beside the head is the real agent."""
import json
import os
import re
import subprocess

import pytest

from built import PROGRAMS, environment
from test_submitted import Queue, SINCE
from test_top import SRUN, head_of, jobs  # noqa: F401 (a fixture)
from wait import until

LIMIT = 60
FILES = {'events.jsonl', 'samples.jsonl'}  # the ranks write nothing
COPIED = '{"event":"copied"}\n'  # how a copy ends
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


def record_that_began(at):
    return json.dumps({'record': 1, 'event': 'record', 'time': at, 'version': '1'}) + '\n'


def comes(queue, events):
    """Let these come as the events of a record."""
    (queue.folder / 'record').write_text(
        f'reigen-record 1\nevents.jsonl {len(events)}\n{events}reigen-record-end\n')
    (queue.folder / 'srun').write_text(f'#!/bin/sh\ncat {queue.folder}/record\n')


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
        here = (kept / 'events.jsonl').read_text()
        assert here.endswith(COPIED) and there.startswith(here.removesuffix(COPIED)), here
        for name in ('tails.jsonl', '.fresh'):  # of an older copy, and of one that was cut off
            (kept / name).write_text('older')
        assert queue.reigen('report', '-o', '-', queue.number).stdout.startswith('<!DOCTYPE html>')
        assert {p.name for p in kept.iterdir()} == FILES | {'report.html'}
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
    page = (kept / 'report.html').read_text()
    assert 'This is a copy of the record' in page and 'copied while it ran' in page
    assert 'nobody has written its end' not in page


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
        plain = until(lambda: 'has no record' in (now := record_of(queue.number)).stdout and now,
                      'an answer', LIMIT)
        assert plain.returncode == 69, plain
        done = queue.reigen('report', queue.number)
        assert done.returncode == 69, done
        assert f'job {queue.number}: it has no record, or its folder is not there any more; ' \
            'start it with --record DIR' in done.stderr, done
    queue.says('squeue', f'{queue.number}|PENDING|Priority|{SINCE}|0:00|\n')
    waits = queue.reigen('report', queue.number)
    assert waits.returncode == 69 and 'Slurm says PENDING; its record is fetched while it runs' \
        in waits.stderr, waits


@pytest.mark.parametrize('says, told', [
    ('echo srun: error: no such step >&2; exit 1', 'srun: error: no such step'),
    ('seq 3; echo the cause; echo; echo it ended; echo; exit 1', ': the cause; it ended\n'),
    ('printf "reigen-record 1\\nevents.jsonl 300000000\\n"; head -c 270000000 /dev/zero | '
     'tr "\\0" x', 'larger than 256 MB'),
    ('exit 7', 'has ended with 7'),
    ('printf "reigen-record 1\\nevents.jsonl 10\\nabc"', 'did not come whole'),
    ('printf "reigen-record 1\\n../x 3\\nabcreigen-record-end\\n"', 'did not come whole'),
    ('printf "reigen-record 1\\nevents.jsonl 99999999999999999999\\nabc"', 'did not come whole'),
    ('printf "reigen-record 1\\nevents.jsonl 3\\nabcreigen-record-end\\n"', 'no record')])
def test_what_is_no_record_is_refused(queue, says, told):
    (queue.folder / 'srun').write_text(f'#!/bin/sh\n{says}\n')
    done = queue.reigen('report', queue.number)
    assert done.returncode in (2, 69) and told in done.stderr, done
    assert not any(queue.cwd.iterdir()), 'something of it was kept'


def test_a_folder_that_holds_something_else_stays_as_it_is(queue):
    mine = queue.cwd / f'{queue.number}.record'
    mine.mkdir()
    (mine / 'thesis').write_text('mine')
    comes(queue, record_that_began(1))
    done = queue.reigen('report', queue.number)
    assert done.returncode == 2 and 'holds no record; move it away' in done.stderr, done
    assert [p.name for p in mine.iterdir()] == ['thesis']


def test_a_folder_elsewhere_is_not_taken_for_it(queue, tmp_path):
    (tmp_path / 'mine').mkdir()
    (queue.cwd / f'{queue.number}.record').symlink_to(tmp_path / 'mine')
    comes(queue, record_that_began(1))
    done = queue.reigen('report', queue.number)
    assert done.returncode == 2 and 'is no folder; move it away' in done.stderr, done
    assert not any((tmp_path / 'mine').iterdir())


def test_the_copy_of_an_earlier_job_of_this_name_is_kept(queue):
    kept = queue.cwd / f'{queue.number}.record'
    kept.mkdir()
    (kept / '.fresh').write_text('of a copy that was cut off')
    comes(queue, record_that_began(1))
    assert queue.reigen('report', queue.number).returncode == 0
    events = events_of(kept)
    comes(queue, record_that_began(2))
    done = queue.reigen('report', queue.number)
    assert done.returncode == 2 and 'another job' in done.stderr, done
    assert '; move it away' in done.stderr and events_of(kept) == events, done


def test_a_file_of_the_timeline_s_name_here_is_not_the_job_s(queue, tmp_path):
    timeline = tmp_path / 'timeline.json'
    timeline.write_text('[]')
    events = record_that_began(1) + json.dumps({'event': 'job', 'timeline': str(timeline)}) + '\n'
    (tmp_path / 'own').mkdir()
    (tmp_path / 'own/events.jsonl').write_text(events)
    assert f'href="{timeline}"' in queue.reigen('report', '-o', '-', tmp_path / 'own').stdout
    comes(queue, events)
    for name in (queue.number, f'{queue.number}.record'):
        done = queue.reigen('report', '-o', '-', name)
        assert done.returncode == 0 and 'It is not where the report was made' in done.stdout, done


def test_of_kubernetes_it_is_fetched_by_kubectl_exec(jobs, played, tmp_path):  # noqa: F811
    name = f'job{os.getpid()}'
    played.has_job(name)
    with head_of(jobs, tmp_path, name, '--record', tmp_path / ELSEWHERE,
                 XDG_STATE_HOME=tmp_path / 'other') as head:
        recording(head, name)
        done = subprocess.run([PROGRAMS.reigen, 'report', '--namespace', 'space', name],
                              env=played.env, capture_output=True, text=True, timeout=LIMIT,
                              check=False, stdin=subprocess.DEVNULL, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f'{name}.record/report.html\n'), done
    assert {p.name for p in (tmp_path / f'{name}.record').iterdir()} == FILES | {'report.html'}
