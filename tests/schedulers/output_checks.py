# SPDX-License-Identifier: Apache-2.0
"""Checks of how horovod.spark.run() shows what ranks print, without Spark: checks.py calls them."""
import io
import os
import subprocess

from horovod.spark.runner import _Show

#: Lines with colours, a title, a bell, NUL, sequences that erase and hide the cursor, a bar that is
#: drawn anew, other characters of control, and bytes that are no text.
PRINTED = (b'\x1b[31mred\x1b[0m \x1b]0;title\x07 \0 \x1b[?25lafter\n', b'half\rfull\n',
           b'form\x0cfeed \x0e \x7f \xc2\x9b5m \x1bP0;1|17/ab\x1b\\ \x1bc\n', b'one\ntwo\n',
           b'old\r\x1b[Knew\n', b'\xff\xfe \xe2\x82\xac\n', b'a\tb\x1b[1', b'm\n', b'no newline')


def shown(parts):
    out = io.StringIO()
    show = _Show(out, out, False)
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
    show = _Show(io.TextIOWrapper(written, 'ascii'), None, False)
    show.take(1, 'stdout', 'tôt €\n'.encode())
    assert written.getvalue() == b'[1]<stdout>:t\\xf4t \\u20ac\n'
