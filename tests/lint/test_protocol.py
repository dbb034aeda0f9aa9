# SPDX-License-Identifier: Apache-2.0
"""docs/protocol.md has the messages as the code has them."""
import re

import repo

KINDS = {'U8': 'u8', 'U32': '', 'I32': 'i32', 'U64': 'u64', 'STR': 'string', 'STRV': 'list',
         'SPAN': 'bytes'}


def fields_in(code):
    """{name of the array: 'field kind, field'} for each table of fields; without a kind: a u32."""
    tables = {}
    for name, body in re.findall(r'struct rg_field (\w+)_fields\[\] = \{(.*?)\};', code, re.S):
        entries = re.findall(r'FIELD\(\w+,\s*(\w+),\s*(\w+)\)', body)
        tables[name] = ', '.join(f'{field} {KINDS[kind]}'.strip() for kind, field in entries)
    return tables


def rows(section):
    """(number, name, the rest) of each line of the block below this heading."""
    text = repo.read(repo.ROOT / 'docs/protocol.md')
    body = re.split(r'^#{2,3} ', text.partition(f'# {section}\n')[2], flags=re.M)[0]
    block = re.search(r'^```text\n(.*?)^```', body, re.S | re.M)[1]
    # A line without a number goes on with the one before.
    return re.findall(r'^ ?(\d+) (\w+) *(.*)$', re.sub(r'\n {3,}', ' ', block), re.M)


def test_messages_of_launcher_and_agent_are_documented():
    code = repo.read(repo.ROOT / 'src/wire/msg.c')
    header = repo.read(repo.ROOT / 'src/wire/msg.h')
    tables = fields_in(code + repo.read(repo.ROOT / 'src/wire/rankmsg.c'))
    numbers = dict(re.findall(r'RG_MSG_(\w+) = (\d+),', header))
    coded = {(numbers[kind], name, direction, tables[table]) for kind, direction, name, table in
             re.findall(r'\{ RG_MSG_(\w+), (true|false), "(\w+)", (\w+)_fields \}', code)}
    assert len(coded) == len(numbers)
    documented = {(number, name, direction, fields)
                  for section, direction in (('From the agent', 'true'),
                                             ('From the launcher', 'false'))
                  for number, name, fields in rows(section)}
    assert documented == coded


def test_frames_of_rank_and_agent_are_documented():
    tables = fields_in(repo.read(repo.ROOT / 'src/wire/rankmsg.c'))
    header = repo.read(repo.ROOT / 'src/wire/rankmsg.h')
    coded = {(number, name, tables.get(f'rg_rankmsg_{name.lower()}', ''))
             for name, number in re.findall(r'RG_RANKMSG_(\w+) = (\d+),', header)}
    documented = {(number, name, fields) for number, name, rest in rows('Rank and agent')
                  for fields in [rest.partition(' ')[2].strip()]}
    assert documented == coded
