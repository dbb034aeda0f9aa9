# SPDX-License-Identifier: Apache-2.0
"""Command lines that run a shell command on another host."""
import shlex
from typing import Any, List, Optional

SSH_COMMAND_PREFIX = 'ssh -o PasswordAuthentication=no'


def get_ssh_command(local_command: str, host: str, port: Optional[int] = None,
                    identity_file: Optional[str] = None, timeout_s: Optional[int] = None) -> str:
    """ssh's command line. Unlike Horovod's it does check the host's key."""
    words: List[str] = [SSH_COMMAND_PREFIX]
    for flag, value in (('-p ', port), ('-i ', identity_file), ('-o ConnectTimeout=', timeout_s)):
        if value is not None:
            words.append(flag + shlex.quote(str(value)))
    return ' '.join([*words, shlex.quote(host), local_command])


def get_remote_command(local_command: str, host: str, port: Optional[int] = None,
                       identity_file: Optional[str] = None, timeout_s: Any = None) -> str:
    """As get_ssh_command(); inside a job of Reigen's ssh is the job's own, and needs no keys."""
    return get_ssh_command(local_command, host, port, identity_file, timeout_s)
