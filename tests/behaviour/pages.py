# SPDX-License-Identifier: Apache-2.0
"""The shell commands that README.md, CONTRIBUTING.md and docs/*.md show, for the tests that run
them.

A command stands in a fenced block, or in text that is indented as code. Where lines of a block
begin with a prompt (`$ `, `host2$ `, `root@c278c88dd552:/examples# `) those are the commands, and
what follows each is its output. In other blocks, but yaml, python and text, a line is a command
where it begins with one of PROGRAMS. A line goes on in the next one after a backslash, and within
quotes.
"""
import re
import shlex
from dataclasses import dataclass, field

from built import ROOT

PROGRAMS = {'apt', 'build.sh', 'cd', 'cp', 'create_mpisshconfig.sh', 'docker', 'git', 'horovodrun',
            'make', 'meson', 'mpiexec', 'mpirun', 'pip', 'python', 'python3', 'reigen',
            'run_dock_asuser.sh', 'salloc', 'sbatch', 'scancel', 'scp', 'srun', 'srun_docker.sh',
            'ssh', 'sudo', 'torchft_lighthouse', 'torchrun'}
PROMPT = re.compile(r'(?:\w*\$|root@\S+#) ')
FENCE = re.compile(r'^( *)```(\w*)\n(.*?)^ *```', re.S | re.M)


@dataclass
class Command:
    page: str
    line: int
    text: str  # without the prompt, and without a comment at its end
    block: int = 0  # the number of the block's first line
    output: list = field(default_factory=list)

    @property
    def words(self):
        """The words that a shell makes of it, without variables before the program."""
        words = shlex.split(self.text)
        while re.match(r'\w+=', words[0]):
            words.pop(0)
        return words

    @property
    def program(self):
        """The program's name without its folder."""
        return self.words[0].rpartition('/')[2]

    def __str__(self):
        return f'{self.page}:{self.line}: {self.text}'


def pages():
    return [*sorted(ROOT.glob('*.md')), *sorted((ROOT / 'docs').glob('*.md'))]


def whole(text):
    """Whether a shell would not read on."""
    if text.endswith('\\'):
        return False
    try:
        shlex.split(without_comment(text))
    except ValueError:
        return False
    return True


def without_comment(text):
    """As a shell sees it: a # within a word, or within quotes, begins no comment."""
    for match in re.finditer(r'\s#', text):
        try:
            shlex.split(text[:match.start()])
            return text[:match.start()].rstrip()
        except ValueError:
            pass
    return text.rstrip()


def first_word(line):
    words = [w for w in line.split() if not re.match(r'\w+=', w)]
    return words[0].rpartition('/')[2] if words else ''


def of_block(page, number, lines):
    """The commands of a block's lines, the first of which has this number in the page."""
    prompt = any(PROMPT.match(line) for line in lines)
    found, rest = [], list(enumerate(lines, number))
    while rest:
        at, line = rest.pop(0)
        begins = PROMPT.match(line) if prompt else first_word(line) in PROGRAMS
        if not begins:
            if prompt and found:
                found[-1].output.append(line)
            continue
        text = PROMPT.sub('', line, count=1) if prompt else line
        while not whole(text) and rest:
            text += '\n' + rest.pop(0)[1]
        found.append(Command(page, at, without_comment(text), number))
    return found


def indented(text):
    """(number of the first line, lines) of each block that is indented as code."""
    block, start, before = [], 0, ''
    for number, line in enumerate([*text.split('\n'), ''], 1):
        if line.startswith('    ') and (block or not before.strip() or before.startswith('#')):
            block, start = [*block, line[4:]], start if block else number
        elif block:
            yield start, block
            block = []
        before = line


def of_page(path):
    text, name = path.read_text(), str(path.relative_to(ROOT))
    found = []
    for match in FENCE.finditer(text):
        if match[2] not in ('yaml', 'python', 'text'):
            lines = [line.removeprefix(match[1]) for line in match[3].split('\n')[:-1]]
            found += of_block(name, text.count('\n', 0, match.start()) + 2, lines)
    plain = FENCE.sub(lambda m: '\n' * m[0].count('\n'), text)
    for number, lines in indented(plain):
        found += of_block(name, number, lines)
    return sorted(found, key=lambda c: c.line)


def commands(*names):
    """Every command, or those of the pages named, in their order."""
    return [command for path in pages() if not names or str(path.relative_to(ROOT)) in names
            for command in of_page(path)]


#: Programs that only a cluster of Slurm's makes sense of, or its users' Docker.
SLURM = {'salloc', 'sbatch', 'srun', 'srun_docker.sh', 'run_dock_asuser.sh'}


def blocks_for_a_cluster():
    """Blocks (lists of commands) with one of SLURM, which tests/slurm runs whole."""
    blocks = {}
    for command in commands():
        blocks.setdefault((command.page, command.block), []).append(command)
    return [b for b in blocks.values() if any(c.program in SLURM for c in b)]
