# SPDX-License-Identifier: Apache-2.0
"""Horovod's exceptions."""
from reigen.errors import HorovodInternalError, HostsUpdatedInterrupt, Preempted

__all__ = ['HorovodInternalError', 'HorovodVersionMismatchError', 'HostsUpdatedInterrupt',
           'Preempted', 'get_version_mismatch_message']


def get_version_mismatch_message(name: str, version: str, installed_version: str) -> str:
    return (f'{name} {version} was used when Horovod was built, but {installed_version} is '
            'installed now.')


class HorovodVersionMismatchError(ImportError):
    """A framework differs from the one that Horovod was compiled for. Reigen compiles against none
    and never raises it; scripts that catch it find it here."""

    def __init__(self, name: str, version: str, installed_version: str):
        super().__init__(get_version_mismatch_message(name, version, installed_version))
        self.name = name
        self.version = version
        self.installed_version = installed_version
