# SPDX-License-Identifier: Apache-2.0
"""Jobs of horovod.ray on a cluster of two nodes; what became of each, as a line of JSON.

usage: ray_job.py FOLDER TEMP    TEMP: a short path, as Ray has sockets below it
"""
import contextlib
import importlib
import io
import json
import os
import signal
import sys
import threading
import warnings
from pathlib import Path

FOLDER, TEMP = map(Path, sys.argv[1:])
os.environ.update(RAY_USAGE_STATS_ENABLED='0', RAY_TMPDIR=str(TEMP),
                  RAY_IGNORE_UNHANDLED_ERRORS='1', RAY_worker_niceness='0')

import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy  # noqa: E402

from horovod.ray import RayExecutor, _elastic, elastic, elastic_v2, runner, strategy  # noqa: E402

NODE = {'num_cpus': 2, 'num_gpus': 2, 'object_store_memory': 80 << 20, 'include_dashboard': False}


def work(base):
    """Within a worker."""
    import numpy as np

    import reigen
    reigen.init(process_sets=[[0]])
    print('worker says', reigen.rank(), flush=True)
    total = reigen.allreduce(np.array([base + reigen.rank()]), op=reigen.Sum)
    assert os.environ['RANK'] == os.environ['HOROVOD_RANK'] == str(reigen.rank())
    assert os.environ['LOCAL_RANK'] == str(reigen.local_rank())
    assert threading.current_thread() is threading.main_thread()
    return [reigen.rank(), reigen.size(), float(total[0]), os.getpid(),
            os.environ.get('CUDA_VISIBLE_DEVICES'), ray.get_runtime_context().get_node_id()]


class Model:
    """An object of the caller's in each worker."""

    def __init__(self, base, scale=1):
        import reigen
        reigen.init()
        self.base = base * scale

    def step(self):
        import numpy as np

        import reigen
        total = reigen.allreduce(np.array([self.base + reigen.rank()]), op=reigen.Sum)
        return [float(total[0]), os.environ['GREETING']]


class Refuses:
    def __init__(self):
        raise ValueError('no such model')


def logs():
    from horovod.ray import ray_logger
    ray_logger.log({'step': 1, 'rank': os.environ['RANK']})
    ray_logger.log({'all': os.environ['RANK']}, chief_only=False)


def fails():
    import reigen
    reigen.init()
    if reigen.rank() == 1:
        raise KeyError('a bad column')
    reigen.barrier()


def uneven():
    import reigen
    if os.environ['RANK'] == '0':
        reigen.init(timeout=0.2)


def dies():
    import reigen
    reigen.init()
    if reigen.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    reigen.barrier()


def waits_for_a_tensor():
    import numpy as np

    import reigen
    reigen.init()
    (FOLDER / f'waits-{reigen.rank()}').touch()
    reigen.allreduce(np.zeros(4), name=f'never-{reigen.rank()}')


def of_all():
    raise ValueError('each says no')


def never_ends():
    if os.environ['RANK'] == '1':
        raise ValueError('the first')
    threading.Event().wait()


def goes_on(steps):
    """Elastic: rank 1 dies in step 3, once; the other waits for another one."""
    import numpy as np

    import reigen
    from horovod.common.elastic import ObjectState, run_fn
    from horovod.ray import ray_logger
    from reigen._objects import broadcast_object

    def again():
        reigen.shutdown()
        reigen.init()

    def train(state):
        while state.step < steps or reigen.size() < 2:
            reigen.allreduce(np.ones(1), op=reigen.Sum, name='step')
            state.step += 1
            if state.step == 3 and reigen.rank() == 1 and not (FOLDER / 'killed').exists():
                (FOLDER / 'killed').touch()
                os.kill(os.getpid(), signal.SIGKILL)
            state.commit()
        ray_logger.log({'rank': reigen.rank()}, chief_only=False)
        print('worker says it ends', flush=True)
        return [reigen.rank(), os.environ['GREETING'], os.getpid(), state.first,
                os.environ['CUDA_VISIBLE_DEVICES'].count(',')]

    reigen.init()
    state = ObjectState(lambda value: broadcast_object(value, 0), reigen.rank, step=0,
                        first=os.getpid() if reigen.rank() == 0 else 0)
    return run_fn(train, again)(state)


class Shrinks(elastic.RayHostDiscovery):
    """The cluster's first node, from which a slot is taken when the ranks have begun."""

    def find_available_hosts_and_slots(self):
        host = min(super().find_available_hosts_and_slots())
        return {host: 1 if (FOLDER / 'shrink').exists() else 2}


def shrinks():
    """Steps that are never committed, until one of two ranks has gone; how many were lost."""
    import numpy as np

    import reigen
    from horovod.common.elastic import ObjectState, run_fn
    from reigen._objects import broadcast_object

    def again():
        reigen.shutdown()
        reigen.init()

    done, shrink = [], FOLDER / 'shrink'

    def train(state):
        while reigen.size() == 2 or not shrink.exists():
            reigen.allreduce(np.ones(1), name='step')
            if reigen.size() == 1:  # the other one has not come yet
                state.commit()
                continue
            done.append(state.step)
            state.step += 1
            shrink.touch()
            state.check_host_updates()
        return [reigen.rank(), state.step - len(done)]

    reigen.init()
    return run_fn(train, again)(ObjectState(lambda value: broadcast_object(value, 0), reigen.rank,
                                            step=0))


def interrupted(executor):
    def press():
        while not all((FOLDER / f'waits-{rank}').exists() for rank in range(2)):
            threading.Event().wait(0.01)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=press).start()
    executor.run(waits_for_a_tensor)


def secret(executor):
    """Whether the key of the job is in any of Ray's files, logs for one."""
    key = executor._workers._ring.call.key
    texts = [path.read_bytes() for path in TEMP.rglob('*') if path.is_file()]
    found = [word for word in (key, key.hex().encode(), repr(key)[2:-1].encode())
             for text in texts if word in text]
    return [len(texts) > 10, len(found)]


@ray.remote(num_cpus=0)
def inside(count):
    """In a placement group of two bundles, a CPU each."""
    executor = RayExecutor(num_workers=count)
    executor.start()
    try:
        return executor.run(lambda: ray.get_runtime_context().get_placement_group_id())
    finally:
        executor.shutdown()


def in_group(count):
    group = ray.util.placement_group([{'CPU': 1}] * 2, strategy='SPREAD')
    where = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
    try:
        return [one == group.id.hex()
                for one in ray.get(inside.options(scheduling_strategy=where).remote(count))]
    finally:
        ray.util.remove_placement_group(group)


def tell(name, call):
    """What it returns, or how it fails."""
    try:
        found = {'result': call()}
    except KeyboardInterrupt:
        found = {'error': 'KeyboardInterrupt', 'text': ''}
    except Exception as error:
        found = {'error': type(error).__name__, 'text': str(error)}
    # Among what is printed, Ray's words of its workers may come in the middle of a line.
    with open(FOLDER / 'told', 'a', encoding='utf-8') as file:
        print(json.dumps({'name': name, **found}), file=file)


def objects(settings):
    """An executor with objects, and what leaves it as it is."""
    executor = RayExecutor(settings, num_workers=2)
    tell('refuses', lambda: RayExecutor(settings, num_workers=1).start(Refuses))
    tell('early', lambda: executor.run(work))
    executor.start(Model, [2], {'scale': 3}, {'GREETING': 'hello'})
    tell('objects', lambda: executor.execute(lambda model: model.step()))
    tell('single', lambda: executor.execute_single(lambda model: model.base))
    tell('single fails', lambda: executor.execute_single(lambda model: 1 // 0))
    tell('each', lambda: executor.run(of_all))
    tell('objects after', lambda: executor.execute(lambda model: model.step()))
    heard = []
    executor.run(logs, callbacks=[heard.append])
    tell('logs', lambda: sorted(heard, key=str))
    tell('remote', lambda: ray.get(executor.run_remote(len, ['four'])))
    lock = threading.Lock()
    tell('unsendable', lambda: executor.run(lambda: lock))
    tell('unreturnable', lambda: executor.run(threading.Lock))
    tell('exits', lambda: executor.run(sys.exit, [3]))
    tell('dies', lambda: executor.run(dies))
    tell('after death', lambda: executor.run(work, [1]))
    executor.shutdown()


def failures(settings):
    executor = RayExecutor(settings, num_workers=2)
    executor.start()
    tell('work', lambda: executor.run(work, [7]))
    tell('secret', lambda: secret(executor))
    tell('again', lambda: executor.run(work, kwargs={'base': 1}))
    tell('fails', lambda: executor.run(fails))
    tell('uneven', lambda: executor.run(uneven))
    tell('after', lambda: executor.run(work, [1]))
    tell('remote fails', lambda: ray.get(executor.run_remote(fails)))
    tell('interrupted', lambda: interrupted(executor))
    tell('after interrupt', lambda: executor.run(work, [1]))
    tell('never ends', lambda: executor.run(never_ends))
    executor.shutdown()
    executor.shutdown()


def places(settings):
    executor = RayExecutor(settings, num_hosts=2, num_workers_per_host=2, use_gpu=True)
    executor.start()
    tell('hosts', lambda: executor.run(work, [0]))
    executor.shutdown()
    tell('group', lambda: in_group(2))
    tell('small group', lambda: in_group(3))
    tell('no room', RayExecutor(settings, num_hosts=3).start)
    free = ray.available_resources()
    tell('free', lambda: [free['CPU'], free['GPU']])
    found = [elastic.RayHostDiscovery(use_gpu=True, gpus_per_slot=2),
             elastic_v2.RayHostDiscovery(cpus_per_worker=2),
             elastic.TestDiscovery(1, 1, 0, cpus_per_slot=2, verbose=False)]
    tell('discovery', lambda: [one.find_available_hosts_and_slots() for one in found])
    tell('both', lambda: RayExecutor(settings, num_workers=2, num_hosts=2))
    tell('zero', lambda: RayExecutor(settings, num_workers=0))
    tell('gpus', lambda: RayExecutor(settings, num_workers=2, gpus_per_worker=1))
    tell('unknown', lambda: RayExecutor(settings, num_workers=2, shape=3))


def goes_on_and_fails(settings):
    executor = RayExecutor(settings, min_workers=2, max_workers=2, elastic_timeout=60,
                           use_gpu=True)
    executor.start(extra_env_vars={'GREETING': 'hello'})
    heard = []
    tell('goes on', lambda: executor.run(goes_on, [5], callbacks=[heard.append]))
    tell('heard', lambda: sorted(one['rank'] for one in heard))
    tell('no workers', lambda: executor.run_remote(work, [1]))
    settings.discovery = Shrinks()
    fewer = RayExecutor(settings, min_workers=1, override_discovery=False)
    tell('shrinks', lambda: fewer.run(shrinks))
    asked = elastic.ElasticRayExecutor.create_settings(min_np=2, max_num_proc=2, reset_limit=0)
    old = elastic.ElasticRayExecutor(asked)
    old.start()
    tell('reset limit', lambda: old.run(fails))
    tell('no slots', lambda: RayExecutor(settings, min_workers=1, cpus_per_worker=4,
                                         elastic_timeout=1).run(work))
    tell('lost together', lost_together)
    tell('losses', losses)
    tell('train', lambda: importlib.import_module('horovod.ray.runner').Coordinator)
    tell('strategies', lambda: strategy.PGStrategy)
    tell('no pandas', lambda: importlib.import_module('horovod.ray.train'))
    tell('sizes', lambda: RayExecutor(settings, min_workers=3, max_workers=2))
    tell('cooldown', lambda: RayExecutor(settings, min_workers=3, cooldown_range=[1, 2]))
    tell('no discovery', lambda: elastic.ElasticRayExecutor(asked, override_discovery=False))


def memory(settings):
    """For this cluster its node is always short of memory, also while workers start."""
    executor = RayExecutor(settings, num_workers=1)

    def call():
        executor.start()
        return executor.run(never_ends)
    tell('memory', call)
    executor.shutdown()
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        tell('elastic memory', lambda: RayExecutor(settings, min_workers=1, max_workers=1,
                                                   elastic_timeout=20).run(never_ends))
    tell('elastic memory said', lambda: said.getvalue().splitlines())


def losses():
    """What a job that has not begun says of workers that Ray killed."""
    fleet = object.__new__(_elastic._Fleet)
    said = []
    for fleet.killed in ([], ['node1'], ['node1', 'node2']):
        said.append(fleet.losses())
    return said


def lost_together():
    """Ranks that were lost at once: one ended, and Ray killed two for memory."""
    workers = object.__new__(runner._Workers)
    workers.dead, workers._begun = '', 0
    workers.places = [{'host': f'node{rank}', 'pid': 100 + rank} for rank in range(3)]
    killed = ray.exceptions.OutOfMemoryError('a screen of advice')
    failed = workers._failure(
        {0: ray.exceptions.RayActorError(), 2: killed, 1: killed}, [], [])
    assert failed.__cause__ is killed
    return [failed.cause, failed.same, workers.dead]


def main():
    warnings.simplefilter('ignore', FutureWarning)
    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        cluster.add_node(**NODE)
        ray.init(address=cluster.address)
        settings = RayExecutor.create_settings(timeout_s=60, placement_group_timeout_s=2)
        for jobs in (objects, failures, places, goes_on_and_fails):
            jobs(settings)
    finally:
        ray.shutdown()
        cluster.shutdown()
    os.environ.update(RAY_memory_usage_threshold='0.001', RAY_memory_monitor_refresh_ms='2000')
    cluster = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        ray.init(address=cluster.address)
        memory(settings)
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == '__main__':
    main()
