# SPDX-License-Identifier: Apache-2.0
"""Jobs whose hosts come and go. The hosts are homes on this computer, behind a program in the place
of ssh; the ranks are real, and count steps by Reigen's own operations."""
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from built import PROGRAMS, ROOT, environment
from processes import assert_gone, state
from test_hosts import FAKE
from wait import until

PROGRAM = ROOT / 'tests/programs/elastic_steps.py'


class Job:
    """A running `reigen run` (or another command) of PROGRAM, and what it has written."""

    def __init__(self, start, tmp_path, options, command='run', fail=False, **more):
        self.folder = tmp_path
        fake = tmp_path / 'fake-ssh'
        fake.write_text(FAKE.format(folder=tmp_path, before=':'))
        fake.chmod(0o755)
        self.out = tmp_path / 'out'
        separator = ['--'] if command == 'run' else []
        argv = [PROGRAMS.reigen, command, *options, *separator, PROGRAMS.python, PROGRAM,
                tmp_path / 'stop', *([tmp_path / 'fail'] if fail else [])]
        with self.out.open('w') as file:
            self.child = start(*argv, stdout=file, stderr=file, env=environment(
                **{'REIGEN_SSH': fake, 'HOME': tmp_path, 'REIGEN_DISCOVERY_MS': 100, **more}))

    def text(self):
        return self.out.read_text()

    def wait(self, pattern, count=1):
        """The last of at least so many matches."""
        def find():
            over = self.child.poll() is not None
            found = list(re.finditer(pattern, self.text(), re.M))
            assert not over or len(found) >= count, f'{count} x {pattern}: {self.text()}'
            return found[-1] if len(found) >= count else None
        return until(find, f'{count} x {pattern}', 30, seen=lambda: self.text()[-3000:])

    def pid(self, place):
        return int(self.wait(rf'place {place} pid (\d+)').group(1))

    def stop(self):
        (self.folder / 'stop').touch()

    def end(self):
        code = self.child.wait(120)
        assert_gone(str(self.folder))
        return code

    def steps(self):
        return [(int(b), int(s)) for b, s in re.findall(r'step (\d+) size (\d+)', self.text())]


@pytest.fixture
def job(start, tmp_path):
    return lambda options, **more: Job(
        start, tmp_path, options.split() if isinstance(options, str) else options, **more)


def assert_each_step_once(job):
    """An epoch's last one may be committed and not said: commit() raises, or rank 0 is gone."""
    numbers = [batch for batch, size in job.steps()]
    changes = job.text().count('reigen: epoch')
    assert numbers == sorted(set(numbers)), job.text()
    assert len(numbers) >= numbers[-1] - changes, job.text()


def test_more_slots_than_ranks_that_are_needed_are_all_used(job):
    it = job('-np 2 --min-np 2 -H a:2,b:2')
    it.wait('step 3 size 4')
    it.stop()
    assert it.end() == 0, it.text()
    assert len(re.findall('done . of 4', it.text())) == 4
    assert_each_step_once(it)


@pytest.mark.parametrize('place', [0, 3])
def test_a_killed_rank_costs_its_host_and_the_others_go_on(job, place):
    it = job('-np 2 --min-np 2 -H a:2,b:2')
    it.wait('step 3 size 4')
    os.kill(it.pid(place), signal.SIGKILL)
    it.wait('step .* size 2')
    it.stop()
    assert it.end() == 0, it.text()
    host = 'a' if place == 0 else 'b'
    assert f'host {host} is set aside for the rest of the job: rank {place} on {host}: signal 9' \
        in it.text()
    assert len(re.findall('place', it.text())) == 4, 'survivors keep their processes'
    assert len(re.findall('done . of 2', it.text())) == 2
    assert_each_step_once(it)


def test_where_there_is_one_host_a_killed_rank_is_started_again_there(job):
    """Setting that host aside would be the end of the job. The third failure is."""
    it = job('-np 3 --min-np 2')
    for failures in range(2):
        newest = it.wait(r'place \d pid (\d+)', count=3 + failures)
        it.wait('train . of 3 at', count=3 + 3 * failures)
        it.wait('step . size 3')
        os.kill(int(newest.group(1)), signal.SIGKILL)
    it.wait('train . of 3 at', count=9)
    assert it.text().count('(Killed); its host is not set aside for this') == 2, it.text()
    assert len(re.findall(r'place \d pid', it.text())) == 5, 'survivors keep their processes'
    oldest = re.search(r'place \d pid (\d+)', it.text()).group(1)
    os.kill(int(oldest), signal.SIGKILL)
    assert it.end() == 69, it.text()
    assert 'host localhost is set aside for the rest of the job' in it.text()
    assert_each_step_once(it)


def test_a_rank_that_raises_counts_as_one_that_is_killed(job):
    it = job('-np 2 --min-np 1 -H a:1,b:1', fail=True)
    it.wait('step 3 size 2')
    (it.folder / 'fail-1').touch()
    it.wait('step .* size 1$')
    it.stop()
    assert it.end() == 0, it.text()
    assert 'host b is set aside for the rest of the job: rank 1 on b: exit code 3' in it.text()


@pytest.fixture
def script(tmp_path):
    """script(text): a discovery script prints this from now on."""
    hosts, path = tmp_path / 'hosts', tmp_path / 'discover'
    path.write_text(f'#!/bin/sh\ncat {hosts}\n')
    path.chmod(0o755)

    def tell(text):
        (tmp_path / 'new').write_text(text)
        (tmp_path / 'new').rename(hosts)
        return path
    return tell


def test_hosts_come_and_go_as_the_script_says(job, script):
    it = job(f'-np 2 --min-np 1 --host-discovery-script {script("a:2")}')
    it.wait('step 3 size 2')
    script('a:2\nb:2')
    it.wait('step .* size 4')
    script('b:2')
    it.wait('step .* size 2', count=4)
    oldest = it.wait(r'train 0 of 2 at (\d+)', count=2)
    assert int(oldest.group(1)) > 3, 'rank 0 has the state'
    it.stop()
    assert it.end() == 0, it.text()
    assert len(re.findall('place', it.text())) == 4, 'survivors keep their processes'
    assert len(re.findall('done . of 2', it.text())) == 2
    assert_each_step_once(it)


def test_a_script_that_breaks_leaves_the_hosts_as_they_are(job, script, tmp_path):
    it = job(f'-np 2 --min-np 1 --host-discovery-script {script("a:2")}')
    it.wait('step 3 size 2')
    (tmp_path / 'discover').write_text('#!/bin/sh\nexit 7\n')
    it.wait('ended with exit code 7; the hosts stay as they are')
    before = it.steps()[-1][0]
    it.wait(f'step {before + 5} size 2')
    it.stop()
    assert it.end() == 0, it.text()


def test_a_script_that_fails_at_first_ends_the_job(job, tmp_path, script):
    path = script('a:2')
    path.write_text('#!/bin/sh\nexit 7\n')
    it = job(f'-np 2 --min-np 1 --host-discovery-script {path}')
    assert it.end() == 69, it.text()
    assert 'ends with exit code 7' in it.text()


@pytest.mark.parametrize('does, code, says', [
    ('sleep 1000', 69, 'does not end; the job needs the hosts that it prints'),
    ('yes a:2 | head -c 5000000', 2, 'prints more than 4194304 bytes')])
def test_a_script_that_hangs_or_prints_megabytes_at_first_ends_the_job(
        job, script, does, code, says):
    path = script('a:2')
    path.write_text(f'#!/bin/sh\n{does}\n')
    it = job(f'-np 2 --min-np 1 --elastic-timeout 2 --host-discovery-script {path}')
    assert it.end() == code, it.text()
    assert says in it.text()


@pytest.mark.soak
def test_a_script_that_hangs_ends_a_job_of_fixed_size_as_well(job, script):
    path = script('a:2')
    path.write_text('#!/bin/sh\nexec sleep 1000\n')
    it = job(f'-np 2 --host-discovery-script {path}')
    assert it.end() == 69, it.text()
    assert 'does not end; the job needs the hosts that it prints' in it.text()


def test_a_host_comes_back_after_its_cooldown(job):
    it = job('-np 2 --min-np 1 --blacklist-cooldown-range 1:2 -H a:1,b:1')
    it.wait('step 3 size 2')
    os.kill(it.pid(1), signal.SIGKILL)
    it.wait('host b is set aside for 1 s')
    it.wait('host b may be used again')
    it.wait('train 1 of 2', count=2)
    it.stop()
    assert it.end() == 0, it.text()
    assert_each_step_once(it)


def test_the_reset_limit_ends_the_job(job):
    it = job('-np 3 --min-np 1 --reset-limit 1 -H a:1,b:1,c:1')
    it.wait('step 3 size 3')
    os.kill(it.pid(2), signal.SIGKILL)
    it.wait('step .* size 2')
    os.kill(it.pid(1), signal.SIGKILL)
    assert it.end() == 137, it.text()
    assert '--reset-limit' in it.text()


def test_too_few_ranks_end_the_job_in_time(job):
    it = job('-np 2 --min-np 2 --elastic-timeout 1 -H a:1,b:1')
    it.wait('step 3 size 2')
    os.kill(it.pid(1), signal.SIGKILL)
    assert it.end() != 0, it.text()


def test_a_program_that_knows_nothing_of_it_is_started_again(job):
    it = job('-np 2 --min-np 1 -H a:1,b:1 --env PLAIN=1')
    it.wait('step 3 size 2')
    os.kill(it.pid(1), signal.SIGKILL)
    it.wait('place 0 pid .* rank 0 1 restarts 1')
    it.wait('step 3 size 1')
    it.stop()
    assert it.end() == 0, it.text()
    assert 'restart 1, after rank 1 on b: signal 9' in it.text()


def test_all_ranks_that_fail_end_the_job_with_the_first(job):
    it = job('-np 2 --min-np 1 -H a:1,b:1', fail=True)
    it.wait('step 3 size 2')
    for place in range(2):
        (it.folder / f'fail-{place}').touch()
    assert it.end() == 3, it.text()
    assert 'exit code 3' in it.text()


def test_ranks_that_are_ended_with_their_host_are_not_who_is_to_blame(job, script):
    """Nor has the user sent them the signal by which they end."""
    hosts = script('a:2\nb:2')
    it = job(f'-np 2 --min-np 2 --host-discovery-script {hosts}', fail=True)
    it.wait('step 3 size 4')
    for place in (0, 2):
        (it.folder / f'fail-{place}').touch()
    assert it.end() == 3, it.text()
    assert 'was sent signal' not in it.text()


def test_a_lost_agent_costs_its_host(job, tmp_path):
    it = job('-np 2 --min-np 2 -H a:2,b:2')
    it.wait('step 3 size 4')
    parent = int(open(f'/proc/{it.pid(2)}/stat').read().rsplit(')', 1)[1].split()[1])
    os.kill(parent, signal.SIGKILL)
    it.wait('step .* size 2')
    it.stop()
    assert it.end() == 0, it.text()
    assert_each_step_once(it)


def test_hosts_that_cannot_be_reached_end_the_job_at_once(job, tmp_path):
    it = job('-np 2 --min-np 1 -H a:1,b:1', REIGEN_SSH='/bin/false')
    assert it.end() == 69, it.text()
    # Of b nothing may be known yet.
    assert re.search(r'too few hosts: there is room for [01] ranks?, and it takes 2 \(-np\)',
                     it.text()), it.text()
    it = job('-np 3 --min-np 2 -H a:2')
    assert it.end() == 69, it.text()
    assert 'too few hosts: there is room for 2 ranks, and it takes 3 (-np)' in it.text()


def test_a_host_that_never_comes_does_not_hold_up_the_end(job, tmp_path):
    fake = tmp_path / 'never'
    fake.write_text('#!/bin/sh\nexec sleep 1000\n')
    fake.chmod(0o755)
    it = job('-np 1 --min-np 1 -H localhost:1,b:1', REIGEN_SSH=fake)
    it.wait('step 3 size 1')
    it.stop()
    assert it.end() == 0, it.text()


def test_a_host_beyond_the_reset_limit_is_told(job, script):
    it = job(f'-np 1 --min-np 1 --reset-limit 0 --host-discovery-script {script("a:1")}')
    it.wait('step 3 size 1')
    script('a:1\nb:1')
    assert it.end() == 78, it.text()
    assert 'as often as --reset-limit permits' in it.text()
    assert 'hosts have come or gone once more' in it.text()


def test_the_network_that_was_named_is_used_by_all_hosts(job):
    it = job('-np 2 --min-np 2 -H a:1,b:1 --network-interface lo')
    it.wait('step 3 size 2')
    networks = [Path(f'/proc/{it.pid(place)}/environ').read_bytes() for place in range(2)]
    it.stop()
    assert it.end() == 0, it.text()
    assert all(b'\0REIGEN_NETWORK=127.0.0.0/8' in variables for variables in networks)


def test_a_host_without_the_network_that_was_named_is_set_aside(job):
    it = job('-np 1 --min-np 1 -H a:1,b:1 --network-interface a=lo --network-interface b=nosuch0')
    it.wait('step 3 size 1')
    it.stop()
    assert it.end() == 0, it.text()
    assert re.search(r'host b is set aside .*nosuch0', it.text()), it.text()


def test_nobody_is_late_while_the_job_is_stopped(job, script):
    it = job(f'-np 2 --min-np 2 --host-discovery-script {script("a:1")} --elastic-timeout 8')
    until((it.folder / 'home/a').exists, 'the first host', 30)
    it.child.send_signal(signal.SIGTSTP)
    until(lambda: state(it.child.pid) == 'T', 'the stop', 30)
    time.sleep(9)  # patient: longer than the time for hosts to come
    script('a:1\nb:1')
    it.child.send_signal(signal.SIGCONT)
    it.wait('step 3 size 2')
    it.stop()
    assert it.end() == 0, it.text()


def ask(job, *words):
    return subprocess.run([PROGRAMS.reigen, *map(str, words)], text=True, capture_output=True,
                          timeout=60, check=False, env=environment(HOME=job.folder))


def id_of(job, child):
    """Of the job that this process has launched: tests beside this one have theirs."""
    one, = [one for one in json.loads(ask(job, 'jobs', '--json').stdout)
            if f':{child.pid}:' in one['launcher']]
    return one['id']


def status(job):
    """What reigen status says, as JSON."""
    done = ask(job, 'status', '--json', id_of(job, job.child))
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def test_status_shows_the_ranks_and_who_is_set_aside(job):
    it = job('-np 2 --min-np 1 --blacklist-cooldown-range 1000:2000 -H a:2,b:1,c:1')
    it.wait('step 3 size 4')
    told = status(it)
    elastic = told['elastic']
    assert (elastic['epoch'], elastic['size'], elastic['aside']) == (1, 4, []), told
    assert [(one['host'], one['state'], one['slots'], one['ranks']) for one in elastic['hosts']] \
        == [('a', 'ready', 2, [0, 1]), ('b', 'ready', 1, [2]), ('c', 'ready', 1, [3])], told
    os.kill(it.pid(2), signal.SIGKILL)
    it.wait('step .* size 3')
    elastic = status(it)['elastic']
    assert (elastic['epoch'], elastic['size'], elastic['restarts']) == (2, 3, 0), elastic
    assert [(one['host'], one['ranks']) for one in elastic['hosts'] if one['ranks']] \
        == [('a', [0, 1]), ('c', [2])], elastic
    aside, = elastic['aside']
    assert (aside['host'], aside['why'], aside['rank'], aside['failures']) \
        == ('b', 'rank-failed', 2, 1), aside
    assert aside['reason'] == 'rank 2 on b: signal 9 (Killed)' and 900 < aside['left_s'] < 1000
    text = ask(it, 'status', told['id']).stdout
    assert re.search('^  epoch 2: 3 ranks, for 0:[0-9]+\n  host a: ranks 0-1\n', text, re.M), text
    assert re.search('^  host c: rank 2\n  host b: set aside for [0-9]+ s more: rank 2 on b: ',
                     text, re.M), text
    it.stop()
    assert it.end() == 0, it.text()
    ended = json.loads(ask(it, 'status', '--json', told['id']).stdout)
    assert ended['state'] == 'ended' and ended['elastic'] is None, ended


def other_user_asks(ident):
    """Whether a process of another user gets an answer from this job's launcher."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as fd:
                fd.connect(f'\0reigen-job-{ident}')
                fd.send(b'status')
                os._exit(0 if fd.recv(100) == b'' else 1)
        except ConnectionError:
            os._exit(0)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(os.getuid() != 0, reason='only root can become another user')
def test_another_user_gets_no_answer_from_the_launcher(job):
    it = job('-np 1 --min-np 1 -H a:1')
    it.wait('step 3 size 1')
    assert other_user_asks(status(it)['id']) == 0
    it.stop()
    assert it.end() == 0, it.text()


def test_a_host_is_drained_without_losing_a_step(job):
    it = job('-np 2 --min-np 2 -H a:2,b:2')
    it.wait('step 3 size 4')
    ident = status(it)['id']
    done = ask(it, 'drain', ident[:-1], 'b')
    assert (done.returncode, done.stdout, done.stderr) == (0, 'drained b\n', ''), done
    assert 'reigen: host b is drained, by reigen drain: its ranks leave it\n' in it.text()
    told = status(it)['elastic']
    assert [(one['host'], one['ranks']) for one in told['hosts']] == [('a', [0, 1])], told
    assert [(one['host'], one['why'], one['failures']) for one in told['aside']] \
        == [('b', 'drained', 0)], told
    it.wait('step .* size 2')
    it.stop()
    assert it.end() == 0, it.text()
    assert 'set aside' not in it.text(), it.text()
    assert len(re.findall('place', it.text())) == 4, 'survivors keep their processes'
    assert_each_step_once(it)
    last = max(batch for batch, size in it.steps() if size == 4)
    assert f'train 0 of 2 at {last + 1}\n' in it.text(), it.text()


def test_another_host_takes_over_from_one_that_is_drained(job):
    it = job('-np 2 --min-np 1 --max-np 2 -H a:1,b:1,c:1')
    it.wait('step 3 size 2')
    assert ask(it, 'drain', status(it)['id'], 'a').stdout == 'drained a\n'
    it.wait('train 0 of 2', count=2)
    it.wait('step .* size 2', count=len(it.steps()) + 1)
    it.stop()
    assert it.end() == 0, it.text()
    assert {size for _, size in it.steps()} == {2}, it.text()
    assert len(re.findall('place', it.text())) == 3, it.text()


def test_ranks_that_outstay_a_drain_are_ended(job):
    it = job('-np 2 --min-np 1 --grace 1 -H a:1,b:1')
    it.wait('step 3 size 2')
    os.kill(it.pid(1), signal.SIGSTOP)
    done = ask(it, 'drain', '--deadline', '500ms', status(it)['id'], 'b')
    assert (done.returncode, done.stdout) == (0, 'drained b\n'), done
    it.wait('step .* size 1')
    it.stop()
    assert it.end() == 0, it.text()
    assert 'drain: its ranks leave it, in 0.5 s at the latest' in it.text()
    assert 'set aside' not in it.text(), it.text()


def test_a_drained_host_of_a_program_that_cannot_meet_costs_a_restart(job):
    it = job('-np 2 --min-np 1 -H a:1,b:1 --env PLAIN=1')
    it.wait('step 3 size 2')
    done = ask(it, 'drain', '--deadline', '1', status(it)['id'], 'b')
    assert (done.returncode, done.stdout) == (0, 'drained b\n'), done
    it.wait('place 0 pid .* rank 0 1 restarts 1')
    it.stop()
    assert it.end() == 0, it.text()


def test_what_cannot_be_drained_is_refused(job, start):
    it = job('-np 3 --min-np 3 -H a:2,b:2')
    it.wait('step 3 size 4')
    ident = status(it)['id']
    for words, code, said in (
            ((ident, 'c'), 2, f'drain c: job {ident} has no such host; it has a, b'),
            ((ident, 'a'), 69, f'drain a: without it there is room for 2 ranks, and job {ident} '
                               'needs 3 (--min-np)'),
            (('nojob', 'a'), 2, 'drain nojob: no such job'),
            ((ident,), 2, "drain: give a job's id"),
            (('--deadline', '0', ident, 'a'), 2, 'drain --deadline 0: give a time above 0')):
        done = ask(it, 'drain', *words)
        assert done.returncode == code and said in done.stderr, done
    it.stop()
    assert it.end() == 0, it.text()
    done = ask(it, 'drain', ident, 'a')
    assert done.returncode == 2 and 'has ended, and uses no host' in done.stderr, done
    there = it.folder / 'there'
    fixed = start(PROGRAMS.reigen, 'run', '-np', 1, '--', 'sh', '-c', f': >{there}; exec sleep 600',
                  env=environment(HOME=it.folder))
    until(there.exists, 'the job that is not elastic', 30)
    ident = id_of(it, fixed)
    done = ask(it, 'drain', ident, 'localhost')
    assert done.returncode == 2 and 'is not elastic, and keeps the hosts' in done.stderr, done
    fixed.terminate()
    fixed.wait(60)


def test_a_spare_rank_takes_the_place_of_one_that_is_lost(job):
    it = job('-np 2 --spares 1 -H a:1,b:1,c:1')
    it.wait('step 3 size 2')
    until(lambda: any(host['waiting'] for host in status(it)['elastic']['hosts']), 'the spare', 30)
    told = status(it)
    hosts = told['elastic']['hosts']  # whose agents came in any order, with one place each
    place, = [i for i, host in enumerate(hosts) if host['waiting']]
    victim, = [i for i, host in enumerate(hosts) if host['ranks'] == [1]]
    spare = it.pid(place)
    assert (told['elastic']['size'], told['elastic']['max_np']) == (2, 2), told
    text = ask(it, 'status', told['id']).stdout
    assert re.search(f'^  host {"abc"[place]}: 1 spare$', text, re.M), text
    os.kill(it.pid(victim), signal.SIGKILL)
    it.wait('train 1 of 2', count=2)
    it.wait('step .* size 2', count=len(it.steps()) + 1)
    it.stop()
    assert it.end() == 0, it.text()
    assert it.text().count('reigen: epoch') == 1, it.text()
    assert it.pid(place) == spare and len(re.findall('place', it.text())) == 3, it.text()
    assert {size for _, size in it.steps()} == {2}, it.text()
    assert_each_step_once(it)


def test_a_spare_rank_ends_with_the_job(job):
    it = job('-np 1 --spares 1 -H a:1,b:1')
    it.wait('place 1 pid')
    it.wait('step 3 size 1')
    it.stop()
    assert it.end() == 0, it.text()
    # Both names are this computer's, which is said.
    said = re.findall('^reigen: (?!a and b are one machine).*', it.text(), re.M)
    assert it.text().count('done') == 1 and not said, it.text()
