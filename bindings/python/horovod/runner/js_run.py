# SPDX-License-Identifier: Apache-2.0
"""LSF's jsrun, which Reigen does not use."""
import shutil
from typing import Any, Optional

_REFUSED = ('LSF\'s jsrun is not among what Reigen starts ranks with; name the hosts with -H or '
            '--hostfile, or call gloo_run.')


def is_jsrun_installed() -> bool:
    return shutil.which('jsrun') is not None


def js_run(settings: Any, nics: Any, env: Any, command: Any, stdout: Any = None,
           stderr: Any = None) -> None:
    """Refused with a RuntimeError."""
    raise RuntimeError(_REFUSED)


def generate_jsrun_rankfile(settings: Any, path: Optional[str] = None) -> str:
    """Refused with a RuntimeError."""
    raise RuntimeError(_REFUSED)
