# SPDX-License-Identifier: Apache-2.0
"""How tools/check.py lays the parts of a stage side by side."""
import sys

import repo

sys.path.insert(0, str(repo.ROOT / 'tools'))
import check  # noqa: E402 (needs the path above)


def laid(parts, cores):
    """The order in which parts begin, [(name, when)], and when the last one ends; each takes as
    long as it says."""
    waiting, running, begun, now = list(parts), [], [], 0.0
    while waiting or running:
        while part := check.next_part(waiting, [p for _, p in running], cores):
            waiting.remove(part)
            running.append((now + part.seconds, part))
            begun.append((part.name, now))
        now, done = min(running, key=lambda entry: entry[0])
        running.remove((now, done))
    return begun, now


def part(name, cores, seconds):
    return check.Part(name, None, cores, seconds)


def test_the_longest_that_fits_begins_and_none_waits_for_ever():
    begun, end = laid([part('short', 1, 10), part('long', 1, 100), part('greedy', 9, 50),
                       part('idle', 0.5, 60)], 2.5)
    assert begun == [('long', 0.0), ('idle', 0.0), ('short', 0.0), ('greedy', 100.0)]
    assert end == 150


def test_a_part_waits_for_another():
    begun, end = laid([part('long', 1, 100)._replace(after='first'), part('first', 1, 10),
                       part('other', 1, 50)], 2)
    assert begun == [('other', 0.0), ('first', 0.0), ('long', 10.0)] and end == 110


def test_parts_keep_no_more_cores_busy_than_there_are_but_for_one_that_is_alone():
    for stage in check.PARTS.values():
        for cores in (1, 2.5, 16.5):
            begun, end = laid(stage, cores)
            assert sorted(name for name, _ in begun) == sorted(p.name for p in stage)
            for when in {at for _, at in begun}:
                busy = [p.cores for p in stage for name, at in begun
                        if name == p.name and at <= when < at + p.seconds]
                assert sum(busy) <= cores or len(busy) == 1
            assert end >= max(p.seconds for p in stage)


def test_what_a_test_took_of_the_processors_is_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(check, 'TEST_CORES', [])
    (tmp_path / 'hosts.xml').write_text(
        '<testsuite><testcase classname="hosts.test_a" name="test_b[c]@group" time="9"><properties>'
        '<property name="core_s" value="1.50"/><property name="jobs" value="3"/></properties>'
        '</testcase></testsuite>')
    result = check.Result()
    check.count_junit(tmp_path / 'hosts.xml', result)
    assert check.TEST_CORES == [(1.5, 'hosts hosts.test_a.test_b[c]')]
    assert result.passed == 1 and result.runs[0].notes == {'jobs': 3}


def test_every_part_finds_its_tests(monkeypatch):
    """A part whose function fails before a test begins is seen here, and not after an hour."""
    asked = []
    monkeypatch.setattr(check, 'LOGS', repo.ROOT / 'build')

    def run(part, *words, **_):
        assert isinstance(part, str)
        asked.extend(word for words_ in words if isinstance(words_, list) for word in words_)
        return check.Result()

    for name in ('pytest', 'pytest_once', 'prepared', 'sanitized_units', 'sanitized_ranks'):
        monkeypatch.setattr(check, name, run)
    for one in check.PARTS['check-all'] + check.ALONE['check-all']:
        one.run(one.name)
    assert {'tests/jax', 'tests/schedulers', 'tests/torch2', 'tests/tensorflow'} <= set(asked)
    assert not [path for path in asked if not (repo.ROOT / path.partition('::')[0]).exists()]
