# SPDX-License-Identifier: Apache-2.0
"""The habits of the code that a program can check."""
import ast
import re

import repo

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 100
MAX_COLUMNS = 100
MIN_PUBLIC_COMMENT = 0.40
MIN_INTERNAL_COMMENT = 0.25

# What each layer may include; src/programs may include all.
LAYERS = {
    'base': {'base'},
    'wire': {'base', 'wire'},
    'container': {'base', 'container'},
    'job': {'base', 'wire', 'container', 'job'},
    'launch': {'base', 'wire', 'container', 'job', 'launch'},
    'platform': {'base', 'wire', 'container', 'job', 'launch', 'platform'},
    'render': {'base', 'container', 'job', 'platform', 'render'},
    'head': {'base', 'wire', 'container', 'job', 'launch', 'platform', 'head'},
    'agent': {'base', 'wire', 'container', 'job', 'launch', 'platform', 'head', 'agent'},
    'model': {'base', 'model'},
    'traced': {'base', 'traced'},
    'simulate': {'base', 'model', 'traced', 'simulate'},
    'coll': {'base', 'wire', 'model', 'coll'},
    'cmd': {'base', 'wire', 'container', 'job', 'render', 'launch', 'platform', 'head', 'model',
            'traced', 'simulate', 'coll', 'cmd'},
}
LAYERS['programs'] = set(LAYERS) | {'programs'}
CODE = ('.c', '.h', '.py', '.sh')
SPDX = 'SPDX-License-Identifier: Apache-2.0'


def test_lower_layers_never_include_higher_ones():
    problems = []
    for path in repo.with_suffix('.c', '.h', under='src/'):
        layer = path.relative_to(repo.ROOT / 'src').parts[0]
        for number, line in enumerate(repo.read(path).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match or match[1].startswith('reigen/'):
                continue
            if match[1].split('/')[0] not in LAYERS.get(layer, ()):
                problems.append(f'{repo.name(path)}:{number}: {layer} includes "{match[1]}"')
    repo.report(problems)


def test_includes_name_their_folder_and_exist():
    problems = []
    for path in repo.with_suffix('.c', '.h', under='src/'):
        for number, line in enumerate(repo.read(path).splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if match and not ((repo.ROOT / 'src' / match[1]).exists() or
                              (repo.ROOT / 'include' / match[1]).exists()):
                problems.append(f'{repo.name(path)}:{number}: no src/{match[1]}')
    repo.report(problems)


def c_functions(text):
    """(first line, number of lines) of each function: its brace stands alone in column 0."""
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.rstrip() == '{':
            start = number
        elif line.startswith('}') and start is not None:
            yield start, number - start + 1
            start = None


def test_functions_are_at_most_100_lines():
    problems = []
    for path in repo.with_suffix('.c', '.h'):
        problems += [f'{repo.name(path)}:{line}: {count} lines'
                     for line, count in c_functions(repo.read(path)) if count > MAX_FUNCTION_LINES]
    for path in repo.with_suffix('.py'):
        for node in ast.walk(ast.parse(repo.read(path))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                count = node.end_lineno - node.lineno + 1
                if count > MAX_FUNCTION_LINES:
                    problems.append(f'{repo.name(path)}:{node.lineno}: {node.name}: {count} lines')
    repo.report(problems)


def test_files_are_at_most_800_lines():
    problems = []
    for path in repo.with_suffix(*CODE):
        count = len(repo.read(path).splitlines())
        if count > MAX_FILE_LINES:
            problems.append(f'{repo.name(path)}: {count} lines')
    repo.report(problems)


def test_lines_are_at_most_100_columns_without_tabs_or_trailing_blanks():
    problems = []
    for path in repo.with_suffix(*CODE):
        for number, line in enumerate(repo.read(path).splitlines(), 1):
            if len(line) > MAX_COLUMNS:
                problems.append(f'{repo.name(path)}:{number}: {len(line)} columns')
            if '\t' in line:
                problems.append(f'{repo.name(path)}:{number}: tab')
            if line != line.rstrip():
                problems.append(f'{repo.name(path)}:{number}: trailing blank')
    repo.report(problems)


def test_no_file_has_the_marks_of_a_merge():
    """Of one that was not finished: pages and settings would carry them to their readers."""
    marks = re.compile(r'^(<{7} |>{7} |={7}$)', re.M)
    assert marks.search('a\n<<<<<<< HEAD\n') and not marks.search('Title\n========\n')
    repo.report([f'{repo.name(path)}: {marks.search(repo.read(path))[0]}'
                 for path in repo.with_suffix(*CODE, '.md', '.yaml', '.txt', '.build', '.tpl')
                 if marks.search(repo.read(path))])


def test_every_source_opens_with_its_licence():
    problems = []
    comment = {'.c': f'/* {SPDX} */', '.h': f'/* {SPDX} */'}
    for path in repo.files():
        if path.suffix in CODE + ('.yaml', '.yml', '.ini', '.toml') or path.name in (
                'meson.build', 'meson_options.txt', 'Makefile', 'Dockerfile', '.gitignore',
                '.clang-format') or (path.parent.name == '.ci'):
            lines = repo.read(path).splitlines()
            if lines and lines[0].startswith('#!'):
                lines = lines[1:]
            if lines and lines[0] != comment.get(path.suffix, f'# {SPDX}'):
                problems.append(f'{repo.name(path)}: {lines[0]}')
    repo.report(problems)


def test_nothing_is_left_for_later():
    # In halves, so that this file passes too.
    words = re.compile(r'\b(TO' r'DO|FIX' r'ME|XX' r'X|HA' r'CK)\b')
    problems = []
    for path in repo.files():
        text = repo.read(path) or ''
        for number, line in enumerate(text.splitlines(), 1):
            if words.search(line):
                problems.append(f'{repo.name(path)}:{number}: {line.strip()}')
    repo.report(problems)


def comment_share(text):
    """The part of the lines that are not blank which hold a comment."""
    covered = set()
    for match in repo.COMMENT.finditer(text):
        first = text.count('\n', 0, match.start())
        covered.update(range(first, first + match[0].count('\n') + 1))
    lines = text.splitlines()
    solid = [i for i, line in enumerate(lines) if line.strip()]
    return sum(i in covered for i in solid) / max(1, len(solid))


def test_headers_state_their_contract():
    problems = []
    for path in repo.with_suffix('.h'):
        if repo.name(path).startswith(('include/', 'src/')):
            least = MIN_PUBLIC_COMMENT if repo.name(path).startswith('include/') \
                else MIN_INTERNAL_COMMENT
            share = comment_share(repo.read(path))
            if share < least:
                problems.append(f'{repo.name(path)}: {share:.0%} comment, at least {least:.0%}')
    repo.report(problems)


def test_no_path_of_one_machine_is_committed():
    pattern = re.compile(r'/(?:wo' + r'rk/(?:main|shared)|ro' + r'ot/\.pyenv)|/home/\w+/')
    problems = []
    for path in repo.files():
        for number, line in enumerate((repo.read(path) or '').splitlines(), 1):
            if pattern.search(line):
                problems.append(f'{repo.name(path)}:{number}: {line.strip()}')
    repo.report(problems)


def test_libraries_neither_print_nor_exit():
    """Only the head and what stands above it may do either."""
    call = re.compile(r'(?<![\w>.])(printf|puts|putchar|perror|exit|abort)\s*\(')
    problems = []
    for path in repo.with_suffix('.c', under='src/'):
        layer = path.relative_to(repo.ROOT / 'src').parts[0]
        if layer in ('head', 'cmd', 'agent', 'programs'):
            continue
        text = repo.COMMENT.sub(lambda m: '\n' * m[0].count('\n'), repo.read(path))
        for number, line in enumerate(repo.STRING.sub('""', text).splitlines(), 1):
            match = call.search(line)
            if match:
                problems.append(f'{repo.name(path)}:{number}: {match[1]}')
    repo.report(problems)


def test_exit_codes_have_names():
    """base/exitcode.h has them; a bare number is a place that the table of codes would not find."""
    problems = []
    for path in repo.with_suffix('.c', under='src/'):
        text = repo.STRING.sub('""', repo.COMMENT.sub(' ', repo.read(path)))
        if repo.name(path).startswith('src/coll/'):
            continue        # The runtime's errors end no program.
        for match in re.finditer(r'rg_error_set_exit\((?:[^,;]+,){2}\s*\d+,|exit_code = [1-9]\d*;|'
                                 r'#define EXIT_\w+ (?:2|69|7[0-7]|12[4-7])\b', text):
            problems.append(f'{repo.name(path)}: {match[0]}')
    repo.report(problems)


def test_no_macro_hides_a_jump():
    problems = []
    for path in repo.with_suffix('.c', '.h', under='src/'):
        text = repo.read(path).replace('\\\n', '  ')
        for number, line in enumerate(text.splitlines(), 1):
            if re.match(r'\s*#\s*define\b.*\b(return|goto)\b(?!\w)', repo.COMMENT.sub('', line)):
                problems.append(f'{repo.name(path)}: {line.split("(")[0].strip()}')
    repo.report(problems)


def test_the_packages_can_be_read_by_python_3_8():
    problems = []
    for path in repo.with_suffix('.py', under='bindings/python/'):
        try:
            ast.parse(repo.read(path), feature_version=(3, 8))
        except SyntaxError as error:
            problems.append(f'{repo.name(path)}:{error.lineno}: {error.msg}')
    repo.report(problems)


def test_links_in_the_docs_lead_somewhere():
    problems = []
    for path in repo.with_suffix('.md'):
        text = re.sub(r'```.*?```|`[^`\n]*`', '', repo.read(path), flags=re.S)
        for target in re.findall(r'\]\(([^)\s]+)\)', text):
            file = target.split('#')[0]
            if file and not re.match(r'[a-z]+:', file) and not (path.parent / file).exists():
                problems.append(f'{repo.name(path)}: {target}')
    repo.report(problems)


def test_the_tests_that_the_page_on_security_names_are_there():
    tests, text = repo.ROOT / 'tests', repo.read(repo.ROOT / 'docs/security.md')
    named = re.findall(r'`([a-z]+/[\w/]+\.(?:c|py))::(\w+)`', text)
    assert len(named) > 20
    repo.report([f'{file}::{name}' for file, name in named if not (tests / file).exists() or
                 not re.search(rf'\b{name}\(', repo.read(tests / file))])


def members(header, struct):
    """The names of a struct's members; of those that are structs themselves, too."""
    text = repo.COMMENT.sub('', repo.read(repo.ROOT / 'src' / header))
    body = re.search(rf'^struct {struct} {{\n(.*?)^}};', text, re.M | re.S)[1]
    body = re.sub(r'struct {[^}]*}', 'int', body)
    return [name for line in body.split(';') if line.strip()
            for name in re.findall(r'[ *](\w+)(?:\[\w+\])?(?=\s*(?:,|$))', line.strip())]


def test_a_plans_file_has_every_field_of_a_job_and_a_plan():
    """What somebody adds to them would otherwise be lost on the way to the head."""
    table = repo.read(repo.ROOT / 'src/launch/plan/plan_file.c')
    parts = [('job/job.h', 'rg_job', 'job.'), ('job/job.h', 'rg_elastic', 'job.elastic.'),
             ('container/container.h', 'rg_container', 'job.container.'),
             ('container/container.h', 'rg_container_place', 'job.container.place.'),
             ('launch/plan/plan.h', 'rg_plan', 'plan.'), ('job/job.h', 'rg_host', 'rg_host, '),
             ('launch/plan/plan.h', 'rg_plan_rank', 'rg_plan_rank, '),
             ('launch/plan/plan.h', 'rg_plan_host', 'rg_plan_host, '),
             ('launch/plan/plan_file.h', 'rg_planned', '')]
    missing = [prefix + name for header, struct, prefix in parts for name in members(header, struct)
               if not re.search(rf'\b{re.escape(prefix + name)}\b', table)]
    assert len(members('job/job.h', 'rg_job')) > 30
    repo.report(missing)
