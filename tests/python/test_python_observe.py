# SPDX-License-Identifier: Apache-2.0
"""Looking at a job from Python."""


def test_timeline_and_diagnosis_show_what_ranks_do(all_pass, tmp_path):
    all_pass(2, 'observed.py', tmp_path / 'timeline.json')
