# SPDX-License-Identifier: Apache-2.0
"""Calls the functions of a file of checks whose names begin with check_, each with a folder of its
own, and prints what became of each, as JSON: {name: '' or a traceback}

usage: checks.py FOLDER FILE
"""
import importlib
import json
import sys
import traceback
from pathlib import Path


def main():
    module = importlib.import_module(Path(sys.argv[2]).stem)
    found = {}
    for name, function in vars(module).items():
        if not name.startswith('check_'):
            continue
        folder = Path(sys.argv[1]) / name
        folder.mkdir()
        try:
            function(folder)
            found[name] = ''
        except Exception:
            found[name] = traceback.format_exc()
    print(json.dumps(found))


if __name__ == '__main__':
    main()
