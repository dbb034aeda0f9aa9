# SPDX-License-Identifier: Apache-2.0
"""Running a shell command for what it prints."""
import io
import sys
import traceback
from typing import Any, Dict, Optional, Tuple

from horovod.runner.common.util import safe_shell_exec


def execute(command: Any, env: Optional[Dict[str, str]] = None) -> Optional[Tuple[str, int]]:
    """(what the command printed, its exit code); None where it could not be started."""
    printed = io.StringIO()
    try:
        code = safe_shell_exec.execute(command, env=env, stdout=printed, stderr=printed)
    except Exception:
        traceback.print_exc(file=sys.stderr)
        return None
    return printed.getvalue(), code
