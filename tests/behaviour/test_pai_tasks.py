# SPDX-License-Identifier: Apache-2.0
"""What happens in the tasks of an OpenPAI job: those of a job of ours, which have a plan, and those
of a user's own, whose master runs `reigen run`."""
import re
import signal
import socket
import time

import pytest

from built import PROGRAMS
from processes import wait_for
from ranks import SLOWER, program
from test_pods import STEPS, saw_sizes
from wait import soon

GENERATIONS = ('v1', 'v2', 'old')
SLEEP = ('--', 'sh', '-c', 'echo up; exec sleep 300')
LOST, LEFT = 76, 75


def start(pai, *words, order=None, **env):
    """The tasks of a job of ours, in this order."""
    plan = pai.plan(*words)
    names = [f'{role}-{i}' for role, i in pai.ports]
    tasks = {name: pai.pod(name, REIGEN_PLAN=plan, **env) for name in order or names}
    return [tasks[name] for name in names]


@pytest.mark.sanitize
@pytest.mark.parametrize('generation', GENERATIONS)
def test_ranks_of_all_tasks_meet(pai, generation):
    """Within 2 s; and no rank has the job's key, or the plan, in its environment."""
    pai.use({'master': (1, 0), 'worker': (3, 0)}, generation)
    began = time.monotonic()
    tasks = start(pai, '--', 'sh', '-c', 'echo "$PAI_JOB_NAME ${REIGEN_KEY-no}${REIGEN_PLAN-ne}"; '
                  f'exec {program("again")[-1]}')
    tasks[0].saw(r'(?m)^\[3\] ann~horovod')
    assert soon(began, 2 * SLOWER)
    assert [task.wait() for task in tasks] == [0] * 4, [task.out for task in tasks]
    assert tasks[0].out.count('ann~horovod none') == 4, tasks[0].out
    assert [task.out for task in tasks[1:]] == [''] * 3


@pytest.mark.sanitize
def test_no_process_of_a_task_shows_the_key(pai):
    """Neither those of a job of ours, nor those of the master's reigen run."""
    tasks = start(pai, '--', 'sh', '-c', 'echo up; exec sleep 300')
    tasks[0].saw(r'(?m)^\[1\] up')
    assert all(shows_no_key(task.pid, pai.key) for task in tasks)
    tasks[0].signal(signal.SIGTERM)
    assert tasks[0].wait() == tasks[1].wait()
    worker = pai.pod('worker-0')
    head = pai.run('--no-inject-runtime', '--', 'sh', '-c', 'echo "key: ${REIGEN_KEY-none}"; '
                   'exec sleep 300')
    for rank in range(2):
        head.saw(rf'(?m)^\[{rank}\] key: none')
    assert shows_no_key(head.pid, pai.key) and shows_no_key(worker.pid, pai.key)


def shows_no_key(pid, key):
    with open(f'/proc/{pid}/environ') as file:
        said = file.read()
    return key not in said and 'REIGEN_PLAN=A' not in said and 'PAI_JOB_NAME' in said


def test_tasks_come_in_any_order_and_the_head_is_found_without_a_master(pai):
    pai.use({'chief': (1, 0), 'ps.server': (1, 0), 'worker': (1, 0)})
    tasks = start(pai, '--', 'sh', '-c', 'echo $PAI_CURRENT_TASK_ROLE_NAME $REIGEN_RANK',
                  order=('worker-0', 'ps.server-0', 'chief-0'))
    assert [task.wait() for task in tasks] == [0, 0, 0], [task.out for task in tasks]
    said = sorted(line for line in tasks[0].out.splitlines() if line.startswith('['))
    assert said == ['[0] chief 0', '[1] ps.server 1', '[2] worker 2']


def test_who_never_comes_is_named_and_so_is_a_head_that_does_not(pai):
    pai.use({'worker': (2, 0), 'master': (1, 0)})
    plan = pai.plan('--start-timeout', '2', '--', 'true')
    began = time.monotonic()
    head, worker = (pai.pod(name, REIGEN_PLAN=plan) for name in ('master-0', 'worker-0'))
    lonely = pai.pod('worker-1', REIGEN_PLAN=plan, REIGEN_KEY='f' * 64)
    assert (head.wait(), worker.wait(), lonely.wait()) == (124, 124, 124), head.out
    assert soon(began, 12 * SLOWER)
    assert 'worker-1 (pending: it has called with another key)' in head.out, head.out
    assert 'worker-0 (' not in head.out
    assert 'the head, which is the task master-0, has not answered within 2 s' in lonely.out


@pytest.mark.sanitize
def test_a_lost_worker_ends_the_job_and_a_lost_head_ends_the_workers(pai):
    pai.use({'master': (1, 0), 'worker': (2, 0)})
    head, lost, other = start(pai, *SLEEP)
    head.saw(r'(?m)^\[2\] up')
    lost.signal(signal.SIGKILL)
    assert (head.wait(), other.wait()) == (LOST, LOST), head.out
    assert 'host worker-0: its task is gone without a word' in head.out
    head, *workers = start(pai, *SLEEP)
    head.saw(r'(?m)^\[2\] up')
    head.signal(signal.SIGKILL)
    assert [task.wait() for task in workers] == [LEFT, LEFT]


def test_a_failed_rank_and_a_stopped_task_are_the_jobs_end(pai):
    head, worker = start(pai, '--', 'sh', '-c', '[ $REIGEN_RANK = 0 ] || exit 3')
    assert (head.wait(), worker.wait()) == (3, 3), head.out
    assert 'rank 1 on worker-0 failed first: exit code 3' in head.out
    head, worker = start(pai, *SLEEP)
    head.saw(r'(?m)^\[1\] up')
    worker.signal(signal.SIGTERM)
    assert (head.wait(), worker.wait()) == (LEFT, LEFT), head.out
    assert 'OpenPAI ends its task' in head.out, head.out


@pytest.mark.parametrize('name, change, said', [
    ('worker-0', {'PAI_TASK_ROLE_LIST': None}, 'PAI_TASK_ROLE_LIST is not set'),
    ('worker-0', {'PAI_TASK_ROLE_LIST': 'master,,worker'}, 'master,,worker: no list of roles'),
    ('worker-0', {'PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX': None},
     'PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX is not set'),
    ('worker-0', {'PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX': 'one'}, 'INDEX one'),
    ('worker-0', {'PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX': '7'}, 'tell of no such task'),
    ('worker-0', {'PAI_CURRENT_TASK_ROLE_NAME': 'ps'}, 'PAI_CURRENT_TASK_ROLE_NAME ps'),
    ('worker-0', {'PAI_TASK_ROLE_TASK_COUNT_worker': '-1'}, 'PAI_TASK_ROLE_TASK_COUNT_worker -1'),
    ('worker-0', {'PAI_TASK_ROLE_TASK_COUNT_worker': '99999999'}, '99999999'),
    ('worker-0', {'PAI_HOST_IP_master_0': 'master'}, 'PAI_HOST_IP_master_0 master: not an address'),
    ('worker-0', {'PAI_PORT_LIST_master_0_reigen': '0'}, 'PAI_PORT_LIST_master_0_reigen 0'),
    ('worker-0', {'PAI_PORT_LIST_master_0_reigen': None}, 'PAI_PORT_LIST_master_0_http is set'),
    ('worker-0', {'REIGEN_KEY': None}, 'set REIGEN_KEY'),
    ('master-0', {'REIGEN_KEY': 'short'}, 'REIGEN_KEY: a key is 64'),
    ('master-0', {'REIGEN_KEY': None, 'REIGEN_KEY_FILE': '/none'}, 'REIGEN_KEY_FILE /none'),
    ('master-0', {'REIGEN_PLAN': 'not base64!'}, 'REIGEN_PLAN: no plan'),
    ('master-0', {'REIGEN_PLAN': 'AAAA'}, 'REIGEN_PLAN: '),
    ('master-0', {'REIGEN_PLAN': None}, 'the task master-0 has the head'),
])
def test_what_is_missing_or_wrong_is_named(pai, name, change, said):
    task = pai.pod(name, **{'REIGEN_PLAN': pai.plan('--', 'true'), **change})
    assert task.wait() == 2 and said in task.out, task.out
    assert 'short' not in task.out or change.get('REIGEN_KEY') != 'short', task.out


def test_the_list_of_hosts_serves_where_other_variables_are_missing(pai):
    head, worker = start(pai, '--', 'true', PAI_HOST_IP_master_0=None,
                         PAI_TASK_ROLE_TASK_COUNT_worker=None)
    assert (head.wait(), worker.wait()) == (0, 0), (head.out, worker.out)


def test_a_port_that_is_taken_is_told(pai):
    with socket.create_server(('', pai.ports['master', 0])):
        head = pai.pod('master-0', REIGEN_PLAN=pai.plan('--', 'true'))
        assert head.wait() == 69 and f'port {pai.ports["master", 0]} cannot' in head.out, head.out


# --- a job of the user's own ---------------------------------------------------------------------

@pytest.mark.sanitize
@pytest.mark.parametrize('generation', GENERATIONS)
def test_the_master_s_reigen_run_finds_the_tasks_and_their_gpus(pai, generation):
    """Job after job, from directory to directory, without ssh."""
    pai.use({'worker': (1, 2), 'master': (1, 2)}, generation)
    worker = pai.pod('worker-0')
    head = pai.run('--no-inject-runtime', '-np', '4', '--cwd', '/usr', '--', 'sh', '-c',
                   f'echo $PWD $REIGEN_LOCAL_RANK; exec {program("again")[-1]}')
    assert head.wait() == 0, head.out
    said = sorted(line for line in head.out.splitlines() if '/usr' in line)
    assert said == ['[0] /usr 0', '[1] /usr 1', '[2] /usr 0', '[3] /usr 1'], head.out
    head = pai.run('--no-inject-runtime', '-H', 'worker-0:1', '--', 'sh', '-c', 'exit 3')
    assert head.wait() == 3 and 'rank 0 on worker-0 failed first' in head.out, head.out
    worker.signal(signal.SIGTERM)
    assert worker.wait() == LEFT, worker.out


def test_a_script_reaches_the_tasks_by_their_names_as_mpirun_does(pai):
    """`mpirun -hosts master-0,worker-0` calls ssh, which is reigen rsh here."""
    pai.pod('worker-0')
    head = pai.run('--no-inject-runtime', '--engine', 'script', '--', 'sh', '-c',
                   'for host in master-0 worker-0; do $REIGEN_RSH $host '
                   "'echo I am $PAI_CURRENT_TASK_ROLE_NAME'; done; "
                   'PATH=$REIGEN_JOB_DIR:$PATH; ssh -o BatchMode=yes worker-0 echo by ssh; '
                   'cat $REIGEN_HOSTFILE')
    assert head.wait() == 0, head.out
    for said in ('I am master', 'I am worker', 'by ssh', 'master-0 slots=1', 'worker-0 slots=1'):
        assert said in head.out, head.out


def test_hosts_that_are_no_tasks_and_other_places_are_refused(pai):
    head = pai.run('-H', 'worker-7:1', '--on', 'openpai-tasks', '--', 'true')
    assert head.wait() == 2 and 'host worker-7 is no task of this job' in head.out, head.out
    head = pai.run('--on', 'openpai-tasks', '--', 'true', PAI_CURRENT_TASK_ROLE_NAME=None)
    assert head.wait() == 2 and 'PAI_CURRENT_TASK_ROLE_NAME; it is not set here' in head.out
    head = pai.run('--start-timeout', '1', '--', 'true')
    assert head.wait() == 124 and 'worker-0 (pending: its task' in head.out, head.out
    head = pai.start('worker-0', PROGRAMS.reigen, 'run', '--on', 'openpai-tasks', '--', 'true')
    assert head.wait() == 2 and 'the tasks call master-0; run it there' in head.out, head.out
    head = pai.run('--image', 'busybox', '--', 'true')
    assert head.wait() == 2 and '--on openpai-tasks starts no containers' in head.out, head.out
    # On a worker, and in a job of one task, ranks are this computer's.
    worker = pai.start('worker-0', PROGRAMS.reigen, 'run', '--no-inject-runtime', '-np', '2', '--',
                       'true')
    assert worker.wait() == 0, worker.out


def test_a_run_within_a_rank_does_not_take_the_tasks_again(pai):
    pai.pod('worker-0')
    head = pai.run('--no-inject-runtime', '--', PROGRAMS.reigen, 'run', '--no-inject-runtime',
                   '-np', '2', '--', 'echo', 'within')
    assert head.wait() == 0 and head.out.count('within') == 4, head.out


def test_strangers_keep_nobody_out(pai):
    plan = pai.plan('--', 'true')
    head = pai.pod('master-0', REIGEN_PLAN=plan)
    port = pai.ports['master', 0]
    crowd = []
    for data in (b'', b'reigen-dial2 worker-0\n', b'reigen-dial2 worker-0\n' + bytes(64),
                 b'x' * 4096):
        crowd.append(wait_for(lambda: connect(port), 'the head'))
        crowd[-1].sendall(data)
    # Nothing that is made of the key is told to who does not have it.
    assert crowd[2].recv(1000) == bytes(64) and crowd[2].recv(1) == b''
    worker = pai.pod('worker-0', REIGEN_PLAN=plan)
    assert (head.wait(), worker.wait()) == (0, 0), head.out
    for connection in crowd:
        connection.close()


def connect(port):
    try:
        return socket.create_connection(('127.0.0.1', port), 10)
    except ConnectionRefusedError:
        return None


# --- elastic jobs ---------------------------------------------------------------------------------

def steps(pai, *words):
    """Ranks count steps until there is a file `stop`; `fail-P` ends place P."""
    return *words, '--', PROGRAMS.python, STEPS, pai.folder / 'stop', pai.folder / 'fail'


def end(pai, *tasks):
    (pai.folder / 'stop').touch()
    assert [task.wait() for task in tasks] == [0] * len(tasks), [task.out for task in tasks]


@pytest.mark.parametrize('generation', ['v1', 'v2'])
@pytest.mark.parametrize('signo', [signal.SIGKILL, signal.SIGTERM])
def test_an_elastic_job_goes_on_without_a_task_and_with_the_one_in_its_place(
        pai, generation, signo):
    pai.use({'master': (1, 0), 'worker': (2, 0)}, generation)
    plan = pai.plan(*steps(pai, '-np', 3, '--min-np', 1))
    tasks = [pai.pod(name, REIGEN_PLAN=plan) for name in ('master-0', 'worker-0', 'worker-1')]
    head, sizes = tasks[0], [3]
    saw_sizes(head, *sizes)
    first = re.findall(r'place 0 pid \d+', head.out)
    for lost in (1, 2, 1):
        tasks[lost].signal(signo)
        tasks[lost].wait()
        saw_sizes(head, *(sizes := [*sizes, 2]))
        tasks[lost] = pai.pod(f'worker-{lost - 1}', REIGEN_PLAN=plan)
        saw_sizes(head, *(sizes := [*sizes, 3]))
    end(pai, *tasks)
    assert re.findall(r'place 0 pid \d+', head.out) == first, head.out
    assert 'aside' not in head.out and 'reigen: restart' not in head.out, head.out


def test_a_task_that_is_set_aside_is_of_use_again_after_its_cooldown(pai):
    """It stays meanwhile: OpenPAI would begin one that ends again at once."""
    tasks = start(pai, *steps(pai, '-np', 2, '--min-np', 1, '--blacklist-cooldown-range', '1:2'))
    saw_sizes(tasks[0], 2)
    (pai.folder / 'fail-1').touch()
    tasks[0].saw('host worker-0 is set aside for 1 s: rank 1 on worker-0: exit code 3')
    saw_sizes(tasks[0], 2, 1, 2)
    assert tasks[1].child.poll() is None
    end(pai, *tasks)


def test_a_lost_head_is_the_end_of_an_elastic_job(pai):
    """OpenPAI ends the other tasks then."""
    head, worker = start(pai, *steps(pai, '-np', 2, '--min-np', 1, '--start-timeout', 1))
    saw_sizes(head, 2)
    head.signal(signal.SIGKILL)
    assert worker.wait() == 124 and 'has not answered within 1 s' in worker.out, worker.out


def test_the_tasks_of_a_masters_reigen_run_may_be_lost_and_come_back(pai):
    worker = pai.wait_workers('worker-0')
    head = pai.run('--no-inject-runtime', *steps(pai, '-np', 2, '--min-np', 1))
    saw_sizes(head, 2)
    worker.signal(signal.SIGKILL)
    saw_sizes(head, 2, 1)
    pai.wait_workers('worker-0')
    saw_sizes(head, 2, 1, 2)
    (pai.folder / 'stop').touch()
    assert head.wait() == 0, head.out
