# SPDX-License-Identifier: Apache-2.0
"""Tests wait for conditions (tests/wait.py), neither for times nor by clocks.

waits.txt counts what is left of another age, by file: no count may grow, no file may come. A line
that is no wait of a test, such as a patient that hangs on purpose, says so: `patient: why`.
"""
import ast
import re

import pytest

import repo
import wait

LEFT = repo.ROOT / 'tests/lint/waits.txt'
#: The helpers themselves, and this lint.
OWN = ('tests/wait.py', 'tests/unit/help/wait.c', 'tests/lint/test_waits.py')
CLOCKS = ('monotonic', 'monotonic_ns', 'perf_counter', 'perf_counter_ns', 'time', 'time_ns')
SLEEP_C = re.compile(r'\b(usleep|nanosleep|clock_nanosleep|sleep|rg_sleep_ms|sleep_ms)\s*\(')
ELAPSED_C = re.compile(r'rg_now_ns\(\)\s*-\s*\w+\s*[<>]')
NO_CODE_C = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.S)
MARK = re.compile(r'\bpatient: \w')


def is_call(node, names):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and \
        isinstance(node.func.value, ast.Name) and node.func.value.id == 'time' and \
        node.func.attr in names


def is_elapsed(node):
    """A comparison with what a clock says, less something, on one of its sides."""
    return isinstance(node, ast.Compare) and any(
        isinstance(side, ast.BinOp) and isinstance(side.op, ast.Sub) and
        any(is_call(n, CLOCKS) for n in ast.walk(side))
        for side in (node.left, *node.comparators))


def waits_in_python(text):
    """The numbers of the lines that sleep, or compare an elapsed time."""
    return [n.lineno for n in ast.walk(ast.parse(text)) if is_call(n, ('sleep',)) or is_elapsed(n)]


def waits_in_c(text):
    """Likewise; declarations and definitions of such functions are none."""
    code = NO_CODE_C.sub(lambda m: re.sub(r'[^\n]', ' ', m[0]), text)
    return [number for number, line in enumerate(code.splitlines(), 1)
            if (SLEEP_C.search(line) or ELAPSED_C.search(line))
            and not re.match(r'(static )?(inline )?(void|int) \w*sleep', line)]


def waits_of(text, suffix):
    lines = text.splitlines()
    found = waits_in_python(text) if suffix == '.py' else waits_in_c(text)
    return sorted(n for n in found if not MARK.search(lines[n - 1]))


def waits():
    found = {}
    for path in repo.with_suffix('.py', '.c', '.h', under='tests'):
        if repo.name(path) not in OWN:
            numbers = waits_of(path.read_text(encoding='utf-8'), path.suffix)
            if numbers:
                found[repo.name(path)] = numbers
    return found


def known():
    return {name: int(count) for count, name in
            (line.split() for line in LEFT.read_text().splitlines() if not line.startswith('#'))}


def test_no_test_sleeps_or_compares_clocks():
    left, found = known(), waits()
    more = [f'{name}: lines {numbers}: {len(numbers)} waits by the clock, and {left.get(name, 0)} '
            'are known: wait for a condition (tests/wait.py), or say `patient: why`'
            for name, numbers in found.items() if len(numbers) > left.get(name, 0)]
    fewer = [f'{name}: write {len(found.get(name, ()))} into tests/lint/waits.txt, where {count} is'
             for name, count in left.items() if len(found.get(name, ())) < count]
    repo.report(more + fewer)


def test_the_lint_sees_waits_and_nothing_else():
    python = ('import time\ntime.sleep(1)\nassert time.monotonic() - began < 5\n'
              'assert 3 > time.time() - began\ntook = time.monotonic() - began\n'
              'time.sleep(9)  # patient: hangs on purpose\nrun("time.sleep(1)")\n'
              'end = time.monotonic() + 5\n')
    assert waits_of(python, '.py') == [2, 3, 4]
    c = ('usleep(1000);\nrg_sleep_ms(5);\nassert_true(rg_now_ns() - start < 10);\n'
         'x = "sleep(60)"; /* sleep(1) */\nvoid sleep_ms(unsigned ms)\nstart = rg_now_ns();\n'
         'nanosleep(&t, NULL); /* patient: a slow stream */\nasleep(1);\n')
    assert waits_of(c, '.c') == [1, 2, 3]


def test_a_wait_ends_with_what_came_or_says_what_was_seen_last(monkeypatch):
    monkeypatch.setattr(wait, 'patience', lambda: 1)
    answers = iter([None, [], 'here'])
    assert wait.until(lambda: next(answers), 'the third answer') == 'here'
    with pytest.raises(AssertionError, match='a pod: not within 0.* s; last seen: 3 of 4'):
        wait.until(lambda: False, 'a pod', 0.01, seen=lambda: '3 of 4')
    with pytest.raises(OSError, match=r"a list: not within .* last seen: \[\]"):
        wait.until(lambda: [], 'a list', 0, error=OSError)


def test_what_is_waited_for_has_the_processor_where_a_look_costs_much(monkeypatch):
    naps, spent, looks = [], [0.0], iter([0.1, 0.001, 9.0, 0.0])
    monkeypatch.setattr(wait.time, 'sleep', naps.append)
    monkeypatch.setattr(wait, 'spent_s', lambda: spent[0])

    def look():
        cost = next(looks)
        spent[0] += cost
        return cost == 0
    assert wait.until(look, 'a look that costs nothing')
    assert naps == [pytest.approx(wait.LEFT * 0.1), pytest.approx(wait.FINE_S * 1.5),
                    wait.LEFT_MOST_S]
