# SPDX-License-Identifier: Apache-2.0
"""`python -m reigen ...` is `reigen ...`, of the installation that this python has."""
import os
import sys

from reigen._launcher import find


def main() -> None:
    try:
        program = find()
    except FileNotFoundError as error:
        sys.exit(f'python -m reigen: {error}')
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == '__main__':
    main()
