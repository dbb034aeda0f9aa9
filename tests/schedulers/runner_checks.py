# SPDX-License-Identifier: Apache-2.0
"""Checks of what horovod.spark.run() makes of tasks' words, without Spark: checks.py calls them."""
import io
import os
import subprocess
import sys

from store_checks import raised

import reigen
from horovod.spark import runner
from reigen import _hub

#: Lines with colours, a title, a bell, NUL, sequences that erase and hide the cursor, a bar that is
#: drawn anew, other characters of control, and bytes that are no text.
PRINTED = (b'\x1b[31mred\x1b[0m \x1b]0;title\x07 \0 \x1b[?25lafter\n', b'half\rfull\n',
           b'form\x0cfeed \x0e \x7f \xc2\x9b5m \x1bP0;1|17/ab\x1b\\ \x1bc\n', b'one\ntwo\n',
           b'old\r\x1b[Knew\n', b'\xff\xfe \xe2\x82\xac\n', b'a\tb\x1b[1', b'm\n', b'no newline')


def shown(parts):
    out = io.StringIO()
    show = runner._Show(out, out, False)
    for part in parts:
        show.take(0, 'stdout', part)
    show.end()
    return out.getvalue()


def check_characters_of_control_are_shown_as_reigen_run_shows_them(folder):
    """However they come in parts."""
    (folder / 'printed').write_bytes(b''.join(PRINTED))
    done = subprocess.run([os.environ['REIGEN_LAUNCHER'], 'run', '-np', '2', '--', 'cat',
                           str(folder / 'printed')], stdout=subprocess.PIPE, timeout=60, check=True)
    lines = done.stdout.decode(errors='backslashreplace').split('\n')
    expected = ''.join(line.replace('[0] ', '[0]<stdout>:', 1) + '\n' for line in lines
                       if line.startswith('[0] '))
    assert expected.count('\n') >= 8 and '\0' in expected, expected
    assert shown(PRINTED) == expected, (shown(PRINTED), expected)


def check_a_stream_that_lacks_a_character_gets_an_escape(folder):
    written = io.BytesIO()
    show = runner._Show(io.TextIOWrapper(written, 'ascii'), None, False)
    show.take(1, 'stdout', 'tôt €\n'.encode())
    assert written.getvalue() == b'[1]<stdout>:t\\xf4t \\u20ac\n'


def check_an_executor_with_another_python_or_reigen_is_named(folder):
    def event(**fields):
        here = {'version': reigen.version(), 'python': '.'.join(map(str, sys.version_info[:2]))}
        return _hub.Event('here', 0, {'host': 'node7', **here, **fields}, b'')
    runner.check_fits(event())
    for fields, words in [({'python': '2.7'}, 'Python is 2.7 on node7 and'),
                          ({'version': '0.0.1'}, 'Reigen is 0.0.1 on node7 and')]:
        raised(RuntimeError, lambda fields=fields: runner.check_fits(event(**fields)), words)
