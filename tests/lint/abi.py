# SPDX-License-Identifier: Apache-2.0
"""What the public header declares, one line each.

`python3 tests/lint/abi.py >tests/lint/abi.txt` records what is promised: do it when something is
added, never to make a line go away (docs/compatibility.md).
"""
import re
import subprocess

import repo

HEADER = repo.ROOT / 'include/reigen/reigen.h'


def constants():
    """The macros that have a value, without those of the version."""
    return [f'#define {name} {value}' for name, value in
            re.findall(r'^#define (REIGEN_\w+) ([^\n/]*[^\s/])', repo.read(HEADER), re.M)
            if not re.match(r'REIGEN_(VERSION|API)', name)]


def declarations():
    """Functions, structures and enumerations as the compiler sees them."""
    done = subprocess.run(['cc', '-E', '-P', '-x', 'c', str(HEADER)], capture_output=True,
                          text=True, check=True)
    text = re.sub(r'__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)', ' ', done.stdout)
    text = re.sub(r'\s+', ' ', text)
    lines = []
    # A semicolon ends a declaration where no brace is open.
    for part in re.findall(r'(?:[^;{}]|\{[^}]*\})+;', text):
        line = re.sub(r'\s*([(){},;*])\s*', r'\1', part).strip()
        if re.search(r'\breigen_', line):
            lines += numbered(line) if line.startswith('enum') else [line]
    return lines


def numbered(line):
    """Each constant of an enumeration with its number."""
    name, _, body = line.partition('{')
    number, lines = -1, []
    for item in re.findall(r'(\w+)(?: ?= ?(-?\w+))?', body):
        number = int(item[1], 0) if item[1] else number + 1
        # How many element types there are changes with each that is added.
        if item[0] != 'REIGEN_NDTYPES':
            lines.append(f'{name.strip()}: {item[0]} = {number}')
    return lines


def interface():
    return constants() + declarations()


if __name__ == '__main__':
    print('\n'.join(interface()))
