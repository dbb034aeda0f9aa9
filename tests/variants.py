# SPDX-License-Identifier: Apache-2.0
"""Parameters of one test of which a few prove what it is about."""
import pytest


def rest(*values, id=None):  # pylint: disable=redefined-builtin
    """One that CI leaves to `make soak`: it costs as much as another that CI runs, and has seldom
    found what that one did not."""
    return pytest.param(*values, marks=pytest.mark.soak, id=id)
