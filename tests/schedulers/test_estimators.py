# SPDX-License-Identifier: Apache-2.0
"""The estimators of horovod.spark, and what they are made of."""
import json
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKS = [(path.name, name) for path in sorted(HERE.glob('*_checks.py'))
          for name in re.findall(r'^def (check_\w+)', path.read_text(), re.M)]
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope='module')
def told(program, tmp_path_factory):
    """told(file) -> by the name of each check there its traceback, '' when it went well."""
    done = {}

    def of(file):
        if file not in done:
            done[file] = json.loads(program('spark', 'checks.py', tmp_path_factory.mktemp('checks'),
                                            file))
        return done[file]
    return of


@pytest.mark.parametrize('file, name', CHECKS)
def test_without_spark(told, file, name):
    assert told(file)[name] == '', told(file)[name]
