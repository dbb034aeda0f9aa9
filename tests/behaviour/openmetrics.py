# SPDX-License-Identifier: Apache-2.0
"""A strict reader of the texts that Prometheus reads: OpenMetrics 1.0, and version 0.0.4 of its own
format. What either forbids, or what they leave open and reigen promises, is an AssertionError."""
import re
from types import SimpleNamespace

NAME = '[a-zA-Z_:][a-zA-Z0-9_:]*'
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
SAMPLE = re.compile(rf'({NAME})(?:\{{(.+)\}})? ([0-9]+(?:\.[0-9]+)?)')
SUFFIX = {'counter': '_total', 'info': '_info', 'gauge': ''}


def labels_of(text):
    found, at = {}, 0
    while at < len(text):
        label = LABEL.match(text, at)
        assert label, text
        assert label[1] not in found, text
        found[label[1]], at = re.sub(r'\\(.)', lambda m: {'n': '\n'}.get(m[1], m[1]), label[2]), \
            label.end()
        assert label[3] == ',' or at == len(text), text
    return found


def begin(name, lines, strict):
    """The family whose HELP was the last line."""
    kind, = re.fullmatch(rf'# TYPE {name} (gauge|counter|info)', lines.pop(0)).groups()
    assert strict or kind != 'info', 'only OpenMetrics knows that type'
    family = SimpleNamespace(kind=kind, unit='', samples={})
    if strict and lines and lines[0].startswith('# UNIT '):
        family.unit, = re.fullmatch(rf'# UNIT {name} ([a-z]+)', lines.pop(0)).groups()
        assert name.endswith('_' + family.unit)
    return family


def read(text, strict):
    """{name of a sample: its family}, with `samples`: {((label, value), ...): number}."""
    assert text.endswith('\n') and '\r' not in text
    lines, families, family = text.split('\n')[:-1], {}, None
    if strict:
        assert lines.pop() == '# EOF'
    while lines:
        line = lines.pop(0)
        about = re.fullmatch(rf'# HELP ({NAME}) (\S.*)', line)
        if about:
            family = begin(about[1], lines, strict)
            sample_name = about[1] + (SUFFIX[family.kind] if strict else '')
            assert sample_name not in families, 'a family stands in one place'
            assert family.kind != 'counter' or sample_name.endswith('_total'), sample_name
            families[sample_name] = family
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample and sample[1] == sample_name, line
        labels = tuple(sorted(labels_of(sample[2] or '').items()))
        assert labels not in family.samples, f'twice: {line}'
        family.samples[labels] = float(sample[3])
    return families


def by_rank(families, name):
    """{rank: number}"""
    if name not in families:
        return {}
    return {int(dict(labels)['rank']): n for labels, n in families[name].samples.items()}


def only(families, name):
    """The one number of a family without labels."""
    return families[name].samples[()]
