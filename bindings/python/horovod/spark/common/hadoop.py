# SPDX-License-Identifier: Apache-2.0
"""Spark writes a store's data by Hadoop, which has names of its own for paths and settings: it
knows nothing of what pyarrow and fsspec have been told."""
from typing import Any, Dict, Mapping

from horovod.spark.common.store import S3, scheme_of

_ANONYMOUS = 'org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider'
#: Settings that belong together, behind those that decide: of two users' keys none would be right.
_GROUPS = {('access.key', 'aws.credentials.provider'): ('secret.key', 'session.token'),
           ('endpoint',): ('endpoint.region', 'path.style.access')}


def path_of(df: Any, path: str) -> str:
    """That path as Spark's Hadoop names it, to which S3 is s3a, but for Amazon's own Hadoop."""
    scheme = scheme_of(path)
    other = {'s3': 's3a', 's3n': 's3a', 'gcs': 'gs'}.get(scheme)
    if other is None:
        return path
    session = df.sparkSession
    try:
        session._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(
            scheme, session._jsc.hadoopConfiguration())
    except Exception:  # it knows no such scheme
        return other + path[len(scheme):]
    return path


def _of_s3(given: Mapping[str, Any]) -> Dict[str, str]:
    """What s3fs takes, by Hadoop's names behind fs.s3a."""
    client = given.get('client_kwargs') or {}
    key = given.get('key') or client.get('aws_access_key_id')
    endpoint = given.get('endpoint_url') or client.get('endpoint_url')
    elsewhere = endpoint and '.amazonaws.' not in endpoint
    found = {
        'access.key': key,
        'secret.key': given.get('secret') or client.get('aws_secret_access_key'),
        # An empty one hides that of the environment, which is another key's.
        'session.token': given.get('token') or client.get('aws_session_token') or (key and ''),
        'aws.credentials.provider': _ANONYMOUS if given.get('anon') else None,
        'endpoint': endpoint,
        'endpoint.region': client.get('region_name') or ('us-east-1' if elsewhere else None),
        # Buckets are no hosts' names but at Amazon's.
        'path.style.access': 'true' if elsewhere else None}
    return {name: value for name, value in found.items() if value is not None}


def _is_told(settings: Any, name: str) -> bool:
    """Whether Spark's user has set it; Spark itself takes some from variables of Amazon's."""
    sources = settings.getPropertySources(name)
    last = list(sources)[-1] if sources else 'core-default.xml'
    return last != 'core-default.xml' and ' from AWS_' not in last


def options_of(df: Any, store: Any, path: str) -> Dict[str, str]:
    """Options for Spark to write there, as the store's storage_options say. Settings that Spark has
    been given are kept. Spark's logs do not show the keys."""
    wanted = _of_s3(store.storage_options) if scheme_of(path) in S3 else {}
    if not wanted:
        return {}
    settings = df.sparkSession._jsparkSession.sessionState().newHadoopConf()
    bucket = path.split('://', 1)[1].partition('/')[0]

    def told(name: str) -> bool:
        return any(_is_told(settings, f'fs.s3a.{where}{name}')
                   for where in ('', f'bucket.{bucket}.'))
    return {f'fs.s3a.{name}': wanted[name] for first, more in _GROUPS.items()
            if not any(map(told, first)) for name in (*first, *more)
            if name in wanted and not told(name)}
