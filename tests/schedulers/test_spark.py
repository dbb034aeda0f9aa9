# SPDX-License-Identifier: Apache-2.0
"""horovod.spark.run() on a real Spark: in one process with Python workers, and with executors."""
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from wait import until

sys.path.append(str(Path(__file__).resolve().parents[1] / 'behaviour'))
from processes import assert_gone  # noqa: E402

pytestmark = pytest.mark.timeout(300)
LOCAL = ['work', 'again', 'one', 'usual', 'twice', 'output', 'timestamp', 'fails', 'leaves', 'dies',
         'unsendable', 'unpicklable', 'interrupted', 'plain', 'few', 'zero', 'mpi', 'executable',
         'anew', 'elastic fails', 'elastic few', 'elastic sizes', 'runner', 'runner all',
         'runner here', 'runner wrong', 'cancelled', 'cancelled elastic', 'late',
         'silent']


def by_name(text):
    return {line['name']: line for line in map(json.loads, text.splitlines())}


@pytest.fixture(scope='module')
def told(program, tmp_path_factory):
    """By the name of the job: {'result': ...} or {'error': its class, 'text': ...}"""
    return by_name(program('spark', 'spark_job.py', tmp_path_factory.mktemp('spark'), 'local[2]',
                           # Spark gives a barrier stage up after a second, and is asked again.
                           'spark.scheduler.barrier.maxConcurrentTasksCheck.interval=1s',
                           'spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures=1',
                           *LOCAL))


@pytest.fixture(scope='module')
def on_executors(program, tmp_path_factory):
    return by_name(program('spark', 'spark_job.py', tmp_path_factory.mktemp('executors'),
                           'local-cluster[2,1,700]', 'spark.executor.memory=500m', 'executor',
                           'plain', 'result', 'work', 'goes on'))


def test_tasks_are_ranks_by_every_variable(told):
    assert [rank[:4] for rank in told['work']['result']] == [[0, 2, 0, 15.0], [1, 2, 1, 15.0]]
    assert [rank[:4] for rank in told['one']['result']] == [[0, 1, 0, 0.0]]
    assert told['usual']['result'] == [0, 1]
    # Spark's processes are used again.
    assert {rank[4] for rank in told['again']['result']} == \
        {rank[4] for rank in told['work']['result']}


def test_init_comes_again_after_shutdown(told):
    assert told['twice']['result'] == ['both', 'both']


def test_what_ranks_print_comes_here_by_lines(told):
    out, err = told['output']['result']
    long = 'x' * 300000
    assert sorted(out.splitlines()) == sorted(
        f'[{rank}]<stdout>:{line}' for rank in range(2)
        for line in (f'said {rank} hello', 'by C', long))
    assert sorted(err.splitlines()) == [f'[{rank}]<stderr>:no newline' for rank in range(2)]
    out, _ = told['timestamp']['result']
    assert re.match(r'\w{3} \w{3} \d\d \d\d:\d\d:\d\d \d{4}\[\d\]<stdout>:', out)


def test_what_a_rank_raises_is_told_with_its_traceback_and_not_what_followed(told):
    assert told['fails']['error'] == 'JobFailed'
    text = told['fails']['text']
    assert re.match(r"rank 1 on \S+ failed: KeyError: 'a bad column'\nTraceback", text), text
    assert 'spark_job.py' in text and 'After it failed: rank 0' in text


@pytest.mark.parametrize('name', ['leaves', 'dies'])
def test_a_rank_that_ends_without_a_word_is_named(told, name):
    assert re.match(r'rank 1 on \S+ was lost: its executor or its Python process has ended\n',
                    told[name]['text']), told[name]


def test_a_result_that_cannot_be_sent(told):
    assert 'The result, a _thread.lock, cannot be sent' in told['unsendable']['text']


def test_who_is_late_is_named(told):
    assert re.match(r'rank 0 on \S+ failed: TimeoutError: rank 1 on \S+ did not call init\(\) ',
                    told['late']['text']), told['late']


def test_ctrl_c_ends_the_tasks_and_the_next_job_runs(told):
    assert told['interrupted']['error'] == 'KeyboardInterrupt'
    assert told['plain']['result'] == [0, 1]


@pytest.mark.parametrize('name, error, text', [
    ('unpicklable', 'PicklingError', "cannot pickle '_thread.lock' object"),
    ('few', 'TimeoutError', '0 of 5 have within 4 s, and the cluster has some 2 slots'),
    ('silent', 'TimeoutError', 'Spark runs others that have not connected yet: 1 on '),
    ('cancelled', 'JobFailed', 'Spark has given the stage up: [SPARK_JOB_CANCELLED] Job '),
    ('cancelled elastic', 'JobFailed', 'Spark has given the stage up: [SPARK_JOB_CANCELLED] Job '),
    ('zero', 'ValueError', 'num_proc is 0'), ('mpi', 'ValueError', 'there is no MPI in it'),
    ('executable', 'ValueError', 'spark.pyspark.python sets'),
    ('elastic few', 'TimeoutError', ' of 5 have within 1 s'),
    ('elastic sizes', 'ValueError', 'min_num_proc=3, num_proc=2, max_num_proc=2: '),
    ('runner wrong', 'ValueError', "driver_log_verbosity is 'some': it is 'all' or "),
    ('elastic fails', 'JobFailed', 'the ranks have changed as often as reset_limit=0 permits\n'
     'rank 1 on '),
])
def test_what_cannot_be(told, name, error, text):
    assert told[name]['error'] == error and text in told[name]['text'], told[name]


def test_an_executor_that_dies_is_named_also_with_a_result(on_executors):
    assert re.match(r'rank 1 on \S+ was lost: ', on_executors['executor']['text']), on_executors
    assert on_executors['plain']['result'] == [0, 1]
    # Spark may give up before it starts the task again, and then it has the word.
    assert on_executors['result']['error'] == 'JobFailed', on_executors
    assert re.match(r'rank 1 on \S+ was lost: |Spark has given the stage up: ',
                    on_executors['result']['text']), on_executors
    assert [rank[:3] for rank in on_executors['work']['result']] == [[0, 2, 0], [1, 2, 1]]


@pytest.fixture(scope='module')
def on_hosts(program, tmp_path_factory):
    """A standalone cluster of two, and the folder with its logs."""
    folder = tmp_path_factory.mktemp('hosts')
    (folder / 'events').mkdir()
    return folder, by_name(program(
        'spark', 'spark_job.py', folder, 'hosts', 'spark.executor.memory=500m', 'spark.cores.max=2',
        'spark.scheduler.barrier.maxConcurrentTasksCheck.interval=1s',
        'spark.eventLog.enabled=true', f'spark.eventLog.dir={folder}/events',
        'spark.eventLog.compress=false', 'spark.executor.resource.gpu.amount=1',
        'spark.task.resource.gpu.amount=1', 'gpus', 'key', 'dies', 'executor', 'in init', 'before',
        'result', 'executor goes on', 'work'))


@pytest.mark.parametrize('name, where', [('dies', 'rank 1 on '), ('executor', 'rank 1 on '),
                                         ('in init', 'rank 1 on '), ('before', 'task ')])
def test_who_is_lost_on_other_hosts_is_named_whatever_the_time(on_hosts, name, where):
    told = on_hosts[1]
    assert re.match(rf'{where}\S+( on \S+)? was lost: its executor or its Python process has ended',
                    told[name]['text']), told[name]


def test_spark_gives_each_rank_a_gpu(on_hosts):
    """Their names come from a discovery script."""
    assert sorted(on_hosts[1]['gpus']['result']) == [['GPU-127.0.0.2'], ['GPU-127.0.0.3']]


def test_other_hosts_are_used_again(on_hosts):
    told = on_hosts[1]
    assert told['result']['error'] == 'JobFailed', told
    assert 'result' in told['executor goes on'], told['executor goes on']
    one = told['executor goes on']['result']
    assert [rank[:2] for rank in one] == [[0, '0'], [1, '1']] and one[0][3] == [1, 2], told
    assert [rank[:2] for rank in told['work']['result']] == [[0, 2], [1, 2]]


def test_the_key_of_a_job_is_in_no_log(on_hosts):
    folder, told = on_hosts
    logs = [path for path in folder.rglob('*') if path.is_file() and
            (path.parent.name == 'events' or path.name.startswith('std') or path.suffix == '.log')]
    assert {'stderr', 'master.log'} <= {path.name for path in logs} and len(logs) >= 6, logs
    for path in logs:
        text = path.read_text(errors='replace')
        assert not [form for form in told['key']['result'] if form in text], path


def test_executors_that_spark_adds_for_a_job_and_takes_after_it(program, tmp_path):
    done = by_name(program(
        'spark', 'spark_job.py', tmp_path, 'hosts', 'spark.executor.memory=500m',
        'spark.cores.max=2', 'spark.dynamicAllocation.enabled=true',
        'spark.dynamicAllocation.shuffleTracking.enabled=true',
        'spark.dynamicAllocation.executorIdleTimeout=1s', 'adds and takes'))
    assert done['adds and takes'].get('result') == [[[0, 2], [1, 2]]] * 2, done


def test_a_task_that_is_killed_is_made_up_for_and_the_other_goes_on(on_executors):
    """Spark starts it again; the survivor keeps its process and its state."""
    told = on_executors['goes on']['result']
    assert [rank[:2] for rank in told] == [[0, '0'], [1, '1']]
    assert told[0][3] == told[1][3] == [1, 2]
    assert told[0][2] == told[0][4] == told[1][4] != told[1][2]


def test_a_function_that_cannot_go_on_is_called_again_on_all(told):
    assert told['anew']['result'] == [[0, False], [1, False]]


def test_a_horovod_runner_shows_what_it_is_asked_to(told):
    said = ['of 2', 'said']
    assert told['runner']['result'] == [[0, 'said'], sorted(said * 2)]
    assert told['runner all']['result'] == [[0, 'said'], sorted([
        *said * 2, '[0]<stdout>:printed', '[1]<stdout>:printed'])]
    result, shown = told['runner here']['result']
    assert result == [0, 'said'] and sum('printed' in line for line in shown) == 2


def test_without_barrier_mode_tasks_wait_for_each_other(program, tmp_path):
    done = by_name(program('spark', 'spark_job.py', tmp_path, 'local[2]',
                           'spark.dynamicAllocation.enabled=true', 'work', 'fails'))
    assert [rank[:3] for rank in done['work']['result']] == [[0, 2, 0], [1, 2, 1]]
    assert 'a bad column' in done['fails']['text']


def test_a_task_that_spark_starts_twice_is_one_rank(program, tmp_path):
    """As it takes longer than others do, and there is an idle host. There is no barrier stage, for
    which Spark does not do so."""
    done = by_name(program(
        'spark', 'spark_job.py', tmp_path, 'hosts', 'spark.executor.memory=700m',
        'spark.dynamicAllocation.enabled=true', 'spark.dynamicAllocation.minExecutors=2',
        'spark.dynamicAllocation.shuffleTracking.enabled=true', 'spark.speculation=true',
        'spark.speculation.interval=100ms', 'spark.speculation.quantile=0.5',
        'spark.speculation.multiplier=1.1', 'spark.speculation.minTaskRuntime=10ms',
        'speculates', 'speculates elastic', 'speculates lost'))
    assert done['speculates']['result'] == [[0, 1], 2], done
    assert done['speculates elastic']['result'] == [[0, 1], 2], done
    # The second process waits, and would do so without an end.
    assert re.match(r'rank 1 on \S+ was lost: ', done['speculates lost']['text']), done


def dies_while_ranks_stand(child, folder):
    """The ranks of the driver end, soon."""
    try:
        pids = [int(until(lambda rank=rank: (folder / f'stands-{rank}').exists() and
                          (folder / f'stands-{rank}').read_text(), f'rank {rank}', 60))
                for rank in range(2)]
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    for pid in pids:
        until(lambda pid=pid: not Path(f'/proc/{pid}').exists(), f'the end of {pid}', 10)


def test_a_driver_that_is_killed_leaves_nothing(begin, tmp_path):
    dies_while_ranks_stand(begin('spark', 'spark_job.py', tmp_path, 'local-cluster[2,1,700]',
                                 'spark.executor.memory=500m', 'stands'), tmp_path)
    assert_gone(str(tmp_path))


def test_on_a_cluster_that_goes_on_neither(begin, tmp_path):
    where, jobs = tmp_path / 'cluster', tmp_path / 'job'
    where.mkdir(), jobs.mkdir()
    with begin('spark', 'spark_cluster.py', where, '127.0.0.2', '127.0.0.3',
               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as cluster:
        url = cluster.stdout.readline().strip()
        dies_while_ranks_stand(begin('spark', 'spark_job.py', jobs, url, 'spark.cores.max=2',
                                     'spark.executor.memory=500m', 'stands'), jobs)
        until(lambda: 'Removing app' in (where / 'master.log').read_text(), 'the end of the job',
              60)
        cluster.stdin.close()
    assert_gone(str(tmp_path))


def test_without_spark_run_says_what_to_install(tmp_path):
    code = "import sys; sys.modules['pyspark'] = None; import horovod.spark; horovod.spark.run(1)"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=60,
                          check=False, env={'PYTHONPATH': str(root / 'bindings/python'),
                                            'REIGEN_LIBRARY': str(tmp_path / 'unused')})
    assert 'pip install pyspark' in done.stderr or 'libreigen.so was not found' in done.stderr
