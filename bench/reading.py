# SPDX-License-Identifier: Apache-2.0
"""How fast the estimators' reader is, beside pyarrow's own scanner, by turns: rows a second of 50
columns of Parquet, in one process.

usage: bench/reading.py [ROUNDS]    in a Python that has pyarrow, such as build/envs/spark's

It prints JSON: by each way of reading its rows a second, round by round.
"""
import json
import os
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
from pyarrow import dataset as arrow
from pyarrow import parquet

from horovod.spark.common.reading import Reader, describe
from horovod.spark.common.store import Store

FILES, ROWS, BATCH = 8, 100000, 1024
COLUMNS = [f'c{number}' for number in range(50)]


def write(folder):
    rng = np.random.default_rng(0)
    os.makedirs(folder)
    for number in range(FILES):
        table = pa.table({name: rng.standard_normal(ROWS) for name in COLUMNS})
        parquet.write_table(table, f'{folder}/part-{number}.parquet', row_group_size=ROWS // 2)


def scan(folder):
    return sum(batch.num_rows for batch in arrow.dataset(folder).to_batches(columns=COLUMNS))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tempfile.TemporaryDirectory() as top:
        store = Store.create(top)
        path = store.get_train_data_path()
        folder = store.get_localized_path(path)
        write(folder)
        data = describe(store, path, COLUMNS)

        def read(shuffle):
            reader = Reader(store.fs, data, 0, 1, BATCH, shuffle=shuffle)
            return sum(len(batch['c0']) for batch in reader.epoch(0))
        ways = {'scanner': lambda: scan(folder), 'in order': lambda: read(False),
                'shuffled': lambda: read(True)}
        found = {name: [] for name in ways}
        for turn in range(rounds + 1):
            for name, way in ways.items():
                begun = time.perf_counter()
                assert way() == FILES * ROWS
                if turn:
                    found[name].append(FILES * ROWS / (time.perf_counter() - begun))
    print(json.dumps(found))


if __name__ == '__main__':
    main()
