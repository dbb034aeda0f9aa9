# SPDX-License-Identifier: Apache-2.0
"""A rank that is looked at: a timeline of a part of a job, and diagnoses."""
import json
import sys
import time

import torch

import checks
import horovod.torch as hvd
import reigen


def load(path):
    """Read again where a write was in the middle."""
    for attempt in range(5):
        try:
            with open(path, encoding='utf-8') as file:
                return json.load(file)
        except ValueError:
            if attempt == 4:
                raise
            time.sleep(0.003)  # patient: the write is over then


def until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # patient: in a rank


def timeline(path):
    for turn in range(2):
        hvd.barrier()
        hvd.start_timeline(path, mark_cycles=turn == 0)
        hvd.barrier()
        hvd.allreduce(torch.tensor([1, 2, 3], dtype=torch.float32), name='test_allreduce')
        hvd.barrier()
        if hvd.rank() == 0:
            # As Horovod's own test: while it is being written.
            until(lambda: '"ALLREDUCE"' in json.dumps(load(path)))
            text = json.dumps(load(path))
            for part in ('allreduce.test_allreduce', 'start_time_since_epoch_in_micros',
                         'NEGOTIATE_ALLREDUCE', 'ALLREDUCE'):
                assert part in text, part
            assert ('CYCLE_START' in text) == (turn == 0)
        hvd.stop_timeline()
    hvd.stop_timeline()
    if hvd.rank() == 0:
        checks.raises(OSError, lambda: hvd.start_timeline('/rg-not-there/timeline'))


def diagnosis():
    last = hvd.size() - 1
    hvd.allreduce(torch.ones(3), name='before')
    owed = None
    if hvd.rank() != last:
        owed = hvd.allreduce_async(torch.ones(3), name='owed')
    if hvd.rank() == 0:
        # The others are about to submit theirs; the last one waits for the file.
        def missing():
            found = hvd.diagnose()
            return [p['missing'] for p in found['pending'] if p['name'] == 'allreduce.owed']
        until(lambda: missing() == [[last]])
        found = reigen.diagnose(timeout=1)
        assert found['size'] == hvd.size() and found['complete'] and found['failure'] is None
        assert sorted(r['rank'] for r in found['ranks']) == list(range(hvd.size()))
        assert f'allreduce.owed waits for rank(s) {last}' in str(found), str(found)
        hvd.broadcast(torch.ones(1), 0, name='found')
    else:
        hvd.broadcast(torch.ones(1), 0, name='found')
    if owed is None:
        owed = hvd.allreduce_async(torch.ones(3), name='owed')
    hvd.synchronize(owed)


def main():
    for early in (lambda: hvd.start_timeline('x'), hvd.stop_timeline, hvd.diagnose):
        checks.raises(ValueError, early)
    hvd.init()
    timeline(sys.argv[1])
    diagnosis()
    hvd.shutdown()


if __name__ == '__main__':
    main()
