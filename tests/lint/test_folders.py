# SPDX-License-Identifier: Apache-2.0
"""Each folder of src/ is a small library: folders.txt says who may use whom."""
import folders
import repo


def test_folders_use_only_what_the_list_allows():
    known = [line for line in (folders.LIST.parent / 'breaches.txt').read_text().splitlines()
             if line and not line.startswith('#')]
    found = folders.problems()
    repo.report([p for p in found if p not in known] +
                [f'breaches.txt: strike this line, it is mended: {p}' for p in known
                 if p not in found])
