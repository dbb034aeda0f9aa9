# SPDX-License-Identifier: Apache-2.0
"""What happens inside the pods of a job on Kubernetes: the head in the one of index 0, the agents
that call it, and what each of them ends with when another one is lost."""
import contextlib
import itertools
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request

import pytest

from built import PROGRAMS, ROOT
from openmetrics import by_rank, only, read
from pods import AGENT
from processes import peak_kib, wait_for
from ranks import free_port, program
from wait import until

SLEEP = ('--', 'sh', '-c', 'echo up; exec sleep 300')
LOST, LEFT = 76, 75
STEPS = ROOT / 'tests/programs/elastic_steps.py'


def has_ipv6():
    """The head's address as a cluster of IPv6 alone has it, where this computer knows that."""
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(('::1', 0))
        return {'MY_JOB_SERVICE_HOST': '::1'}
    except OSError:
        return {}


def is_open(port):
    with socket.socket() as s:
        return s.connect_ex(('127.0.0.1', port)) == 0


def start(job, npods, *words, **env):
    job.plan(npods, '--no-inject-runtime', *words)
    return [job.pod(i, **env) for i in range(npods)]


def running(job, npods=3, *words):
    pods = start(job, npods, *words, *SLEEP)
    for rank in range(npods):
        pods[0].saw(rf'(?m)^\[{rank}\] up')
    return pods


def test_ranks_of_all_pods_meet_without_rights_or_a_root_to_write_to(job):
    """Python-less, as a user without a name; the workers' logs hold nothing."""
    pods = start(job, 3, '--', 'sh', '-c', 'touch /x 2>/dev/null && echo can write; echo "pod '
                 f'$JOB_COMPLETION_INDEX is rank $REIGEN_RANK"; exec {program("again")[-1]}')
    assert [pod.wait() for pod in pods] == [0, 0, 0], [pod.out for pod in pods]
    lines = pods[0].out.splitlines()
    assert [line for line in sorted(lines) if 'is rank' in line] == \
        [f'[{i}] pod {i} is rank {i}' for i in range(3)], lines
    assert 'can write' not in pods[0].out and pods[1].out == pods[2].out == ''
    assert pods[0].words['event'] == 'verdict' and pods[0].words['exit_code'] == 0
    assert pods[1].words is None


@pytest.mark.skipif('REIGEN_TEST_BUILD' in os.environ, reason='its packages are not installed')
def test_our_packages_come_in_parts_and_are_found_by_any_python(job):
    job.plan(2, '--', '/usr/bin/python3', '-c', 'import horovod, reigen, os\n'
             'assert os.path.exists(os.path.dirname(reigen.__file__) + "/libreigen.so")\n'
             'print(horovod.__file__)')
    job.bundle(next(PROGRAMS.reigen.parents[1].glob('lib/python3*/site-packages')))
    pods = [job.pod(i) for i in range(2)]
    assert [pod.wait() for pod in pods] == [0, 0], [pod.out for pod in pods]
    assert pods[0].out.count('] /reigen/run/') == 2, pods[0].out


@pytest.mark.sanitize
def test_a_failed_rank_is_the_jobs_end_and_the_others_are_to_run_again_with_it(job):
    pods = start(job, 2, '--', 'sh', '-c', '[ $REIGEN_RANK = 0 ] || exit 3')
    assert [pod.wait() for pod in pods] == [3, LEFT], [pod.out for pod in pods]
    assert 'rank 1 on job-1 failed first: exit code 3' in pods[0].out
    assert (pods[0].words['exit_code'], pods[0].words['first']) == (3, 1)
    assert pods[1].words['exit_code'] == LEFT


def test_a_name_that_another_job_has_here_is_told_with_what_to_do(job):
    """Pods that have the host's network share the names by which jobs are asked."""
    name = f'taken-{os.getpid()}'
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        other.bind(f'\0reigen-job-{name}')
        job.plan(1, '--no-inject-runtime', '--', 'true')
        pod = job.pod(0, REIGEN_POD_SERVICE=name,
                      **{f'{name.upper().replace("-", "_")}_SERVICE_HOST': '127.0.0.1'})
        assert pod.wait() == 0, pod.out
    assert f'another job that is called {name} runs in the same network; give one of them ' \
        'another name' in pod.out, pod.out


def unanswered(port):
    """{local port: how often the kernel has repeated its call}"""
    with open('/proc/net/tcp') as lines:
        calls = [line.split() for line in lines]
    return {call[1]: int(call[6], 16) for call in calls[1:]
            if call[3] == '02' and int(call[2].rpartition(':')[2], 16) == port}


def test_a_call_that_nobody_answers_is_made_anew_before_the_kernel_repeats_it(job):
    """A Service without a pod refuses some calls and keeps silent then, and a kernel repeats its
    own after a second."""
    with socket.socket() as full, contextlib.ExitStack() as stack:
        full.bind(('127.0.0.1', job.port))
        full.listen(0)
        while not unanswered(job.port):
            call = stack.enter_context(socket.socket())
            call.setblocking(False)
            call.connect_ex(('127.0.0.1', job.port))
        own = set(unanswered(job.port))
        job.plan(2, '--no-inject-runtime', '--', 'true')
        pod, repeated = job.pod(1), {}

        def is_given_up():
            now = {name: n for name, n in unanswered(job.port).items() if name not in own}
            over = [name for name in repeated if name not in now]
            repeated.update(now)
            return len(repeated) > 1 and [name for name in over if repeated[name] == 0]
        wait_for(is_given_up, 'a call in the place of one that was never repeated')
        pod.signal(signal.SIGTERM)
        assert pod.wait() == LEFT, pod.out


def told(port, accept='*/*'):
    """What the head in a pod tells Prometheus."""
    request = urllib.request.Request(f'http://127.0.0.1:{port}/metrics',
                                     headers={'Accept': accept})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return read(answer.read().decode(), 'openmetrics' in accept)


def told_after_steps(pods, port, nranks):
    """All ranks have taken some, and enough to know how long one takes."""
    def there():
        assert pods[0].child.poll() is None, pods[0].out
        try:
            now = told(port)
        except urllib.error.URLError:
            return None
        steps = by_rank(now, 'reigen_steps_total')
        return len(by_rank(now, 'reigen_step_seconds')) == nranks and \
            min(steps.values()) >= 10 and now
    return until(there, 'numbers of all ranks', 60)


@pytest.mark.sanitize
def test_the_head_tells_prometheus_what_the_ranks_of_all_pods_do(job):
    """Rank 1 is late, and the others wait for it, but not on its host: there it is alone."""
    port = free_port()
    job.plan(3, '--no-inject-runtime', '--', *program('uneven'), '30', '5', metrics=port)
    pods = [job.pod(i) for i in range(3)]
    now = told_after_steps(pods, port, 3)
    blocked = by_rank(now, 'reigen_blocked_seconds_total')
    assert min(blocked[0], blocked[2]) > blocked[1], blocked
    assert {dict(k)['state']: n for k, n in now['reigen_ranks'].samples.items()}['running'] == 3
    labels, = map(dict, now['reigen_job_info'].samples)
    assert labels['platform'] == 'kubernetes', labels
    hosts = {dict(k)['host'] for k in now['reigen_steps_total'].samples}
    assert hosts == {'job-0', 'job-1', 'job-2'} and only(now, 'reigen_job_restarts_total') == 0
    assert set(told(port, 'application/openmetrics-text; version=1.0.0')) == set(now)
    for pod in pods:
        pod.signal(signal.SIGTERM)
    assert [pod.wait() for pod in pods] == [LEFT] * 3, [pod.out for pod in pods]
    assert not is_open(port)


def test_a_head_that_cannot_tell_them_ends_the_job_and_says_why(job):
    with socket.socket() as taken:
        taken.bind(('0.0.0.0', 0))
        taken.listen()
        port = taken.getsockname()[1]
        job.plan(1, '--no-inject-runtime', '--', 'true', metrics=port)
        pod = job.pod(0)
        assert pod.wait() == 69, pod.out
    assert f"--metrics: cannot listen at port {port} of the head's host: " in pod.out, pod.out
    assert 'name another port' in pod.out


def saw_start(pods, n, head=0):
    """The ranks of these pods have begun the job for the nth time."""
    for rank, _ in enumerate(pods):
        pods[head].saw(rf'(?m)^\[{rank}\] up {n}$')


def started(job, npods=3, *words):
    pods = start(job, npods, *words, '--', 'sh', '-c', 'echo up $REIGEN_RESTART; exec sleep 300')
    saw_start(pods, 0)
    return pods


def test_pods_stay_when_one_is_killed_and_run_again_with_the_one_in_its_place_three_times(job):
    """The fourth time is the end: Kubernetes is not to try it again, so the code is none of 76."""
    pods = started(job)
    assert peak_kib(pods[0].pid) < 32 << 10
    for n, lost in enumerate((1, 2, 1)):
        pods[lost].signal(signal.SIGKILL)
        pods[0].saw(f'reigen: host job-{lost}: its pod is gone without a word.*\n(.*\n)*'
                    f'reigen: the job is started again: restart {n + 1} of 3')
        pods[lost] = job.pod(lost)
        saw_start(pods, n + 1)
    assert [pod.child.poll() for pod in pods] == [None] * 3
    pods[2].signal(signal.SIGKILL)
    assert pods[0].wait() == 1
    assert 'reigen: the job was started again 3 times' in pods[0].out, pods[0].out
    assert 'host job-2' in pods[0].words['cause'] and pods[0].words['exit_code'] == LOST
    pods[1].signal(signal.SIGTERM)
    assert pods[1].wait() == LEFT and pods[1].out == '', pods[1].out


def test_workers_stay_when_the_head_is_lost_and_run_again_with_the_next_one(job):
    pods = started(job)
    pods[0].signal(signal.SIGKILL)
    pods[0].wait()
    pods[0] = job.pod(0, REIGEN_POD_FAILURES='1', REIGEN_POD_DISRUPTIONS='')
    saw_start(pods, 1)
    assert 'the pod of index 0 tells' in pods[1].words['cause']
    pods[0].signal(signal.SIGTERM)
    assert pods[0].wait() == LEFT and pods[0].words['exit_code'] == LEFT
    assert 'the job was told to stop. Kubernetes ends its pod' in pods[0].out
    pods[0] = job.pod(0, REIGEN_POD_FAILURES='1', REIGEN_POD_DISRUPTIONS='2')
    saw_start(pods, 3)
    for pod in pods:
        pod.signal(signal.SIGTERM)
    assert [pod.wait() for pod in pods] == [LEFT] * 3, pods[0].out
    late = job.pod(0, REIGEN_POD_FAILURES='1', REIGEN_POD_DISRUPTIONS='3')
    assert late.wait() == 1 and late.words['exit_code'] == LOST
    assert 'pods of it were lost 4 times' in late.words['cause']


def test_a_head_that_does_not_know_of_the_starts_before_it_is_told_that_they_were_enough(job):
    pods = started(job)
    for n in range(3):
        pods[1].signal(signal.SIGKILL)
        pods[0].saw(f'the job is started again: restart {n + 1} of 3')
        pods[1] = job.pod(1)
        saw_start(pods, n + 1)
    pods[0].signal(signal.SIGKILL)
    pods[0].wait()
    job.pod(0, REIGEN_POD_FAILURES='1')
    assert pods[2].wait() == 1, pods[2].out
    assert pods[2].words == {
        'exit_code': LOST, 'fault': True,
        'cause': 'the job is not started again: pods of it were lost 4 times'}


@pytest.mark.sanitize
def test_a_pod_that_is_told_to_stop_is_replaced_and_one_more_meanwhile(job):
    """As the kubelet tells it: a signal from without the pod."""
    pods = started(job)
    pods[1].signal(signal.SIGTERM)
    assert pods[1].wait() == LEFT
    pods[0].saw('host job-1: its agent was told to stop: signal 15. Kubernetes ends its pod')
    pods[0].saw('restart 1 of 3')
    pods[2].signal(signal.SIGTERM)
    assert pods[2].wait() == LEFT
    pods[1:] = job.pod(1), job.pod(2)
    saw_start(pods, 1)
    port = free_port()
    early = job.pod(0, REIGEN_POD_PORT=str(port))
    wait_for(lambda: is_open(port), 'the head')
    early.signal(signal.SIGTERM)
    assert early.wait() == LEFT, early.out


@pytest.mark.parametrize('words, index', [([], 0), ([], 1), (['--min-np', 1], 0)])
def test_ranks_save_their_work_before_their_job_ends_with_a_pod(job, words, index):
    pods = start(job, 2, '-np', 2, '--grace', 60, *words, '--', PROGRAMS.python, STEPS,
                 '/reigen/run/stop', SAVES='1')
    pods[0].saw('step 3 size 2')
    pods[index].signal(signal.SIGTERM)
    assert pods[index].wait() == LEFT, pods[0].out
    pods[0].saw(r'saved 0 at \d+')
    pods[0].saw(r'saved 1 at \d+')
    saved = re.findall(r'saved \d at (\d+)', pods[0].out)
    assert len(saved) == 2 and len(set(saved)) == 1, pods[0].out


def test_a_pod_that_is_lost_when_its_ranks_are_done_ends_nothing(job):
    """The one in its place has nothing to do, and waits for as long as there is a head."""
    job.plan(2, '--no-inject-runtime', '--start-timeout', 1, '--', 'sh', '-c', 'echo up; '
             '[ $REIGEN_RANK = 1 ] || until [ -e /reigen/run/go ]; do sleep 0.05; done; echo done')
    pods = [job.pod(i) for i in range(2)]
    pods[0].saw(r'\[1\] done')
    pods[1].signal(signal.SIGTERM)
    assert pods[1].wait() == LEFT
    late = job.pod(1)
    time.sleep(1.5)  # patient: longer than it would wait where no head is
    assert late.child.poll() is None
    assert pods[0].inside('touch', '/reigen/run/go').returncode == 0
    assert pods[0].wait() == 0 and 'restart' not in pods[0].out, pods[0].out
    assert late.wait() == 124


@pytest.mark.parametrize('last, code, said', [(2, 0, None), (9, 1, LEFT)])
def test_a_script_that_ends_with_75_is_started_again_in_the_same_pods(job, last, code, said):
    pods = start(job, 2, '--', 'sh', '-c', f'[ $REIGEN_RESTART = {last} ] || exit 75')
    assert pods[0].wait() == code, pods[0].out
    assert pods[0].words['exit_code'] == (said or 0)
    assert pods[0].out.count('restart ') == min(last, 3), pods[0].out
    if code:
        pods[1].signal(signal.SIGTERM)
    assert pods[1].wait() == (LEFT if code else 0)


def test_a_pod_that_never_comes_is_named_and_only_that_one(job):
    job.plan(3, '--start-timeout', 2, '--', 'true')
    port = free_port()
    head, worker, lonely = job.pod(0), job.pod(1), job.pod(1, REIGEN_POD_PORT=str(port))
    assert (head.wait(), worker.wait()) == (124, LEFT), head.out
    assert 'not ready within 2 s (--start-timeout): job-2 (pending: its pod has not called yet)' \
        in head.out and 'job-1 (' not in head.out
    assert lonely.wait() == 124
    assert 'the pod of index 0, has not answered within 2 s' in lonely.words['cause']
    assert f'127.0.0.1:{port} (Connection refused)' in lonely.words['cause']


def test_a_pod_that_no_job_takes_gives_up_and_so_does_a_head_without_its_port(job):
    job.plan(2, '--no-inject-runtime', '--start-timeout', 1, '--', 'true')
    head, stray = job.pod(0), job.pod(7)
    assert (head.wait(), stray.wait()) == (124, 124), head.out
    assert 'job-1 (pending' in head.out
    with socket.create_server(('', job.port)):
        head = job.pod(0)
        assert head.wait() == 69 and f'port {job.port} of its pod' in head.out, head.out


def test_a_pod_that_may_start_no_process_has_not_done_its_part_and_calls_again(job):
    job.plan(2, '--no-inject-runtime', '--', 'true')
    job.pod(0)
    pod = job.pod(1, *program('unforked'), *AGENT)
    pod.saw('no process can be started for the job: Resource temporarily unavailable; this pod')
    assert pod.child.poll() is None, pod.out


@pytest.mark.sanitize
def test_pods_come_in_any_order_and_are_replaced_before_the_start(job):
    """A worker before its head, a head that dies and comes again, a worker that does, and one that
    hangs, whose successor is taken in its place."""
    job.plan(3, '--no-inject-runtime', '-v', '-v', '--', 'sh', '-c',
             'echo $JOB_COMPLETION_INDEX $TRY')
    first = job.pod(1, TRY='first')
    head = job.pod(0)
    head.saw('job-1: ready')
    head.signal(signal.SIGKILL)
    head.wait()
    head = job.pod(0, TRY='second')
    head.saw('job-1: ready')
    first.signal(signal.SIGTERM)
    assert first.wait() == LEFT
    head.saw('job-1: pending')
    hangs = job.pod(1, TRY='hangs')
    head.saw('(?s)pending.*job-1: ready')
    hangs.signal(signal.SIGSTOP)
    last = job.pod(1, TRY='last')
    head.saw('(?s)pending.*pending.*job-1: ready')
    other = job.pod(2, TRY='first', **has_ipv6())
    assert (head.wait(), last.wait(), other.wait()) == (0, 0, 0), head.out
    assert [line for line in sorted(head.out.splitlines()) if line.startswith('[')] == \
        ['[0] 0 second', '[1] 1 last', '[2] 2 first']


def test_strangers_get_nothing_and_keep_no_pod_out(job):
    """They hold connections, speak nonsense, and know another job's key."""
    job.plan(2, '--no-inject-runtime', '--', 'sh', '-c', 'echo $JOB_COMPLETION_INDEX $WHO')
    head = job.pod(0)
    crowd = []

    def connected():
        try:
            return socket.create_connection(('127.0.0.1', job.port), 10)
        except ConnectionRefusedError:
            return None

    def call(data=b''):
        crowd.append(until(connected, 'the head listens'))
        crowd[-1].sendall(data)

    for data in (b'', b'reigen-dial2 1\n', b'reigen-dial2 1\n' + bytes(64),
                 b'GET / HTTP/1.1\r\n\r\n',
                 b'reigen-dial2 7\n' + bytes(64), b'x' * 4096):
        call(data)
    key = (job.folder / 'key').read_text()
    (job.folder / 'key').write_text('f' * 64)
    impostor = job.pod(1, WHO='an impostor')
    assert impostor.pid and head.child.poll() is None
    time.sleep(0.5)
    (job.folder / 'key').write_text(key)
    worker = job.pod(1, WHO='a worker')
    assert (head.wait(), worker.wait()) == (0, 0), head.out
    assert '[1] 1 a worker' in head.out and 'impostor' not in head.out
    for connection in crowd:
        connection.close()


@pytest.mark.parametrize('index, change, code, said', [
    (1, {'REIGEN_POD_SERVICE': None}, 2, 'REIGEN_POD_SERVICE is not set'),
    (1, {'MY_JOB_SERVICE_HOST': None}, 75, 'MY_JOB_SERVICE_HOST is not set'),
    (1, {'MY_JOB_SERVICE_HOST': None, 'REIGEN_POD_DISRUPTIONS': '1'}, 75, 'my-job was deleted'),
    # It was there long ago, and will not come back by itself: the Job is over.
    (1, {'MY_JOB_SERVICE_HOST': None, 'REIGEN_POD_FAILURES': '2'}, 69, 'my-job was deleted'),
    (0, {'MY_JOB_SERVICE_HOST': None, 'REIGEN_POD_FAILURES': '1'}, 75, 'my-job was deleted'),
    (0, {'MY_JOB_SERVICE_HOST': None, 'REIGEN_POD_FAILURES': '2'}, 69, 'my-job was deleted'),
    (1, {'REIGEN_POD_PORT': '70000'}, 2, 'REIGEN_POD_PORT 70000'),
    (1, {'JOB_COMPLETION_INDEX': None}, 2, 'JOB_COMPLETION_INDEX'),
])
def test_what_is_missing_is_named(job, index, change, code, said):
    job.plan(2, '--', 'true')
    pod = job.pod(index, **change)
    assert pod.wait() == code and said in pod.out, pod.out
    assert pod.words['exit_code'] == code and said in pod.words['cause']


def test_a_key_that_is_none_and_a_plan_that_is_none(job):
    job.plan(2, '--', 'true')
    (job.folder / 'key').write_text('secret')
    for index in (0, 1):
        pod = job.pod(index)
        assert pod.wait() == 2 and '/reigen/key/key: not 64 hexadecimal digits' in pod.out
        assert 'secret' not in pod.out
    (job.folder / 'plan').write_text('no plan')
    pod = job.pod(1)
    assert pod.wait() == 2 and '/reigen/job/plan' in pod.words['cause']


# --- elastic jobs ---------------------------------------------------------------------------------

def elastic(job, npods, *words, **env):
    """Ranks count steps until there is /reigen/run/stop on the head's pod."""
    return start(job, npods, '--min-np', 1, *words, '--', PROGRAMS.python, STEPS,
                 '/reigen/run/stop', **env)


def saw_sizes(head, *sizes):
    """So many ranks took steps together, one number after the other."""
    def seen():
        return [size for size, _ in itertools.groupby(re.findall(r'step \d+ size (\d+)', head.out))]
    wait_for(lambda: seen() == [str(size) for size in sizes], f'{sizes} ranks', 60, seen=seen)


def stop(pods):
    assert pods[0].inside('touch', '/reigen/run/stop').returncode == 0
    assert [pod.wait() for pod in pods] == [0] * len(pods), [pod.out for pod in pods]


@pytest.mark.parametrize('signo', [signal.SIGKILL, signal.SIGTERM])
def test_an_elastic_job_goes_on_without_a_pod_and_with_the_one_in_its_place(job, signo):
    """Killed as a whole, or evicted, five times: more often than a fixed job may be begun again."""
    pods = elastic(job, 3, '-np', 3)
    sizes = [3]
    saw_sizes(pods[0], *sizes)
    first = re.findall(r'place 0 pid \d+', pods[0].out)
    for n in range(5):
        lost = 1 + n % 2
        pods[lost].signal(signo)
        pods[lost].wait()
        sizes += [2]
        saw_sizes(pods[0], *sizes)
        pods[lost] = job.pod(lost)
        sizes += [3]
        saw_sizes(pods[0], *sizes)
    stop(pods)
    assert re.findall(r'place 0 pid \d+', pods[0].out) == first and len(first) == 1, pods[0].out
    assert 'aside' not in pods[0].out and 'reigen: restart' not in pods[0].out, pods[0].out


def test_an_elastic_job_begins_with_np_and_others_join_up_to_max_np(job):
    job.plan(4, '--no-inject-runtime', '--min-np', 1, '-np', 2, '--max-np', 3, '--',
             PROGRAMS.python, STEPS, '/reigen/run/stop')
    pods = [job.pod(0), job.pod(1)]
    saw_sizes(pods[0], 2)
    pods.append(job.pod(2))
    saw_sizes(pods[0], 2, 3)
    late = job.pod(3)
    pods[1].signal(signal.SIGKILL)
    saw_sizes(pods[0], 2, 3, 2)
    assert late.child.poll() is None
    pods[1] = job.pod(1)
    saw_sizes(pods[0], 2, 3, 2, 3)
    stop(pods)


def test_a_rank_that_fails_sets_its_pod_aside_until_its_cooldown_is_over(job):
    pods = start(job, 2, '--min-np', 1, '-np', 2, '--blacklist-cooldown-range', '1:2', '--',
                 PROGRAMS.python, STEPS, '/reigen/run/stop', '/reigen/run/fail')
    saw_sizes(pods[0], 2)
    assert pods[1].inside('touch', '/reigen/run/fail-1').returncode == 0
    pods[0].saw('host job-1 is set aside for 1 s: rank 1 on job-1: exit code 3')
    saw_sizes(pods[0], 2, 1, 2)
    assert pods[1].child.poll() is None
    stop(pods)


def test_the_same_failure_twice_without_progress_ends_an_elastic_job(job):
    """The program's error follows it to any pod, so that no more of them are set aside."""
    pods = start(job, 3, '--min-np', 1, '-np', 3, '--', 'sh', '-c',
                 '[ $RANK = $((WORLD_SIZE - 1)) ] || exec sleep 300; echo no data >&2; exit 3')
    assert pods[0].wait() == 3, pods[0].out
    twice = re.findall(r'^  [12]\. (.*), after [\d.]+ s: no data$', pods[0].out, re.M)
    assert twice == [f'rank {n} on job-{n}: exit code 3' for n in (2, 1)], pods[0].out
    assert 'the same failure twice, and no progress; restarts cannot help' in pods[0].out
    assert pods[0].out.count('reigen: restart') == 1, pods[0].out


def test_a_rank_that_does_not_come_to_init_is_named(job):
    pods = start(job, 2, '--', 'sh', '-c', '[ $RANK = 0 ] || until [ -e /reigen/run/go ]; do '
                 f'sleep 0.05; done; exec {program("again")[-1]}')
    pods[0].saw('reigen: rank 1 on job-1 has not come to init, where 1 other has waited for 7 s')
    assert pods[1].inside('touch', '/reigen/run/go').returncode == 0
    assert [pod.wait() for pod in pods] == [0, 0], [pod.out for pod in pods]


def test_an_elastic_job_ends_with_its_heads_pod_and_begins_again_with_another_one(job):
    pods = elastic(job, 2, '-np', 2)
    saw_sizes(pods[0], 2)
    pods[0].signal(signal.SIGKILL)
    pods[0].wait()
    pods[0] = job.pod(0, REIGEN_POD_FAILURES='1', REIGEN_POD_DISRUPTIONS='')
    saw_sizes(pods[0], 2)
    stop(pods)


def test_a_worker_of_an_elastic_job_that_cannot_work_does_not_end_it(job):
    """Kubernetes ends a job by codes that say that a pod has failed by itself."""
    job.plan(2, '--no-inject-runtime', '--min-np', 1, '-np', 2, '--start-timeout', 1, '--', 'true')
    pod = job.pod(1)
    assert pod.wait() == LEFT and 'has not answered within 1 s' in pod.words['cause'], pod.out
