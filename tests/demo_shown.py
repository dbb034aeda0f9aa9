# SPDX-License-Identifier: Apache-2.0
"""What `make demo` has to print, wherever it runs."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def in_the_readme():
    """The output of `make demo` there. The bars, which a terminal shows in one place, are not; for
    lines that are left out it has "..."."""
    text = (ROOT / 'README.md').read_text()
    return re.search(r'^\$ make demo\n(.*?)^```', text, re.S | re.M)[1].splitlines()


def figureless(lines):
    return [re.sub(r'\d+(\.\d+)?', '0', line) for line in lines]


def check(printed):
    """The ranks learned, are equal, and it ends with what README.md shows."""
    accuracy = [float(a) for a in re.findall(r'accuracy[ =:]+(0\.\d+|1\.0+)', printed)]
    assert accuracy and accuracy[-1] >= 0.97, printed
    assert 'parameters: identical to the bit on all 4 ranks' in printed, printed
    shown, said = figureless(in_the_readme()), figureless(printed.splitlines())
    if not re.search(r'ranks share \d+ core', printed):  # a machine with a core for each
        shown = [line for line in shown if ' share ' not in line]
    said = [line for line in said if ' [' not in line]
    pattern = re.escape('\n'.join(shown)).replace(re.escape('\n...\n'), r'\n(?:.*\n)+')
    assert len(shown) > 5 and re.search(f'^{pattern}\\Z', '\n'.join(said), re.M), (shown, said)
