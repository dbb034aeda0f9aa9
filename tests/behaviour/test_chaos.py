# SPDX-License-Identifier: Apache-2.0
"""--chaos: faults that the user asks for happen to whom and when they should, once, and are
told."""
import json
import os
import re
import signal

import pytest

from built import PROGRAMS, ROOT
from processes import assert_gone, mark, state, with_word
from test_elastic import assert_each_step_once, job  # noqa: F401 (a fixture)
from wait import until

STEPS = [PROGRAMS.python, ROOT / 'tests/programs/steps.py']


def steps(reigen, python_ranks, chaos, *options, count=9):
    return reigen('run', '-np', 2, *options, '--chaos', chaos, '--', *STEPS, count,
                  env=python_ranks)


def lines_of(done, rank):
    return re.findall(rf'^\[{rank}\] (.*)', done.stdout, re.M)


def chaos_of(done):
    return re.findall(r'^reigen: (chaos: .*)', done.stderr, re.M)


# --- at a step --------------------------------------------------------------------------------


def test_a_rank_is_killed_at_its_step(reigen, python_ranks):
    done = steps(reigen, python_ranks, 'kill:rank=1@step=3')
    assert done.returncode == 137, done.stderr
    assert lines_of(done, 1)[-1] == 'begin 3'
    assert chaos_of(done) == ['chaos: kill rank 1 of host localhost (step 3)']
    assert 'rank 1 on localhost failed first: signal 9 (Killed)' in done.stderr


def test_a_rank_exits_at_its_step(reigen, python_ranks):
    done = steps(reigen, python_ranks, 'exit:rank=0@step=2 code=7')
    assert done.returncode == 7, done.stderr
    assert lines_of(done, 0)[-1] == 'begin 2'
    assert chaos_of(done) == ['chaos: exit rank 0 of host localhost with code 7 (step 2)']


def test_a_rank_stops_and_goes_on(start, python_ranks):
    child = start(PROGRAMS.reigen, 'run', '-np', 1, '--chaos', 'stop:rank=0@step=2 for 2s', '--',
                  *STEPS, 5, env=python_ranks)
    pid = int(child.stdout.readline().split()[1])
    until(lambda: state(pid) == 'T', 'a stopped rank')
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0 and out.splitlines()[-1] == 'done', (out, err)
    assert 'reigen: chaos: stop rank 0 of host localhost for 2s (step 2)' in err


def test_a_slow_rank_is_late_by_so_much_at_each_step(start, python_ranks):
    """Its second step takes an hour more, and the other rank is not held up."""
    child = start(PROGRAMS.reigen, 'run', '-np', 2, '--chaos', 'slow:rank=1@step=2 by 1h', '--',
                  *STEPS, 4, env=python_ranks)
    seen = []
    while '[0] done' not in seen or '[1] begin 2' not in seen:
        seen.append(child.stdout.readline().rstrip())
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=60)
    assert '[1] begin 3' not in seen + out.splitlines()
    assert 'reigen: chaos: slow rank 1 of host localhost by 3600s (step 2)' in err


def test_a_slow_rank_is_as_quick_as_before_after_its_time(reigen, python_ranks):
    done = steps(reigen, python_ranks, 'slow:rank=1@step=1 for 1ms by 3ms', count=4)
    assert done.returncode == 0, done.stderr
    assert lines_of(done, 1)[-1] == 'done'


def test_an_event_happens_once_in_a_job_that_is_started_again(reigen, python_ranks):
    done = steps(reigen, python_ranks, 'kill:rank=0@step=2', '--max-restarts', 2)
    assert done.returncode == 0, done.stderr
    assert len(chaos_of(done)) == 1, done.stderr
    assert lines_of(done, 0).count('begin 2') == 2 and 'ended well after 1 restart' in done.stderr


def test_what_never_happens_is_told(reigen, python_ranks):
    done = steps(reigen, python_ranks, 'kill:rank=1@step=1000,stop:rank=0@1h for 3s', count=2)
    assert done.returncode == 0, done.stderr
    assert chaos_of(done) == [
        'chaos: never happened: kill:rank=1@step=1000 (the job ended before)',
        'chaos: never happened: stop:rank=0@3600s for 3s (the job ended before)']


def test_a_stranger_who_claims_to_be_told_of_it_is_not_heard(reigen, python_ranks):
    """The variable alone does nothing: the launcher decides."""
    done = reigen('run', '-np', 1, '--env', 'REIGEN_CHAOS=0:kill:0:1:0:0,nonsense', '--', *STEPS, 3,
                  env=python_ranks)
    assert done.returncode == 0 and not chaos_of(done), done.stderr


def test_programs_read_of_it_as_an_event(reigen, python_ranks):
    done = steps(reigen, python_ranks, 'exit:rank=1@step=2', '--json')
    told = [json.loads(line) for line in done.stdout.splitlines()]
    (event,) = [e for e in told if e['event'] == 'chaos']
    assert (event['action'], event['rank'], event['host'], event['step']) == (
        'exit', 1, 'localhost', 2)


def test_a_step_is_one_of_the_optimizer_where_the_program_tells_of_none(reigen, python_ranks):
    """rank 0 hears of the loss at its next step."""
    done = reigen('run', '-np', 2, '--chaos', 'kill:rank=1@step=4', '--', PROGRAMS.python,
                  ROOT / 'tests/programs/optimizer_steps.py', env=python_ranks)
    if "No module named 'torch'" in done.stderr:
        pytest.skip('there is no torch')
    assert done.returncode == 137, done.stderr
    assert lines_of(done, 1)[-1] == 'begin 4'
    assert chaos_of(done) == ['chaos: kill rank 1 of host localhost (step 4)']


# --- at a time --------------------------------------------------------------------------------


@pytest.mark.parametrize('command', ['run', 'horovodrun', 'torchrun'])
def test_a_program_that_knows_nothing_of_it_is_killed_at_a_time(reigen, command):
    options = ['--nproc-per-node', 2, '--no-python'] if command == 'torchrun' else ['-np', 2]
    done = reigen(command, *options, '--chaos', 'kill:rank=1@50ms', 'sh', '-c', 'sleep 600')
    assert done.returncode == 137, done.stderr
    assert 'reigen: chaos: kill rank 1 of host localhost (at 50ms)' in done.stderr


def test_all_ranks_of_a_host_are_stopped(start):
    word = mark()
    child = start(PROGRAMS.reigen, 'run', '-np', 2, '--chaos', 'stop:host=localhost@0s', '--',
                  PROGRAMS.python, '-c', f'import time; time.sleep(600); "{word}"')

    def stopped():
        return [pid for pid in with_word(word) if state(pid) == 'T']
    until(lambda: len(stopped()) == 2, 'two stopped ranks')
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=60)
    assert 'reigen: chaos: stop host localhost (at 0s)' in err
    assert_gone(word)


def test_chance_is_told_and_can_be_had_again(reigen):
    def drawn(events):
        done = reigen('run', '-np', 4, '--chaos', events, '--', 'sleep', 600)
        assert done.returncode == 137, done.stderr
        first, then = chaos_of(done)
        seed, rank, ms = re.fullmatch(
            r'chaos: seed=(\d+): kill:rank=(\d)@(\d+m?s)', first).groups()
        assert then == f'chaos: kill rank {rank} of host localhost (at {ms})'
        return seed, rank, ms
    events = 'kill:random@10ms..300ms'
    seed, *chosen = drawn(events)
    assert drawn(f'{events},seed={seed}') == (seed, *chosen)
    assert drawn(f'seed=5,{events}') == ('5', '2', '278ms')


# --- elastic jobs -----------------------------------------------------------------------------


def test_ranks_are_those_of_the_epoch_and_an_event_happens_once(job):  # noqa: F811
    it = job('-np 3 --min-np 1 -H a:1,b:1,c:1 --chaos kill:rank=1@step=4')
    it.wait('step .* size 2')
    it.wait(r'step \d\d size 2')
    it.stop()
    assert it.end() == 0, it.text()
    assert it.text().count('chaos: kill rank 1 of host b (step 4)') == 1
    assert it.text().count('chaos:') == 1, 'the rank 1 of the next epoch is another one'
    assert 'host b is set aside for the rest of the job: rank 1 on b: signal 9' in it.text()
    assert_each_step_once(it)


def test_a_host_that_is_killed_costs_all_its_ranks(job):  # noqa: F811
    it = job('-np 2 --min-np 1 -H a:1,b:2 --chaos kill:host=b@1s')
    it.wait('chaos: kill host b')
    it.wait('step .* size 1')
    it.stop()
    assert it.end() == 0, it.text()
    assert it.text().count('chaos:') == 1


def test_a_host_that_is_cut_off_is_lost(job):  # noqa: F811
    it = job('-np 2 --min-np 1 -H a:1,b:1 --lease 3s --chaos cut:host=b@1s')
    it.wait('chaos: cut host b')
    it.wait('step .* size 1')
    it.stop()
    assert it.end() == 0, it.text()
    assert re.search(r'host b is set aside .*silent for 3 s \(--lease\)', it.text()), it.text()


def test_a_host_that_is_cut_off_for_a_moment_goes_on(job):  # noqa: F811
    """Far shorter than what makes a host count as lost."""
    it = job(['-np', '2', '--min-np', '1', '-H', 'a:1,b:1', '--chaos', 'cut:host=b@1s for 1s'])
    it.wait('chaos: cut host b for 1s')
    pid = it.pid(1)
    until(lambda: state(pid) == 'T', 'a stopped rank')
    until(lambda: state(pid) != 'T', 'it goes on')
    before = max([0, *(batch for batch, _ in it.steps())])
    it.wait(f'step {before + 5} size 2')
    it.stop()
    assert it.end() == 0, it.text()
    assert len(re.findall('done . of 2', it.text())) == 2


def test_whom_an_elastic_job_lacks_by_then_is_told(job):  # noqa: F811
    it = job('-np 1 --min-np 1 -H a:1 --chaos kill:rank=7@10ms,kill:host=z@10ms')
    it.wait('step 9')
    it.stop()
    assert it.end() == 0, it.text()
    for event in ('kill:rank=7@10ms', 'kill:host=z@10ms'):
        assert f'never happened: {event} (there was no such rank or host then)' in it.text()


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize('events, words', [
    ('kil:rank=1@1s', 'kil is no event; did you mean kill?'),
    ('kill:rank=2@1s', 'this job has 2 ranks, from 0 on; name one of them'),
    ('kill:host=b@1s', 'this job has no such host; name one as -H, --hostfile or'),
    ('kill:rank=1', 'when? write @step=N, or a time, such as @30s'),
    ('slow:rank=1@1s', 'a rank does that by itself, at a step of its own: slow:rank=N@step=N'),
    ('kill:rank=1@1s for 2s', 'kill takes no for; leave it out'),
    ('', 'no event'),
])
def test_what_makes_no_sense_is_refused(reigen, events, words):
    done = reigen('run', '-np', 2, '--chaos', events, '--', 'true')
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith('reigen: --chaos') and words in done.stderr


@pytest.mark.parametrize('options, words', [
    (['--write-plan', 'plan'], 'not together with --write-plan'),
    (['--on', 'slurm', '--submit'], 'not together with --submit'),
    (['--on', 'kubernetes', '--image', 'x'], 'on Kubernetes nobody here can make faults'),
    (['--engine', 'openmpi'], 'only those that Reigen starts have faults'),
])
def test_where_nobody_can_make_faults_they_are_refused(reigen, tmp_path, options, words):
    done = reigen('run', '-np', 2, *options, '--chaos', 'kill:rank=1@1s', '--', 'true',
                  cwd=tmp_path)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert not os.listdir(tmp_path)
