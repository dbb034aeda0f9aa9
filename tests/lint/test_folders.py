# SPDX-License-Identifier: Apache-2.0
"""Each folder of src/ is a small library: folders.txt says who may use whom."""
import re

import folders
import repo

# A comparison of a job's platform, or a driver's name, with a word
NAMED = re.compile(r'str\w*cmp\([^;]*(?:\bon\b|platform|driver)[^;]*, "|'
                   r'rg_(?:driver|platform)_find\("')


def test_folders_use_only_what_the_list_allows():
    known = [line for line in (folders.LIST.parent / 'breaches.txt').read_text().splitlines()
             if line and not line.startswith('#')]
    found = folders.problems()
    repo.report([p for p in found if p not in known] +
                [f'breaches.txt: strike this line, it is mended: {p}' for p in known
                 if p not in found])


def test_nobody_asks_for_a_driver_by_name():
    """They ask for what is true of it: spec/job/platform.h, docs/drivers.md."""
    repo.report([f'src/{path}: {hit.group(0)}' for path, text in folders.sources().items()
                 for hit in NAMED.finditer(repo.STRING.sub('""', text))])
