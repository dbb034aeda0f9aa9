# SPDX-License-Identifier: Apache-2.0
"""What begins src/launch/membership/step.c has the states and events that the membership has."""
import re

import repo

FOLDER = repo.ROOT / 'src/launch/membership'


def enumerators(file, name, prefix):
    body = re.search(rf'enum {name} \{{(.*?)\}};', repo.read(FOLDER / file), re.S).group(1)
    return re.findall(rf'^    {prefix}(\w+),', body, re.M)


def first_words(heading):
    """Of the rows below this word of the comment, and the words of its own line."""
    comment = repo.read(FOLDER / 'step.c').partition(' */\n')[2].partition(' */\n')[0]
    body = comment.partition(f'\n *  {heading} ')[2].partition('\n *\n')[0]
    return re.findall(r'^ \*  (\w+) ', body, re.M), body.split('\n')[0].split()


def test_states_are_documented():
    states = enumerators('state.h', 'phase', 'PHASE_')
    assert first_words('state')[0] == states
    assert first_words('event')[1] == [state for state in states if state != 'OVER']


def test_events_are_documented():
    assert first_words('event')[0] == enumerators('membership.h', 'rg_membership_event_type',
                                                  'RG_MEMBERSHIP_')
