# SPDX-License-Identifier: Apache-2.0
"""What others have written reaches a terminal through base/say.h, and never past it."""
import re

import repo

# Who writes to standard output or standard error without base/say.h and rg_print, how often, and
# why that is right.
WRITERS = {
    'src/agent/contain/contain_host.c': (1, 'lines that our launcher reads'),
    'src/agent/look/doctor.c': (1, 'what reigen doctor reads'),
    'src/agent/sync/receive.c': (1, 'frames that the agent reads'),
    'src/agent/sync/tidy.c': (1, 'frames that the agent reads'),
    'src/programs/reigen_agent.c': (8, 'lines that our launcher reads, and usage'),
    'src/agent/rsh/rsh.c': (1, 'the name of our own version'),
    'src/base/say.c': (2, 'rg_log_as and rg_say_exact themselves'),
    'src/cmd/bench/bench.c': (2, 'names of our own operations'),
    'src/head/console/exit.c': (1, 'rg_print_exact itself'),
    'src/head/alone.c': (1, 'usage'),
    'src/head/ask.c': (8, 'JSON and the record of a head of ours, which a program of ours reads'),
    'src/cmd/help/manual.c': (1, 'our own pages, into a pager'),
    'src/cmd/jobs/attach.c': (2, 'the output of ranks, which is their user\'s; in a handler'),
    'src/cmd/run/away.c': (1, 'the output of ranks, which is their user\'s'),
}
WRITE = re.compile(r'(?<![\w>.])(?:v?fprintf|fputs|fputc|fwrite)\s*\((?:[^;]*?,)?'
                   r'\s*(?:stderr|stdout)\b'
                   r'|(?<![\w>.])fputs\s*\(\w+, f\)'
                   r'|(?<![\w>.])(?:printf|vprintf|puts|putchar|perror|psignal|warnx?|errx?)\s*\('
                   r'|(?<![\w>.])(?:v?dprintf|write|rg_write_all)\s*\(\s*(?:[12]|STD\w+_FILENO)\s*,'
                   r'|(?<![\w>.])fprintf\s*\(\s*stderr\b')

# What is printed as it is, and why: documents, and what is composed of shown words and colours.
EXACT = {
    'src/cmd/bench/bench.c': 'figures, and documents',
    'src/head/console/exit.c': 'rg_print, after it has shown',
    'src/cmd/compat/rundock_command.c': 'a plan in the words of a shell, of what the user typed',
    'src/cmd/doctor/doctor.c': 'composed in doctor_print.c',
    'src/cmd/help/completion.c': 'our own words',
    'src/cmd/help/help.c': 'our own words',
    'src/cmd/help/manual.c': 'our own words',
    'src/cmd/jobs/command.c': 'composed in jobs_print.c',
    'src/cmd/report/command.c': 'a page, all of whose foreign words went through rg_html_text',
    'src/cmd/jobs/jobs_print.c': 'JSON',
    'src/cmd/top/batch.c': 'JSON, and composed in table.c',
    'src/cmd/top/screen.c': 'composed in table.c',
    'src/cmd/pai/command.c': 'JSON, and a converted job',
    'src/cmd/render/command.c': 'manifests',
    'src/cmd/run/away.c': 'manifests, and composed in status.c',
    'src/cmd/run/command.c': 'a script of what the user typed',
    'src/cmd/run/plan.c': 'composed here',
    'src/cmd/simulate/command.c': 'composed here',
    'src/cmd/jobs/attach.c': 'composed in status.c',
    'src/base/say.c': 'rg_say_lines, after it has shown',
    'src/agent/wait/show.c': 'composed here',
}

# Files that compose words of others, for what is printed exactly: all text is put by
# rg_shown_printf, and rg_buf_printf has nothing but numbers and our own sequences.
#: The folders that may speak.
PROGRAMS = ('src/head/', 'src/cmd/', 'src/agent/', 'src/programs/')
COMPOSED = ['src/head/console/exit.c', 'src/cmd/doctor/doctor_print.c', 'src/head/head.c',
            'src/head/restart.c', 'src/head/console/rows.c', 'src/cmd/jobs/jobs_print.c',
            'src/cmd/run/plan.c', 'src/cmd/top/page.c', 'src/cmd/top/screen.c',
            'src/cmd/top/several.c', 'src/cmd/top/table.c',
            'src/head/show/output.c', 'src/head/show/status.c',
            'src/head/show/tracebacks.c', 'src/head/show/verdict.c', 'src/agent/wait/show.c']
# Others that know escape sequences: figures and pages of our own.
OWN = ['src/cmd/bench/bench.c', 'src/cmd/bench/report/report.c', 'src/head/console/exit.c',
       'src/head/console/terminal.c', 'src/cmd/help/manual.c', 'src/cmd/simulate/command.c']


def code(path):
    """The text without comments."""
    return repo.COMMENT.sub(lambda m: '\n' * m[0].count('\n'), repo.read(path))


def sources():
    return [p for p in repo.with_suffix('.c', under='src/')
            if not repo.name(p).startswith('src/coll/')]      # the runtime, in the user's process


def test_nobody_else_writes_to_the_terminal():
    problems = []
    for path in sources():
        found = [' '.join(m[0].split()) for m in WRITE.finditer(repo.STRING.sub('""', code(path)))]
        allowed = WRITERS.get(repo.name(path), (0, ''))[0]
        if len(found) != allowed:
            problems.append(f'{repo.name(path)}: {len(found)} writes, not {allowed}; use rg_say, '
                            f'rg_fail or rg_print: {found}')
    repo.report(problems)


def test_few_print_exact_bytes():
    problems = []
    for path in sources():
        if re.search(r'\brg_(?:print|say)_exact\(', code(path)) and repo.name(path) not in EXACT:
            problems.append(f'{repo.name(path)}: use rg_print or rg_say')
        if re.search(r'\brg_output_say\(', code(path)) and repo.name(path) not in (
                'src/head/head.c', 'src/head/show/output.c', 'src/head/show/present_plain.c'):
            problems.append(f'{repo.name(path)}: only the head speaks beside output')
    repo.report(problems)


def test_only_programs_say_something():
    repo.report([repo.name(p) for p in sources() if repo.name(p) != 'src/base/say.c' and
                 not repo.name(p).startswith(PROGRAMS) and
                 re.search(r'\brg_(?:say\w*|log\w*)\(', code(p))])


def calls(text, name):
    """The arguments of each call."""
    for match in re.finditer(rf'\b{name}\(', text):
        depth, at = 1, match.end()
        while depth:
            quoted = repo.STRING.match(text, at)
            at = quoted.end() if quoted else at + 1
            depth += 0 if quoted else {'(': 1, ')': -1}.get(text[at - 1], 0)
        yield text[match.end():at - 1]


def test_words_beside_colours_are_shown():
    problems = []
    for name in COMPOSED:
        for call in calls(code(repo.ROOT / name), 'rg_buf_printf'):
            if re.search(r'%[-*.0-9]*[sc]', call):
                problems.append(f'{name}: rg_shown_printf, not rg_buf_printf({call})')
    repo.report(problems)


def test_escape_sequences_stand_where_words_are_shown():
    problems = [f'{repo.name(path)}: an escape sequence' for path in sources()
                if re.search(r'\\(?:033|x1b|e\[)', code(path))
                and repo.name(path) not in COMPOSED + OWN]
    repo.report(problems)


def test_the_lint_finds_what_it_looks_for():
    for line in ['fprintf(stderr, "%s", why);', 'fputs(text, stderr);', 'printf("a");',
                 'rg_write_all(1, text, n);', 'dprintf(2, "a");', 'perror("a");',
                 'vfprintf(stderr, fmt, args);', 'write(STDERR_FILENO, p, n);']:
        assert WRITE.search(line), line
    for line in ['rg_shown_printf(text, "a");', 'snprintf(p, n, "a");', 'rg_write_all(fd, p, n);']:
        assert not WRITE.search(line), line
    assert list(calls('rg_buf_printf(t, "a)", f(x)); y', 'rg_buf_printf')) == ['t, "a)", f(x)']
