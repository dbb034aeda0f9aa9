# SPDX-License-Identifier: Apache-2.0
"""What a rank of a HorovodRunner says to the notebook."""
import sys
from typing import Any, Callable, Mapping

#: Begins a line that goes to the notebook in any case.
MARK = '\x1esparkdl:'
_MESSAGE_MAX = 4000
_plain = False


def here(main: Callable, kwargs: Mapping[str, Any]) -> Any:
    """main(**kwargs) on the notebook's own computer, which shows all lines."""
    global _plain
    _plain = True
    return main(**kwargs)


def log_to_driver(message: str) -> None:
    """Show that in the notebook, whatever driver_log_verbosity is. At most 4,000 characters are
    shown of one message."""
    text = str(message)
    if len(text) > _MESSAGE_MAX:
        text = f'{text[:_MESSAGE_MAX]}... ({len(text) - _MESSAGE_MAX} characters more)'
    mark = '' if _plain else MARK
    sys.stdout.write(''.join(f'{mark}{line}\n' for line in text.split('\n')))
    sys.stdout.flush()
