# SPDX-License-Identifier: Apache-2.0
"""What one hvd.allreduce costs in TensorFlow, eagerly and in a function: microseconds, by wall
clock and by CPU time of rank 0, as the median and the best of some rounds, and without the
operation.

    PYTHONPATH=bindings/python .venv/bin/reigen run -np 2 -- $(tools/frameworks.sh tf) \
        bench/tf_overhead.py [OUT]

With OUT, rank 0 also writes the wall clock's figures there, a line of JSON each.
"""
import json
import statistics
import sys
import time
from typing import Callable, List

import tensorflow as tf

import horovod.tensorflow as hvd

ROUNDS = 15
SECONDS = 0.1  # of a round


def measure(function: Callable[[], object], calls: int) -> List[float]:
    """Median and best by wall clock, then by CPU time, in microseconds, of one function, called
    `calls` times a round on every rank."""
    wall, cpu = [], []
    for _ in range(ROUNDS):
        started, used = time.perf_counter(), time.process_time()
        for _ in range(calls):
            function()
        wall.append((time.perf_counter() - started) / calls * 1e6)
        cpu.append((time.process_time() - used) / calls * 1e6)
    return [statistics.median(wall), min(wall), statistics.median(cpu), min(cpu)]


def calls_for(function: Callable[[], object]) -> int:
    """How often a round calls it; the same on all ranks."""
    for _ in range(20):
        function()
    started = time.perf_counter()
    for _ in range(20):
        function()
    cost = tf.constant([(time.perf_counter() - started) / 20])
    return max(5, int(SECONDS / float(hvd.allreduce(cost, op=hvd.Max, name='cost')[0])))


def main() -> None:
    hvd.init()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    reduced = tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))
    plain = tf.function(lambda x: x + 1)
    many = tf.function(lambda x: [hvd.allreduce(x + i, op=hvd.Sum) for i in range(32)])
    many_plain = tf.function(lambda x: [x + i for i in range(32)])
    rows = []
    if hvd.rank() == 0:
        print(f'{"us, " + str(hvd.size()) + " ranks":<40} {"median":>9} {"best":>9} {"CPU":>9} '
              f'{"best":>9}')
    for size, text in ((1, '4 B'), (1 << 18, '1 MiB')):
        x = tf.ones([size])
        for name, function in (
                ('eager, tf.identity', lambda x=x: tf.identity(x)),
                ('eager, hvd.allreduce', lambda x=x: hvd.allreduce(x, op=hvd.Sum)),
                ('function, x + 1', lambda x=x: plain(x)),
                ('function, hvd.allreduce', lambda x=x: reduced(x)),
                ('function, 32 times x + 1', lambda x=x: many_plain(x)),
                ('function, 32 times hvd.allreduce', lambda x=x: many(x))):
            row = measure(function, calls_for(function))
            rows.append({'series': 'tensorflow', 'pattern': f'{text}, {name}',
                         'median_us': row[0], 'p10_us': row[1]})
            if hvd.rank() == 0:
                print(f'{text:>6} {name:<33} ' + ' '.join(f'{us:9.1f}' for us in row), flush=True)
    if hvd.rank() == 0 and len(sys.argv) > 1:
        with open(sys.argv[1], 'w', encoding='utf-8') as out:
            out.writelines(json.dumps(row) + '\n' for row in rows)


if __name__ == '__main__':
    main()
