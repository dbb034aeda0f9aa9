# SPDX-License-Identifier: Apache-2.0
"""docs/model.md has what the model predicts today, beside what was measured last."""
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'bench'))

import predicted  # noqa: E402 (needs the path above)


def test_the_page_has_what_the_model_predicts():
    raw = json.loads(predicted.RECORD.read_text())['raw']
    assert predicted.section(raw) in predicted.PAGE.read_text(), 'run bench/predicted.py'


def test_what_is_a_fifth_off_is_marked():
    rows = [predicted.Row('1g', '2x1', nbytes, 8.0, 0, 8000) for nbytes in (4, 4096)]
    assert predicted.judge(rows, [9.0, 10.0]) == (1, (0.125 + 0.25) / 2)
    assert predicted.table(rows, [9.0, 10.0])[-1] == '| 1g | 1.12 - **1.25** |'
