# SPDX-License-Identifier: Apache-2.0
"""Compares what can be imported with a table of names and signatures; see surface.txt.

A parameter may be added at the end if it has a default; order, names and plain defaults must stay.
"""
import ast
import importlib
import inspect
import re
import sys


def entries(path):
    """(module, class or None, name, parameters or None) of each line; a long one goes on below."""
    with open(path) as stream:
        lines = re.sub(r'\n {9,}', ' ', stream.read()).splitlines()
    module = owner = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        name, _, parameters = line.strip().partition('(')
        if line.startswith('#'):
            continue
        if indent == 0:
            module, owner = name, None
            continue
        if indent == 2:
            owner = None
        yield module, owner, name.replace('class ', ''), (
            parameters.rstrip(')') if '(' in line else None)
        if name.startswith('class '):
            owner = name[6:]


def split(parameters):
    return [p.strip() for p in re.split(r',(?![^(]*\))', parameters) if p.strip()]


def plain(text):
    """A default's value where it is a literal, else None."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


def complaint(function, wanted):
    """What is wrong with a function's parameters; '' when nothing is."""
    have = [p for p in inspect.signature(function).parameters.values() if p.name != 'self']
    if [p.kind for p in have[:2]] == [inspect.Parameter.VAR_POSITIONAL,
                                      inspect.Parameter.VAR_KEYWORD]:
        return ''
    for place, text in enumerate(wanted):
        name, has_default, default = text.partition('=')
        if name.startswith('*'):
            continue
        if place >= len(have) or have[place].name != name:
            return f'parameter {place} is not {name}'
        if has_default and have[place].default is inspect.Parameter.empty:
            return f'{name} has no default'
        if plain(default) is not None and have[place].default != plain(default):
            return f'{name} is {have[place].default!r} by default, not {default}'
    more = [p.name for p in have[len(wanted):] if p.default is inspect.Parameter.empty
            and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return f'{", ".join(more)} must be given' if more else ''


def main(path):
    wrong, count = [], 0
    for module, owner, name, parameters in entries(path):
        count += 1
        place = importlib.import_module(module)
        place = getattr(place, owner) if owner else place
        if not hasattr(place, name):
            wrong.append(f'{module} {owner or ""} {name}: missing')
        elif parameters is not None:
            text = complaint(getattr(place, name), split(parameters))
            wrong += [f'{module} {owner or ""} {name}: {text}'] if text else []
    print('\n'.join(wrong))
    assert count > 400 and not wrong, f'{len(wrong)} of {count} names'


if __name__ == '__main__':
    main(sys.argv[1])
