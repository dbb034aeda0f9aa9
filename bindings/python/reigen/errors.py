# SPDX-License-Identifier: Apache-2.0
"""What operations raise.

The first class carries Horovod's name, because scripts catch it and tracebacks show it.
"""


class HorovodInternalError(RuntimeError):
    """An operation failed: a mismatch between the ranks, a rank that died, a shutdown.

    `errno` holds the positive number behind it (see include/reigen/reigen.h), for programs:
    ECONNRESET when another rank died, ECANCELED after a shutdown, EINVAL for a mismatch.
    """

    def __init__(self, text: object = '', errno: int = 0):
        super().__init__(text)
        self.errno = errno


class InvalidOperationError(HorovodInternalError, ValueError):
    """The submission itself was refused on this rank; nothing was sent. The job can go on.

    Both a ValueError and a HorovodInternalError, as scripts written for either exist.
    """


class HostsUpdatedInterrupt(RuntimeError):
    """The set of hosts has changed (elastic jobs). skip_sync: no state needs to be sent again."""

    def __init__(self, skip_sync: bool = False):
        super().__init__()
        self.skip_sync = skip_sync


class Preempted(SystemExit):
    """The job was told to stop, and all ranks have saved their work at the same commit. A process
    that does not catch it ends with 75, by which the launcher knows that."""

    def __init__(self):
        super().__init__(75)


#: The same class under Reigen's own name.
OperationError = HorovodInternalError
