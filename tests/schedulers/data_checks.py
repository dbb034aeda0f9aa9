# SPDX-License-Identifier: Apache-2.0
"""Checks of how estimators read Parquet, without Spark: checks.py calls them."""
import collections
import itertools
import os
import threading

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from store_checks import raised

from horovod.spark.common.reading import Reader, describe
from horovod.spark.common.store import Store

PATH = 'intermediate_train_data'


def written(folder, *tables, group=None):
    """The store, and its path to a file of each table."""
    (folder / PATH).mkdir(exist_ok=True)
    for number, table in enumerate(tables):
        parquet.write_table(table, folder / PATH / f'part-{number}.parquet', row_group_size=group)
    (folder / PATH / '_SUCCESS').write_text('')
    store = Store.create(str(folder))
    return store, store.get_train_data_path()


def numbers(*counts):
    """Tables of so many rows, that are numbered through."""
    ends = np.cumsum(counts)
    return [pa.table({'x': np.arange(end - count, end)}) for end, count in zip(ends, counts)]


def readers(store, path, size, batch, **options):
    data = describe(store, path, ['x'])
    return [Reader(store.fs, data, rank, size, batch, **options) for rank in range(size)]


def read(reader, epoch=0):
    return [batch['x'].tolist() for batch in reader.epoch(epoch)]


def check_ranks_take_equal_steps_of_uneven_files(folder):
    """Also an empty one, and with more ranks than row groups, and than rows."""
    store, path = written(folder, *numbers(1, 0, 30, 7), group=10)
    for size in (1, 2, 3, 7, 50):
        for shuffle in (False, True):
            ours = readers(store, path, size, 4, shuffle=shuffle)
            done = [read(reader, 1) for reader in ours]
            rows = -(-38 // size)
            for reader, batches in zip(ours, done):
                sizes = {38: [4] * 9 + [2], 19: [4] * 4 + [3], 13: [4, 4, 5], 6: [4, 2], 1: [1]}
                assert [len(batch) for batch in batches] == sizes[rows]  # none of one row behind
                assert len(batches) == reader.steps
            seen = collections.Counter(sum((sum(batches, []) for batches in done), []))
            assert set(seen) == set(range(38)) and max(seen.values()) <= max(2, -(-size // 38))


def check_each_row_is_once_where_steps_may_differ(folder):
    store, path = written(folder, *numbers(5, 9, 2), group=3)
    for size in (1, 3, 20):
        done = [read(reader) for reader in readers(store, path, size, 2, fill=False)]
        assert sum((sum(batches, []) for batches in done), []) == list(range(16))


def check_rows_are_mixed_anew_in_each_epoch_and_equally_again(folder):
    store, path = written(folder, *numbers(300, 300), group=50)
    for options in ({'block_rows': 64}, {'block_rows': 1000}, {'cache': True}, {'ahead': False}):
        reader, again = readers(store, path, 2, 8, shuffle=True, seed=3, **options)[:1] * 2
        first, second = [sum(read(reader, epoch), []) for epoch in (0, 1)]
        assert first != sorted(first) and first != second
        assert sum(read(again), []) == first and len(set(first)) == 300
        assert (set(first) == set(second)) == options.get('cache', False), options
    plain = readers(store, path, 2, 8, shuffle=True, block_rows=0)[0]
    assert sum(read(plain), []) == list(range(300))


def check_rows_that_are_kept_stay_as_they_are(folder):
    """Blocks are made in memory of earlier ones, of which nothing is held."""
    store, path = written(folder, *numbers(300, 300), group=50)
    reader = readers(store, path, 1, 8, shuffle=True, block_rows=64)[0]
    seen = [(batch['x'][:1], batch['x'].tolist()[:1]) for epoch in (0, 1)
            for number, batch in enumerate(reader.epoch(epoch)) if number % 20 < 3]
    assert len(seen) > 20 and all(kept.tolist() == was for kept, was in seen)


def check_so_many_steps_as_are_asked_for(folder):
    store, path = written(folder, *numbers(10))
    epochs = readers(store, path, 1, 4)[0].batches(5)
    assert [len(batch['x']) for batch in next(epochs)] == [4, 4, 2, 4, 4]
    assert [batch['x'][0] for batch in next(epochs)] == [8, 0, 4, 8, 0]


def check_ends_of_files_are_read_at_once(folder):
    store, path = written(folder, *numbers(1, 2, 3, 4))
    together, plain, calls = threading.Barrier(4), parquet.ParquetFile, itertools.count()

    def opened(name, **options):
        if next(calls) < 4:
            together.wait(60)  # raises unless all come
        return plain(name, **options)
    parquet.ParquetFile = opened
    try:
        assert describe(store, path, ['x']).rows == 10
    finally:
        parquet.ParquetFile = plain


def check_all_kinds_of_columns(folder):
    vector = pa.struct([('type', pa.int8()), ('size', pa.int32()),
                        ('indices', pa.list_(pa.int32())), ('values', pa.list_(pa.float64()))])
    dense = {'type': 1, 'size': None, 'indices': None, 'values': [1., 2., 3.]}
    sparse = {'type': 0, 'size': 3, 'indices': [2], 'values': [9.]}
    import decimal
    table = pa.table({
        'b': pa.array([True, False, True]), 'f': pa.array([1, 2, 3], pa.float32()),
        'd': pa.array([decimal.Decimal('1.5')] * 3), 'text': ['a', 'b', 'c'],
        'list': pa.array([[1., 2.], [3., 4.], [5., 6.]], pa.list_(pa.float32())),
        'nested': pa.array([[[1], [2]], [[3], [4]], [[5], [6]]], pa.list_(pa.list_(pa.int64()))),
        'vector': pa.array([dense] * 3, vector), 'mixed': pa.array([sparse, dense, sparse], vector),
        'image': [b'ab', b'cd', b'ef'], 'jpeg': [b'a', b'bcd', b'ef']})
    store, path = written(folder, table)
    data = describe(store, path, table.column_names)
    batches = list(Reader(store.fs, data, 0, 1, 2).epoch(0))
    found = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    assert found['b'].tolist() == [True, False, True] and found['f'].dtype == np.float32
    assert found['d'].tolist() == [1.5] * 3 and found['text'].tolist() == ['a', 'b', 'c']
    assert found['list'].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert found['nested'].shape == (3, 2, 1) and found['nested'][2].tolist() == [[5], [6]]
    assert found['vector'].tolist() == [[1, 2, 3]] * 3
    assert found['mixed'].tolist() == [[0, 0, 9], [1, 2, 3], [0, 0, 9]]
    assert found['image'].tolist() == [[97, 98], [99, 100], [101, 102]]
    assert found['jpeg'].tolist() == [b'a', b'bcd', b'ef']


def check_what_cannot_be_read_is_named(folder):
    store, path = written(folder, pa.table({
        'x': pa.array([1, None, 3]), 'when': pa.array([1, 2, 3], pa.timestamp('ms')),
        'ragged': pa.array([[1.], [2., 3.], [4.]]), 'gap': pa.array([[1.], [None], [2.]])}))

    def reading(name, **options):
        data = describe(store, path, [name])
        list(Reader(store.fs, data, 0, 1, 2, **options).epoch(0))
    raised(TypeError, lambda: reading('when'), "column 'when' is timestamp[ms]: estimators take")
    raised(ValueError, lambda: reading('x'), "column 'x' has nulls: fill them (df.na.fill)")
    raised(ValueError, lambda: reading('gap', ahead=False), "column 'gap' has arrays with nulls")
    raised(ValueError, lambda: reading('ragged', cache=True),
           "column 'ragged' has a row of 2 elements, and the first row is of shape (1,)")
    raised(ValueError, lambda: reading('none'), "has no column 'none'; it has x, when")
    raised(ValueError, lambda: describe(store, store.get_val_data_path(), ['x']), 'no rows in')
    raised(ValueError, lambda: readers(store, path, 1, 0), 'a batch of 0 rows')


def check_a_transformation_sees_frames_and_nulls(folder):
    store, path = written(folder, pa.table({'x': pa.array([1, None, 3]), 'v': [[1, 2]] * 3}))

    def twice(frame):
        frame['x'] = frame['x'].fillna(0) * 2
        frame['v'] = frame['v'].map(lambda value: value + 1)
        return frame
    data = describe(store, path, ['x', 'v'])
    batch, = Reader(store.fs, data, 0, 1, 3, transform=twice).epoch(0)
    assert batch['x'].tolist() == [2, 0, 6] and batch['v'].tolist() == [[2, 3]] * 3
    raised(ValueError, lambda: list(Reader(store.fs, data, 0, 1, 3, transform=lambda frame:
                                           frame[:1]).epoch(0)), 'made 1 rows of 3')
    raised(ValueError, lambda: list(Reader(store.fs, data, 0, 1, 3, transform=lambda frame:
                                           frame[['x']]).epoch(0)), "returned no column 'v'")


def check_images_of_other_sizes_to_validate_with(folder):
    """The first bytes of train and of validation need not have one length."""
    from horovod.spark.common import preparing
    store = Store.create(str(folder))
    for path, images in [(store.get_train_data_path(), [b'ab', b'c']),
                         (store.get_val_data_path(), [b'abc'])]:
        os.mkdir(store.get_localized_path(path))
        parquet.write_table(pa.table({'image': images, 'x': [1.] * len(images)}),
                            store.get_localized_path(path) + '/0.parquet')
    assert preparing.find(store, None, ['image', 'x'], True).val.rows == 1
    parquet.write_table(pa.table({'image': [b'a'], 'x': [1]}),
                        store.get_localized_path(path) + '/0.parquet')
    raised(ValueError, lambda: preparing.find(store, None, ['image', 'x'], True),
           'the rows to validate with have columns')


def check_memory_holds_blocks_whatever_the_data_and_no_thread_stays(folder):
    rng = np.random.default_rng(0)
    for number in range(60):
        parquet.write_table(pa.table({f'c{i}': rng.random(20000) for i in range(10)}),
                            folder / f'{number}.parquet')
    store = Store.create('/', train_path=str(folder))
    data = describe(store, store.get_train_data_path(), [f'c{i}' for i in range(10)])
    total, most = 60 * 20000 * 80, 0
    for batch in Reader(store.fs, data, 0, 1, 500, shuffle=True, block_rows=5000).epoch(0):
        assert batch['c9'].base.nbytes == 10 * 5000 * 8  # of all columns
        most = max(most, pa.total_allocated_bytes())
    assert 0 < most < total / 10, (most, total)
    for shuffle in (False, True):
        epoch = Reader(store.fs, data, 0, 1, 500, shuffle=shuffle, block_rows=5000).epoch(0)
        next(epoch)
        epoch.close()
    assert not [one for one in threading.enumerate() if one.name == 'reigen-reader']
