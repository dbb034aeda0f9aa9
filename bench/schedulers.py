# SPDX-License-Identifier: Apache-2.0
"""What it takes until Spark's tasks and Ray's workers are ranks, beside the same without ranks, by
turns: milliseconds from the call to the results of an empty function.

usage: bench/schedulers.py spark|ray [ROUNDS]    in a Python that has it, such as build/envs/ray's

The bare ones are a barrier stage of as many tasks in the same warm session, and as many actors that
are created, called once and ended. Each begins when Ray has all of its CPUs back, as it looks ever
more seldom whether there is room for a placement group, while actors get what comes at once.
"""
import os
import statistics
import sys
import time

SIZE, ROUNDS = 4, 15


def nothing():
    return None


def spark_ways():
    """({name: what is called once}, what is called before, what ends the session)"""
    from pyspark.sql import SparkSession

    import horovod.spark
    session = SparkSession.builder.master(f'local[{SIZE}]').config('spark.ui.enabled', 'false') \
        .getOrCreate()
    context = session.sparkContext
    context.setLogLevel('ERROR')

    def bare():
        # Without a barrier() of Spark's in it, which waits a second between two looks.
        context.parallelize(range(SIZE), SIZE).barrier().mapPartitions(list).collect()

    def ours():
        horovod.spark.run(nothing, num_proc=SIZE, verbose=0)
    return {'a barrier stage': bare, 'horovod.spark.run': ours}, lambda: None, session.stop


def ray_ways():
    import ray

    from horovod.ray import RayExecutor
    ray.init(num_cpus=SIZE, include_dashboard=False, log_to_driver=False)

    class Bare:
        def call(self):
            return None

    def bare():
        actors = [ray.remote(Bare).options(num_cpus=1).remote() for _ in range(SIZE)]
        ray.get([actor.call.remote() for actor in actors])
        for actor in actors:
            ray.kill(actor)

    def ours():
        executor = RayExecutor(num_workers=SIZE)
        executor.start()
        executor.run(nothing)
        executor.shutdown()

    def room():
        while ray.available_resources().get('CPU') != SIZE:
            time.sleep(0.05)
    return {'bare actors': bare, 'RayExecutor': ours}, room, ray.shutdown


def measure(ways, before, rounds):
    """By name, the milliseconds of each round; a first one is not counted."""
    found = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            before()
            begun = time.perf_counter()
            way()
            if number:
                found[name].append(1000 * (time.perf_counter() - begun))
    return found


def main():
    kind = {'spark': spark_ways, 'ray': ray_ways}[sys.argv[1]]
    os.environ.update(RAY_USAGE_STATS_ENABLED='0', PYSPARK_PYTHON=sys.executable)
    ways, before, end = kind()
    try:
        found = measure(ways, before, int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS)
    finally:
        end()
    base = statistics.median(next(iter(found.values())))
    for name, times in found.items():
        middle, ratio = statistics.median(times), statistics.median(times) / base
        print(f'{name:18} {middle:7.1f} ms, {min(times):.1f} to {max(times):.1f}; '
              f'{ratio:.2f} times the bare ones')


if __name__ == '__main__':
    main()
