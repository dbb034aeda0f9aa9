# SPDX-License-Identifier: Apache-2.0
"""Each folder of src/ is a small library: folders.txt says who may use whom."""
import re

import folders
import repo

# A comparison of a job's platform, or a driver's name, with a word
NAMED = re.compile(r'str\w*cmp\([^;]*(?:\bon\b|platform|driver)[^;]*, "|'
                   r'rg_(?:driver|platform)_find\("')


def test_folders_use_only_what_the_list_allows():
    repo.report(folders.problems())


def test_the_page_has_the_figures_of_the_structure():
    assert folders.written() == repo.read(folders.PAGE), \
        'type: python3 tests/lint/folders.py --write'
