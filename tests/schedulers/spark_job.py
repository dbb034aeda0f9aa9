# SPDX-License-Identifier: Apache-2.0
"""Jobs of horovod.spark.run() on Spark; what became of each, as a line of JSON.

usage: spark_job.py FOLDER MASTER NAME...    MASTER: or `hosts`, a cluster of two that it starts
"""
import base64
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession

import horovod.spark
from reigen import _hub
from spark_cluster import master_of
from wait import until

FOLDER = Path(sys.argv[1])
TESTS = str(Path(__file__).resolve().parents[1])


def work(base):
    """Within a task."""
    import numpy as np

    import reigen
    reigen.init(process_sets=[[0]] if os.environ['WORLD_SIZE'] != '1' else [])
    total = reigen.allreduce(np.array([base + reigen.rank()]), op=reigen.Sum)
    assert os.environ['RANK'] == os.environ['HOROVOD_RANK'] == str(reigen.rank())
    assert os.environ['LOCAL_RANK'] == str(reigen.local_rank())
    assert os.environ['HOROVOD_CROSS_SIZE'] == str(reigen.cross_size()) == '1'
    return [reigen.rank(), reigen.size(), reigen.local_rank(), float(total[0]), os.getpid()]


def inits_twice():
    import reigen
    for _ in range(2):
        reigen.init()
        reigen.barrier()
        reigen.shutdown()
    return 'both'


def prints():
    import ctypes
    rank = os.environ['RANK']
    print('said', rank, os.environ['GREETING'])
    print('no newline', end='', file=sys.stderr)
    sys.stderr.flush()
    ctypes.CDLL(None).write(1, b'by C\n', 5)
    print('x' * 300000)


def fails():
    import reigen
    reigen.init()
    if reigen.rank() == 1:
        raise KeyError('a bad column')
    reigen.barrier()


def leaves():
    import reigen
    reigen.init()
    if reigen.rank() == 1:
        os._exit(0)
    reigen.barrier()


def dies():
    import reigen
    reigen.init()
    if reigen.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    reigen.barrier()


def executor_of(pid):
    """Above a rank's process: its daemon, and the executor above that."""
    for _ in range(2):
        pid = int(Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[1])
    return pid


def loses_executor(in_init):
    """Rank 1; in_init: while the other one is in init()."""
    import reigen
    if os.environ['RANK'] == '1' and not in_init:
        reigen.init()
    if os.environ['RANK'] == '1':
        os.kill(executor_of(os.getpid()), signal.SIGKILL)
        threading.Event().wait()
    reigen.init()
    reigen.barrier()


def loses_executor_before():
    """The first task to come loses its executor before the other one is here."""
    first, lost, welcome, lose = [], threading.Event(), _hub.Hub._welcome, _hub.Hub._lose

    def welcomes(hub, index, fields, line):
        first.append(index)
        if len(first) > 1:
            lost.wait(60)
        found = welcome(hub, index, fields, line)
        if len(first) == 1:
            os.kill(executor_of(fields['pid']), signal.SIGKILL)
        return found

    def loses(hub, index):
        lose(hub, index)
        lost.set()
    _hub.Hub._welcome, _hub.Hub._lose = welcomes, loses
    try:
        horovod.spark.run(plain, num_proc=2)
    finally:
        _hub.Hub._welcome, _hub.Hub._lose = welcome, lose


def executors():
    """How many Spark has beside this program."""
    return SparkSession.active().sparkContext._jsc.sc().statusTracker().getExecutorInfos()


def adds_and_takes():
    """Executors are taken away between two jobs, and added for each."""
    there = lambda: len(executors()) - 1  # noqa: E731
    found = []
    for base in range(2):
        until(lambda: there() == 0, 'the end of the executors', 60)
        found.append([rank[:2] for rank in horovod.spark.run(work, (base,), num_proc=2)])
    return found


def with_key():
    """The key of a job, whatever form it may have in a log, to look for."""
    keys, init = [], _hub.Hub.__init__

    def inits(hub, *words):
        init(hub, *words)
        keys.append(hub.key)
    _hub.Hub.__init__ = inits
    try:
        horovod.spark.run(work, (0,), num_proc=2)
    finally:
        _hub.Hub.__init__ = init
    return [keys[0].hex(), base64.b64encode(keys[0]).decode(), repr(keys[0])[2:-1]]


def loses_result():
    """The executor dies after the function."""
    if os.environ['RANK'] == '1' and not (FOLDER / 'lost').exists():
        (FOLDER / 'lost').touch()
        # When descriptor 1 is Spark's again the function is over, and its result is on the way.
        code = (f'import os, sys; sys.path.insert(0, {TESTS!r}); from wait import until\n'
                f'out = lambda: os.readlink("/proc/{os.getpid()}/fd/1")\n'
                'print("looks", flush=True); first = sys.argv[1]\n'
                'until(lambda: out() != first, "the end of the function", 60)\n'
                f'os.kill({executor_of(os.getpid())}, 9)')
        watcher = subprocess.Popen([sys.executable, '-c', code, os.readlink('/proc/self/fd/1')],
                                   stdout=subprocess.PIPE, start_new_session=True)
        watcher.stdout.readline()
        return 'x' * (200 << 20)
    return ''


def goes_on_alone(name, loses):
    """Rank 1, until it is allowed to end. loses: its executor dies behind the function."""
    sys.path.insert(0, TESTS)
    import reigen
    from wait import until
    reigen.init()
    reigen.barrier()
    (FOLDER / f'{name}-{os.getpid()}').touch()
    if reigen.rank() == 1:
        until((FOLDER / f'{name} goes on').exists, 'a second process of the task', 60)
    return loses_result() if loses else reigen.rank()


def silent():
    """Task 1 runs, and its word does not come."""
    over, welcome = threading.Event(), _hub.Hub._welcome

    def welcomes(hub, index, fields, line):
        if index == 1:
            over.wait(60)
        return welcome(hub, index, fields, line)
    _hub.Hub._welcome = welcomes
    try:
        horovod.spark.run(plain, num_proc=2, start_timeout=3)
    finally:
        _hub.Hub._welcome = welcome
        over.set()


@contextlib.contextmanager
def second_processes():
    """An event: a second process of a task has come to this program."""
    came, indices, put = threading.Event(), [], _hub.Hub._put

    def puts(hub, kind, index, fields, data=b''):
        if kind in ('here', 'again'):
            if fields['index'] in indices:
                came.set()
            indices.append(fields['index'])
        put(hub, kind, index, fields, data)
    _hub.Hub._put = puts
    try:
        yield came
    finally:
        _hub.Hub._put = put


def of_two_processes(function, name, loses=False):
    """Spark starts rank 1 once more, as rank 0 has ended long before: what the function returned,
    and in how many processes it was called."""
    def press():
        if came.wait(60):
            (FOLDER / f'{name} goes on').touch()
    with second_processes() as came:
        thread = threading.Thread(target=press)
        thread.start()
        try:
            result = function(goes_on_alone, [name, loses], num_proc=2)
        finally:
            thread.join()
    return [result, len(list(FOLDER.glob(f'{name}-*')))]


def unsendable():
    return threading.Lock()


def plain():
    return int(os.environ['RANK'])


def goes_on(steps, ill):
    """Elastic: rank 1 does something ill in step 3, once; the others wait for another one."""
    import numpy as np

    import reigen
    from horovod.common.elastic import ObjectState, run_fn
    from reigen._objects import broadcast_object

    def again():
        reigen.shutdown()
        reigen.init()

    def train(state):
        while state.step < steps or (ill and reigen.size() < 2):
            reigen.allreduce(np.ones(1), op=reigen.Sum, name='step')
            state.step, state.sizes = state.step + 1, state.sizes + [reigen.size()]
            if state.step == 3 and reigen.rank() == 1 and not (FOLDER / ill).exists():
                (FOLDER / ill).touch()
                os.kill(os.getpid() if ill == 'killed' else executor_of(os.getpid()),
                        signal.SIGKILL)
                threading.Event().wait()  # the executor's end is this process's, soon
            state.commit()
        return [reigen.rank(), os.environ['HOROVOD_RANK'], os.getpid(),
                sorted(set(state.sizes))]

    reigen.init()
    first = os.getpid() if reigen.rank() == 0 else 0
    state = ObjectState(lambda value: broadcast_object(value, 0), reigen.rank, step=0, sizes=[],
                        first=first)
    return run_fn(train, again)(state) + [state.first]


def begins_anew():
    """It cannot go on: all are called again."""
    import reigen
    reigen.init()
    first = not (FOLDER / 'anew').exists()
    reigen.barrier()
    if first and reigen.rank() == 1:
        (FOLDER / 'anew').touch()
        raise KeyError('a bad column')
    reigen.barrier()
    return [reigen.rank(), first]


def gpus():
    from horovod.spark.task import get_available_devices
    return get_available_devices()


def inits_late():
    """Rank 1, until the other one has given up."""
    sys.path.insert(0, TESTS)
    import reigen
    from wait import until
    if os.environ['RANK'] == '1':
        return until((FOLDER / 'given up').exists, 'the end of rank 0', 60)
    try:
        reigen.init(timeout=0.5)
    finally:
        (FOLDER / 'given up').touch()


def stands():
    import reigen
    reigen.init()
    (FOLDER / f'stands-{reigen.rank()}').write_text(str(os.getpid()))
    if reigen.rank() == 0:
        reigen.barrier()
    threading.Event().wait()


def interrupted():
    def press():
        while not all((FOLDER / f'stands-{rank}').exists() for rank in range(2)):
            threading.Event().wait(0.01)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=press).start()
    horovod.spark.run(stands, num_proc=2)


def cancelled(function):
    """Somebody ends Spark's jobs, by its page or by another thread, while the ranks work."""
    for rank in range(2):
        (FOLDER / f'stands-{rank}').unlink(missing_ok=True)

    def press():
        for rank in range(2):
            until((FOLDER / f'stands-{rank}').exists, f'rank {rank}', 60)
        SparkSession.active().sparkContext.cancelAllJobs()
    thread = threading.Thread(target=press)
    thread.start()
    try:
        function(stands, num_proc=2)
    finally:
        thread.join()


def output(timestamp):
    out, err = io.StringIO(), io.StringIO()
    horovod.spark.run(prints, num_proc=2, env={'GREETING': 'hello'}, stdout=out, stderr=err,
                      prefix_output_with_timestamp=timestamp)
    return [out.getvalue(), err.getvalue()]


def elastic(function, *args, **options):
    return lambda: horovod.spark.run_elastic(function, args, num_proc=options.pop('num_proc', 2),
                                             **options)


def talks(word):
    import reigen
    from sparkdl.horovod import log_to_driver
    reigen.init()
    print('printed')
    log_to_driver(f'{word}\nof {reigen.size()}')
    return [reigen.rank(), word]


def runner(np, verbosity='log_callback_only'):
    """What it returned, and what was shown."""
    import contextlib

    from sparkdl import HorovodRunner
    with contextlib.redirect_stdout(io.StringIO()) as out:
        result = HorovodRunner(np=np, driver_log_verbosity=verbosity).run(talks, word='said')
    return [result, sorted(out.getvalue().splitlines())]


def of(function, *args, **options):
    return lambda: horovod.spark.run(function, args, num_proc=options.pop('num_proc', 2),
                                     **options)


JOBS = {
    'work': of(work, 7), 'again': of(work, 1), 'one': of(work, 0, num_proc=1),
    'usual': of(plain, num_proc=None), 'twice': of(inits_twice), 'plain': of(plain),
    'output': lambda: output(False), 'timestamp': lambda: output(True), 'fails': of(fails),
    'leaves': of(leaves), 'dies': of(dies), 'executor': of(loses_executor, False),
    'result': of(loses_result), 'unsendable': of(unsendable), 'interrupted': interrupted,
    'unpicklable': of(plain, threading.Lock()),
    'stands': of(stands),
    'cancelled': lambda: cancelled(horovod.spark.run),
    'cancelled elastic': lambda: cancelled(horovod.spark.run_elastic),
    'in init': of(loses_executor, True), 'before': loses_executor_before,
    'adds and takes': adds_and_takes, 'key': with_key, 'gpus': of(gpus),
    'executor goes on': elastic(goes_on, 5, 'executor', min_np=1),
    'late': of(inits_late), 'silent': silent,
    'few': of(plain, num_proc=5, start_timeout=4), 'zero': of(plain, num_proc=0),
    'mpi': of(plain, use_mpi=True), 'executable': of(plain, executable='/bin/true'),
    'goes on': elastic(goes_on, 5, 'killed', min_np=1), 'anew': elastic(begins_anew),
    'elastic fails': elastic(fails, reset_limit=0),
    'elastic few': elastic(plain, num_proc=5, start_timeout=1),
    'speculates': lambda: of_two_processes(horovod.spark.run, 'plain'),
    'speculates elastic': lambda: of_two_processes(horovod.spark.run_elastic, 'elastic'),
    'speculates lost': lambda: of_two_processes(horovod.spark.run, 'lost', True),
    'runner': lambda: runner(2), 'runner all': lambda: runner(0, 'all'),
    'runner here': lambda: runner(-2), 'runner wrong': lambda: runner(2, 'some'),
    'elastic sizes': elastic(plain, min_num_proc=3),
}


def tell(name):
    """What it returns, or how it fails."""
    try:
        found = {'result': JOBS[name]()}
    except KeyboardInterrupt:
        found = {'error': 'KeyboardInterrupt', 'text': ''}
    except Exception as error:
        found = {'error': type(error).__name__, 'text': str(error)}
    print(json.dumps({'name': name, **found}), flush=True)


def main():
    with master_of(sys.argv[2], FOLDER) as master:
        do(master)


def do(master):
    builder = SparkSession.builder.master(master)
    settings = {'spark.ui.enabled': 'false', 'spark.ui.showConsoleProgress': 'false',
                'spark.driver.host': '127.0.0.1', 'spark.driver.bindAddress': '127.0.0.1',
                'spark.local.dir': str(FOLDER),
                **dict(word.split('=', 1) for word in sys.argv[3:] if '=' in word)}
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    for name in sys.argv[3:]:
        if '=' not in name:
            tell(name)
    session.stop()


if __name__ == '__main__':
    main()
