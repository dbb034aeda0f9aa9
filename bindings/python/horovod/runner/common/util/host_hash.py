# SPDX-License-Identifier: Apache-2.0
"""A name for the host that processes in different containers of it do not share."""
import hashlib
import os
import socket
from typing import Optional

NAMESPACE_PATH = '/proc/self/ns'


def _namespaces() -> str:
    try:
        names = sorted(os.listdir(NAMESPACE_PATH))
        return ' '.join(os.readlink(os.path.join(NAMESPACE_PATH, n)) for n in names)
    except OSError:
        return ''


def host_hash(salt: Optional[str] = None) -> str:
    """The host name's first part and a digest of host, namespaces and salt."""
    name = socket.gethostname()
    text = '-'.join([name, _namespaces(), salt or ''])
    return f'{name.split(".")[0]}-{hashlib.md5(text.encode()).hexdigest()}'
