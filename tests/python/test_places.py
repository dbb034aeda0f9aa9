# SPDX-License-Identifier: Apache-2.0
"""A job that is told to stop says in which line of Python each rank was, as KeyboardInterrupt does
after Ctrl-C."""
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from wait import until

import jobs

PLACE_0 = r'\S*(stopped\.py:\d+ in step|stands\.py:\d+ in allreduce)'
PLACE_1 = r'\S*stopped\.py:\d+ in rest'


@pytest.fixture
def launch(tmp_path):
    """launch(*options, program=...): a job of two ranks, once both have said that they are there;
    its environment is launch.env."""
    started = []

    def begin(*options, program=(jobs.HERE / 'ranks/stopped.py', 'rests')):
        job = subprocess.Popen([jobs.build() / 'src/programs/reigen', 'run', '-np', '2', *options,
                                '--', jobs.python(), *program], env=begin.env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        started.append(job)
        for _ in range(2):
            while b'there' not in (line := job.stdout.readline()):
                assert line, job.communicate()
                if b'"rank-started"' in line:
                    begin.pids[json.loads(line)['rank']] = json.loads(line)['pid']
            if stops := re.search(rb'there (\d+)', line):
                stat = Path(f'/proc/{int(stops[1])}/stat')
                until(lambda stat=stat: stat.read_text().rpartition(')')[2].split()[0] == 'T',
                      'a stop')
        return job

    begin.pids = {}  # by rank, with --json
    begin.env = {**os.environ, 'PYTHONPATH': str(jobs.ROOT / 'bindings/python'),
                 'PYTHONUNBUFFERED': '1', 'PYTHONDONTWRITEBYTECODE': '1',
                 'REIGEN_AGENT': str(jobs.build() / 'src/programs/agent/reigen-agent'),
                 'REIGEN_LIBRARY': jobs.library(), 'XDG_STATE_HOME': str(tmp_path / 'state')}
    yield begin
    for job in started:
        if job.poll() is None:
            job.kill()
        job.communicate()


def child_of(pid):
    child, = Path(f'/proc/{pid}/task/{pid}/children').read_text().split()
    return int(child)


def program(what):
    return jobs.HERE / 'ranks/stopped.py', what


@pytest.mark.parametrize('how', ['signal', 'stop'])
def test_a_job_that_is_told_to_stop_says_where_each_rank_was(launch, how):
    job = launch(program=program('waits'))
    if how == 'signal':
        job.send_signal(signal.SIGTERM)
    else:
        reigen = [job.args[0], 'stop']
        listed = subprocess.run([job.args[0], 'jobs', '--json'], env=launch.env, check=True,
                                capture_output=True)
        subprocess.run([*reigen, json.loads(listed.stdout)[0]['id']], env=launch.env, check=True,
                       capture_output=True)
    out, err = job.communicate(timeout=jobs.LIMIT_S)
    assert job.returncode == 143, (out, err)
    assert re.search(rf'\n  rank 0 was at {PLACE_0}\n', err.decode()), err
    assert re.search(rf'\n  rank 1 was at {PLACE_1}\n', err.decode()), err


def test_a_head_that_is_an_agent_says_so_too(launch, tmp_path):
    plan, reigen = tmp_path / 'plan', jobs.build() / 'src/programs/reigen'
    subprocess.run([reigen, 'run', '-np', '2', '--write-plan', plan, '--', jobs.python(),
                    *program('waits')], env=launch.env, check=True, stdin=subprocess.DEVNULL)
    with subprocess.Popen([launch.env['REIGEN_AGENT'], 'head', '--plan', plan], env=launch.env,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as job:
        try:
            for _ in range(2):
                assert b'there' in job.stdout.readline()
            job.send_signal(signal.SIGTERM)
            _, err = job.communicate(timeout=jobs.LIMIT_S)
        finally:
            job.kill()
    assert job.returncode == 143, err
    assert re.search(rf'\n  rank 0 was at {PLACE_0}\n', err.decode()), err
    assert re.search(rf'\n  rank 1 was at {PLACE_1}\n', err.decode()), err


def told_after_its_agent(launch):
    """What a launcher says whose agent was told to stop before it, while rank 0 was stopped."""
    job = launch('--json', program=program('stopped'))
    os.kill(launch.pids[0], signal.SIGSTOP)
    os.kill(child_of(child_of(job.pid)), signal.SIGTERM)  # the agent, below its guard
    time.sleep(0.1)  # patient: the launcher hears of it, and asks the ranks
    job.send_signal(signal.SIGTERM)
    time.sleep(0.1)  # patient: were ranks told to end now, rank 0 would end before it answers
    os.kill(launch.pids[0], signal.SIGCONT)
    out, _ = job.communicate(timeout=jobs.LIMIT_S)
    return {e['rank']: e['place'] for e in map(json.loads, out.splitlines())
            if e['event'] == 'rank-ended'}


def test_who_is_told_after_its_agent_was_lets_ranks_answer_first(launch):
    """As where Kubernetes ends all pods, and the head's is not the first. On a busy computer the
    second in which ranks may answer can be over before rank 0 goes on."""
    assert any(re.fullmatch(PLACE_1, told_after_its_agent(launch)[0]) for _ in range(5))


def test_a_job_whose_time_is_over_does_so_too(launch):
    job = launch('--timeout', '8s', program=program('waits'))
    _, err = job.communicate(timeout=jobs.LIMIT_S)
    assert job.returncode == 124 and re.search(rf'\n  rank 1 was at {PLACE_1}\n', err.decode()), err


def test_the_same_as_events(launch):
    job = launch('--json', program=program('waits'))
    job.send_signal(signal.SIGTERM)
    out, err = job.communicate(timeout=jobs.LIMIT_S)
    events = [json.loads(line) for line in out.splitlines()]
    places = {e['rank']: e['place'] for e in events if e['event'] == 'rank-ended'}
    assert re.fullmatch(PLACE_0, places[0]) and re.fullmatch(PLACE_1, places[1]), (events, err)


def test_ranks_that_are_at_the_same_place_share_a_line(launch):
    job = launch()
    job.send_signal(signal.SIGTERM)
    _, err = job.communicate(timeout=jobs.LIMIT_S)
    assert re.search(rf'\n  ranks 0-1 were at {PLACE_1}\n', err.decode()), err


def test_a_rank_that_cannot_answer_does_not_keep_the_others_from_it(launch):
    """It is stopped, as by a debugger. The agent lets it go on for its end, and then it may answer
    after all."""
    job = launch(program=program('stopped'))
    job.send_signal(signal.SIGTERM)
    _, err = job.communicate(timeout=jobs.LIMIT_S)
    assert job.returncode == 143 and b'\n  rank 0 was at ' in err, err


@pytest.mark.parametrize('words', [['--grace', '0'], []])
def test_who_is_not_asked_ends_as_ever(launch, words):
    """There is no time for an answer, or no runtime for it."""
    code = 'import time\nprint("there", flush=True)\ntime.sleep(1000)'
    job = launch(*words, program=program('rests') if words else ['-c', code])
    job.send_signal(signal.SIGTERM)
    _, err = job.communicate(timeout=jobs.LIMIT_S)
    assert b' was at ' not in err and b' were at ' not in err, err
