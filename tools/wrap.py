# SPDX-License-Identifier: Apache-2.0
"""Wrap the comments of C sources that are longer than 100 columns, and nothing else.

usage: tools/wrap.py FILE.c|FILE.h...

What does not fit goes to the front of the next line of the same paragraph, or to a line of its own.
A comment at the end of a line of code that is too long moves to the line before. Code stays as it
is.
"""
import re
import sys

WIDTH = 100
TRAILING = re.compile(r'^(\s*)(\S.*[;{,])\s*(/\* .* \*/)$')
TEXT = re.compile(r'^(\s*(?:/\*|\*)?\s*)(\S.*)$')


def split(line):
    """(what fits, the rest) of a comment's line that is too long; rest is '' where it cannot be."""
    match = TEXT.match(line)
    start = len(match[1])
    closing = ' */' if line.endswith(' */') else ''
    body = line[:len(line) - len(closing)] if closing else line
    at = body.rfind(' ', start + 1, WIDTH + 1)
    if at <= start:
        return line, ''
    return body[:at].rstrip(), body[at + 1:].strip() + closing


def prefix_of(line):
    """What a following line of the same comment begins with."""
    lead = TEXT.match(line)[1]
    if '/*' in lead:
        return lead.replace('/*', ' *')
    return lead


def continues(line, prefix):
    """Whether `line` is the same paragraph's next one: same prefix, and no list or drawing."""
    match = TEXT.match(line)
    return bool(match and match[1] == prefix and not re.match(r'[-*+|0-9]|/|@', match[2])
                and '  ' not in match[2])


def wrap(lines):
    result, inside, queue = [], False, list(lines)
    while queue:
        line = queue.pop(0)
        trailing = TRAILING.match(line)
        if not inside and len(line) > WIDTH and trailing:
            queue[:0] = [trailing[1] + trailing[3], trailing[1] + trailing[2]]
            continue
        opens = re.match(r'\s*/\*', line) is not None
        if (inside or opens) and len(line) > WIDTH:
            kept, rest = split(line)
            if rest:
                prefix = prefix_of(line)
                ended = rest.endswith('*/')
                if not ended and queue and continues(queue[0], prefix):
                    queue[0] = prefix + rest + ' ' + queue[0][len(prefix):]
                else:
                    queue.insert(0, prefix + rest)
                line = kept
        if opens:
            inside = True
        if '*/' in line:
            inside = False
        result.append(line)
    return result


def main(paths):
    for path in paths:
        with open(path, encoding='utf-8') as file:
            before = file.read()
        after = '\n'.join(wrap(before.split('\n')))
        if after != before:
            with open(path, 'w', encoding='utf-8') as file:
                file.write(after)
            print(path)


if __name__ == '__main__':
    main(sys.argv[1:])
