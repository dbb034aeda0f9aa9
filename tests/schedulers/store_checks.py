# SPDX-License-Identifier: Apache-2.0
"""Checks of the stores of horovod.spark, without Spark: checks.py calls them."""
import os
import pickle
import threading
import unittest.mock

import pyarrow
from pyarrow import parquet

from horovod.runner.common.util import codec
from horovod.spark.common import hadoop
from horovod.spark.common.backend import Backend, LocalBackend
from horovod.spark.common.reading import Reader, describe
from horovod.spark.common.store import (DBFSLocalStore, FilesystemStore, HDFSStore, LocalStore,
                                        Store)


def raised(error, function, *words):
    """Its text, which has these words."""
    try:
        function()
    except error as found:
        for word in words:
            assert word in str(found), found
        return
    raise AssertionError(f'no {error.__name__}')


def check_a_path_has_its_store(folder):
    os.chdir(folder)
    for path, kind, full, local in [
            ('/a/b', LocalStore, 'file:///a/b', '/a/b'),
            ('file:///a', LocalStore, 'file:///a', '/a'),
            ('hdfs://node:8020/x', HDFSStore, 'hdfs://node:8020/x', '/x'),
            ('hdfs:///x', HDFSStore, 'hdfs:///x', '/x'),
            ('s3://bucket/x', FilesystemStore, 's3://bucket/x', 'bucket/x'),
            ('gs://bucket/a b%20/', FilesystemStore, 'gs://bucket/a b%20', 'bucket/a b%20'),
            ('/a b/', LocalStore, 'file:///a b', '/a b'),
            ('abfs://c@a.dfs.core.windows.net/x', FilesystemStore,
             'abfs://c@a.dfs.core.windows.net/x', 'c/x'),
            ('dbfs:/x', DBFSLocalStore, 'file:///dbfs/x', '/dbfs/x'),
            ('/dbfs/x', DBFSLocalStore, 'file:///dbfs/x', '/dbfs/x'),
            ('file:/dbfs/x', DBFSLocalStore, 'file:///dbfs/x', '/dbfs/x'),
            ('here', LocalStore, f'file://{folder}/here', f'{folder}/here')]:
        store = Store.create(path)
        assert type(store) is kind, path
        assert store.get_train_data_path() == f'{full}/intermediate_train_data'
        assert store.get_val_data_path(3) == f'{full}/intermediate_val_data.3'
        assert store.get_checkpoint_path('r') == f'{full}/runs/r/checkpoint.h5'
        assert store.get_logs_path('r') == f'{full}/runs/r/logs'
        assert store.get_localized_path(store.get_run_path('r')) == f'{local}/runs/r'
    assert Store.create('gs://bucket/a b').fs.type_name == 'gcs'  # connects when it is used


def check_what_is_written_is_read_by_who_gets_the_store(folder):
    store = Store.create(str(folder), checkpoint_filename='state.pt', val_path=f'{folder}/val')
    assert store.get_val_data_path() == f'file://{folder}/val'
    for data in (b'first', b'second'):
        store.write(store.get_checkpoint_path('r'), data)
    there = pickle.loads(pickle.dumps(store))
    assert there.read(f'file://{folder}/runs/r/state.pt') == b'second'
    model = there.read_serialized_keras_model(f'{folder}/runs/r/state.pt', None, {})
    assert codec.loads_base64(model) == b'second'
    assert there.exists(folder.as_uri()) and not there.exists(f'{folder}/nothing')
    with there.get_local_output_dir_fn('r')() as output:
        with open(f'{output}/a.ckpt', 'w', encoding='ascii'):
            pass
    assert store.get_checkpoints('r') == [f'{folder}/runs/r/a.ckpt']
    assert sorted(os.listdir(folder / 'runs/r')) == ['a.ckpt', 'state.pt']
    remote = store.to_remote('r', 5)
    assert remote.train_data_path.endswith('intermediate_train_data.5') and remote.saving_runs
    assert Store.create(str(folder), save_runs=False).get_checkpoint_path('r') is None


def check_a_file_system_of_fsspec_is_a_store(_):
    """Of which a path without its scheme is not what the rest of the URL is."""
    store = Store.create('memory://bucket/all', storage_options={})
    data = store.get_train_data_path(1)
    assert store.get_localized_path(data) == '/bucket/all/intermediate_train_data.1'
    store.check_writable()
    with store.fs.open_output_stream(f'{store.get_localized_path(data)}/part-0.parquet') as stream:
        parquet.write_table(pyarrow.table({'x': [1., 2., 3.]}), stream)
    assert store.is_parquet_dataset(data) and store.get_parquet_dataset(data).read().num_rows == 3
    reader = Reader(store.fs, describe(store, data, ['x']), 0, 1, 2, shuffle=True)
    assert sorted(x for batch in reader.epoch(0) for x in batch['x']) == [1, 2, 3]
    for state in (b'first', b'second'):
        store.write(store.get_checkpoint_path('r'), state)
        assert pickle.loads(pickle.dumps(store)).read(store.get_checkpoint_path('r')) == state
    with store.get_local_output_dir_fn('r')() as folder:
        sync = store.sync_fn('r')
        for text in ('1', '22'):
            os.makedirs(f'{folder}/a b', exist_ok=True)
            with open(f'{folder}/a b/c.ckpt', 'w', encoding='ascii') as stream:
                stream.write(text)
            sync(folder)
    assert store.read(f'{store.get_run_path("r")}/a b/c.ckpt') == b'22'
    assert store.get_checkpoints('r') == ['/bucket/all/runs/r/a b/c.ckpt']
    for _ in range(2):
        store.remove(data)
        assert not store.exists(data) and not store.is_parquet_dataset(data)


def check_spark_knows_s3_by_another_name(_):
    def path(scheme, known=()):
        def find(name, _):
            if name not in known:
                raise RuntimeError('No FileSystem for scheme')
        df = unittest.mock.Mock()
        df.sparkSession._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass = find
        return hadoop.path_of(df, f'{scheme}://b/x')
    assert path('s3') == path('s3n') == path('s3a') == 's3a://b/x'
    assert path('s3', ['s3']) == 's3://b/x' and path('gcs') == path('gs') == 'gs://b/x'
    assert path('abfss') == 'abfss://b/x'


def check_spark_is_told_what_the_store_is(_):
    """By s3fs's names and by those of its clients, unless Spark has been told itself."""
    def told(options, path='s3://b/x', **known):
        known = {name.replace('_', '.'): where for name, where in known.items()}
        df = unittest.mock.Mock()
        df.sparkSession._jsparkSession.sessionState().newHadoopConf().getPropertySources = \
            lambda name: known.get(name[len('fs.s3a.'):])
        found = hadoop.options_of(df, Store.create(path, storage_options=options), path)
        return {name[len('fs.s3a.'):]: value for name, value in found.items()}
    where = {'endpoint': 'http://h:1', 'endpoint.region': 'us-east-1', 'path.style.access': 'true'}
    who = {'access.key': 'k', 'secret.key': 's', 'session.token': ''}
    given = {'key': 'k', 'secret': 's', 'endpoint_url': 'http://h:1'}
    assert told(given) == told(given, 's3a://b/x') == {**who, **where}
    assert told({'client_kwargs': {'aws_access_key_id': 'k', 'aws_secret_access_key': 's',
                                   'endpoint_url': 'http://h:1'}}) == {**who, **where}
    assert told({**given, 'token': 't'})['session.token'] == 't'
    assert told({'anon': True})['aws.credentials.provider'].endswith('.s3a.AnonymousAWS'
                                                                     'CredentialsProvider')
    assert told({'endpoint_url': 'https://s3.eu-west-1.amazonaws.com'}) == {
        'endpoint': 'https://s3.eu-west-1.amazonaws.com'}
    user = ["Set by Spark from keys starting with 'spark.hadoop'"]
    assert told(given, access_key=user) == where and told(given, endpoint=user) == who
    assert told(given, endpoint_region=user) == {
        **who, 'endpoint': 'http://h:1', 'path.style.access': 'true'}
    assert told(given, bucket_b_endpoint=user) == who
    # Neither Hadoop's defaults nor variables of Amazon's say what the store is.
    assert told(given, aws_credentials_provider=['core-default.xml'], session_token=[
        'Set by Spark on h from AWS_SESSION_TOKEN']) == {**who, **where}
    assert told({}) == {} and told(given, 'memory://x') == {}


def check_what_others_write_into_a_store_is_seen(_):
    """fsspec's file systems may remember what they have listed."""
    with unittest.mock.patch('fsspec.filesystem') as made:
        unittest.mock.seal(made)
        for options, used in [({}, False), ({'use_listings_cache': True}, True)]:
            raised(Exception, lambda: Store.create('s3://b/x', storage_options={
                'anon': True, **options})._connect())
            assert made.call_args[1] == {'anon': True, 'use_listings_cache': used}


def check_no_bucket_is_made(_):
    for path, folders in [('s3://b/x', []), ('s3a://b/x', []), ('memory://b/x', ['/b/x'])]:
        store = Store.create(path, storage_options={'anon': True})
        store._connected = unittest.mock.MagicMock()
        store.write(f'{path}/name', b'')
        assert [call[0][0] for call in store.fs.create_dir.call_args_list] == folders


def check_errors_of_other_packages_name_the_store(_):
    class Unreachable(Exception):
        pass
    store = Store.create('s3://b/x', storage_options={'anon': True})
    store._connected = unittest.mock.Mock()
    store.fs.open_input_stream.side_effect = Unreachable('http://h:1')
    raised(OSError, lambda: store.read('s3://b/x/y'), 'cannot read s3://b/x/y: Unreachable: http://'
           'h:1', 'storage_options are right')


def check_a_full_store_says_so_and_keeps_what_it_has(folder):
    store = Store.create(str(folder))
    store.write(store.get_checkpoint_path('r'), b'first')
    os.symlink('/dev/full', f'{folder}/runs/r/checkpoint.h5.part-full')
    with unittest.mock.patch('horovod.spark.common.store._own', lambda: 'full'):
        raised(OSError, lambda: store.write(store.get_checkpoint_path('r'), b'x' * 10000),
               'cannot write', 'checkpoint.h5', 'No space left', 'The store is full: make room')
    assert store.read(store.get_checkpoint_path('r')) == b'first'
    store.check_writable()
    assert os.listdir(folder / 'runs') == ['r']


def check_threads_write_into_one_store_at_once(folder):
    store, failed = Store.create(str(folder)), []
    begin = threading.Barrier(4)

    def work():
        begin.wait()
        try:
            for _ in range(50):
                store.check_writable()
                store.write_text(f'{folder}/one', 'x')
        except OSError as error:
            failed.append(error)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]
    assert sorted(os.listdir(folder)) == ['one', 'runs'] and not os.listdir(folder / 'runs')


def check_a_store_that_cannot_be_is_named(folder):
    (folder / 'file').write_text('')
    raised(OSError, Store.create(f'{folder}/file').check_writable, 'cannot write', f'{folder}/file')
    raised(FileNotFoundError, lambda: Store.create(str(folder)).read(f'{folder}/none'),
           'cannot read', 'none')
    raised(ImportError, Store.create('unknown://x/y').check_writable,
           'unknown://x/y: pyarrow has no file system for unknown://', 'fsspec')
    raised(TypeError, lambda: Store.create('/x', colour=1), 'LocalStore has no colour')
    raised(ValueError, lambda: Store.create('hdfs:///x', driver='libhdfs3'), 'libhdfs alone')


def check_a_backend_of_this_computer(folder):
    assert issubclass(LocalBackend, Backend) and LocalBackend(3).num_processes() == 3
