# SPDX-License-Identifier: Apache-2.0
"""docs/elastic.md has the states, events and actions that the membership has."""
import re

import repo

FOLDER = repo.ROOT / 'src/launch/membership'


def enumerators(file, name, prefix):
    body = re.search(rf'enum {name} \{{(.*?)\}};', repo.read(FOLDER / file), re.S).group(1)
    return re.findall(rf'^    {prefix}(\w+),', body, re.M)


def table(heading):
    """The cells of each row of the table below this heading, its first row included."""
    text = repo.read(repo.ROOT / 'docs/elastic.md')
    body = text.partition(f'\n### {heading}\n')[2].partition('\n### ')[0]
    rows = [[cell.strip() for cell in line.strip('|').split('|')] for line in body.splitlines()
            if line.startswith('|')]
    return rows[:1] + rows[2:]


def first_cells(heading):
    return [row[0] for row in table(heading)[1:]]


def test_states_are_documented():
    states = enumerators('state.h', 'phase', 'PHASE_')
    assert first_cells('States') == states
    assert table('Events')[0] == ['event', *[state for state in states if state != 'OVER']]


def test_events_and_actions_are_documented():
    for heading in ('Events', 'Actions'):
        name = f'rg_membership_{heading.lower()[:-1]}_type'
        assert first_cells(heading) == enumerators('membership.h', name, 'RG_MEMBERSHIP_')
