# SPDX-License-Identifier: Apache-2.0
"""A clone for one test, and make with an empty HOME."""
import pytest

from clones import copy_source, make_in


@pytest.fixture
def clone(tmp_path):
    """A copy in a directory whose name has a blank, as a person's may."""
    return copy_source(tmp_path / 'a clone')


@pytest.fixture
def make(tmp_path):
    """make(tree, *arguments): (status, output), with an empty HOME and nothing of this run's."""
    (tmp_path / 'home').mkdir()
    return make_in(tmp_path / 'home')
