# SPDX-License-Identifier: Apache-2.0
"""Help, manual pages and completion, judged by the programs that read them."""
import os
import re
import shutil
import subprocess

import pytest

from built import ROOT, environment


def need(program):
    if not shutil.which(program):
        pytest.skip(f'{program} is not installed')


def test_help_goes_to_standard_output_and_errors_point_to_it(reigen):
    for args in (['--help'], ['help'], ['run', '--help'], ['help', 'run'], ['explain', '--help'],
                 ['help', 'srun-docker'], ['srun-docker', '--help'], ['sshconfig', '--help'],
                 ['run-dock-asuser', '--help'], ['help', 'create_mpisshconfig.sh'],
                 ['stop', '--help']):
        done = reigen(*args)
        assert done.returncode == 0 and done.stderr == ''
        assert done.stdout.startswith(('usage: reigen', 'usage: srun reigen')), done.stdout
        assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "Try 'reigen run --help'" in reigen('run', '-np', '0', 'x').stderr
    assert reigen().returncode == 2


def test_help_fits_on_one_screen_and_the_rest_has_topics(reigen):
    screen = reigen().stdout
    assert len(screen.splitlines()) <= 25 and reigen('--help').stdout == screen
    short = reigen('run', '--help').stdout
    options = re.findall(r'^  --?[a-zA-Z-]+', short, re.M)
    assert 10 < len(options) <= 15 and len(short.splitlines()) <= 30, short
    assert all(len(line) <= 80 for line in short.splitlines())
    assert reigen('--help', 'all').stdout == reigen('help', 'all').stdout
    whole = reigen('run', '--help', 'all').stdout
    topics = re.search(r'one of all ([a-z\s]+)\.\n', short)[1].split()
    assert {'slurm', 'kubernetes', 'openpai', 'containers', 'network', 'elastic'} <= {*topics}
    # Each option has one place in all, and is in a topic; no text is told twice.
    first = re.compile(r'^  (--?[a-zA-Z-]+)', re.M)
    places = first.findall(whole)
    assert len(places) == len({*places}) > 90
    told = ''.join(reigen('help', 'run', topic).stdout for topic in topics)
    assert {*first.findall(told)} == {*places}
    for text in (whole, reigen('help', 'all').stdout):
        sentences = re.split(r'(?<=[.:;]) ', re.sub(r'\s+', ' ', text))
        often = {s for s in sentences if len(s) > 40 and sentences.count(s) > 1}
        assert not often, often


@pytest.mark.parametrize('columns', [80, 200])
def test_help_fits_the_terminal(programs, columns):
    need('script')
    for words, nlines in (('', 25), (' run --help', 32)):
        _, screen = on_terminal(f'stty cols {columns} rows 50; {programs.reigen}{words}')
        lines = screen.splitlines()
        assert len(lines) <= nlines and max(map(len, lines)) <= columns, screen
        assert columns == 80 or max(map(len, lines)) > 80, screen


def test_a_topic_is_asked_for_in_any_way(reigen):
    slurm = reigen('run', '--help', 'slurm').stdout
    assert slurm.startswith('Slurm\n') and '--partition' in slurm and '--image' not in slurm
    for words in ('run --help=slurm', 'run -np 2 -h slurm', 'help run slurm', 'plan --help slurm',
                  'doctor --help slurm', 'doctor -v --help slurm'):
        assert reigen(*words.split()).stdout == slurm, words
    # The command's own --help, and what follows ours, are no topics.
    done = reigen('run', '-np', '1', '--', 'echo', '--help', 'slurm')
    assert done.stdout == '--help slurm\n', done
    short = reigen('run', '--help').stdout
    for words in ('run --help -np 2', 'run -np 2 --help train.py', 'run -h ./train'):
        assert reigen(*words.split()).stdout == short, words
    assert reigen('plan', '-h', './train').stdout == reigen('plan', '--help').stdout


def test_help_of_a_command_lists_its_options(reigen):
    for command, options in (('doctor', '--planes --clean -v,'), ('logs', '-f --rank --context'),
                             ('attach', '--tail'), ('status', '--json'), ('stop', '--all'),
                             ('jobs', '--json'), ('plan', '--json')):
        told = reigen(command, '--help').stdout
        assert '\n\n\n' not in told, told
        assert {*options.split()} <= {*re.findall(r'^  (-\S+)', told, re.M)}, told
    assert '\n\n\n' not in reigen('explain', '--help').stdout


def test_what_a_command_does_not_know_is_refused_with_what_is_near(reigen):
    for words, said in (
            ('doctro', 'unknown command doctro; did you mean doctor?'),
            ('--versoin', 'unknown option --versoin; did you mean --version?'),
            ('run --gpsu 1 x', 'unknown option --gpsu; did you mean --gpus?'),
            ('run --cycle-time-ms=1 x', "--cycle-time-ms=1: a flag of horovodrun's; write reigen"),
            ('doctor --cycle-time-ms 1', "--cycle-time-ms: a flag of horovodrun's"),
            ('doctor --gpsu 1', 'unknown option --gpsu; did you mean --gpus?'),
            ('doctor --planse', 'unknown option --planse; did you mean --planes?'),
            ('doctor -np 1 x', 'doctor: it runs no command and takes options only; leave out: x'),
            ('horovodrun --maxrestarts 1 -np 1 x', 'did you mean --max-restarts?'),
            ('horovodrun --verbsoe -np 1 x', 'unknown flag --verbsoe; did you mean --verbose?'),
            ('srun-docker --containr=x', 'did you mean --container?'),
            ('run-dock-asuser --containr=x', 'did you mean --container?'),
            ('sshconfig --hots=x', 'unknown option; did you mean --hosts?'),
            ('sshd --prot 3', 'sshd --prot: unknown option; did you mean --port?'),
            ('sshd x', 'sshd x: it takes options only'),
            ('explain 1 2', 'explain: 2 is one argument too many'),
            ('explain --hepl', 'explain: unknown option --hepl; did you mean --help?'),
            ('man reigen-rn', 'did you mean reigen-run?'),
            ('man a b', 'man: b is one argument too many'),
            ('man --rof a', 'man: unknown option --rof; did you mean --roff?'),
            ('completion bsh', 'did you mean bash?'),
            ('completion bash zsh', 'completion: zsh is one argument too many'),
            ('version x', 'version x: it takes no arguments'),
            ('help rnu', 'help rnu: no such command; did you mean run?'),
            ('help stop x', 'help: x is one argument too many'),
            ('help run x', 'run --help x: no such topic; give all, ranks, network, slurm, '),
            ('run --help slrum', 'mpirun; did you mean slurm?'),
            ('run --help=x', 'run --help x: no such topic'),
            ('doctor --help slrum', 'mpirun; did you mean slurm?')):
        done = reigen(*words.split())
        assert (done.returncode, done.stdout) == (2, ''), (words, done)
        assert said in done.stderr, (words, done.stderr)


def test_the_version_is_printed(reigen):
    for args in (['version'], ['--version'], ['run', '--version']):
        assert reigen(*args).stdout.startswith('reigen 0.')


STOP = ('\n       reigen stop [--namespace NAME] [--context NAME] [--pai-server URL]\n'
        '       [--pai-user NAME] JOB|--all\n')
PAGES = [re.sub(r'\.\d$', '', name) for name in re.findall(
    r"'((?:reigen|horovodrun)[a-z-]*\.[15])'", (ROOT / 'src/cmd/meson.build').read_text())]


def test_every_command_has_a_page_that_is_installed(reigen):
    told = reigen('help', 'all').stdout
    commands = re.findall(r'^  ([a-z][a-z-]*)', told, re.M)
    assert len(commands) > 15 and len(PAGES) > 15
    for command in set(commands) - {'reigen'}:
        page = command if command == 'horovodrun' else f'reigen-{command}'
        assert page in PAGES, f'{page} is not among the pages of src/cmd/meson.build'
        done = reigen('man', '--roff', command)
        assert done.returncode == 0 and f'.TH "{page}"' in done.stdout, done
        # What the command's own line names, its page explains.
        line = re.search(f'^  {command}( .*)?$', told, re.M)[0]
        told_options = done.stdout.replace('\\', '').partition('.SH OPTIONS')[2]
        for option in re.findall(r'(?<=[\[|])--?[a-z]+', line):
            assert option in told_options, (command, option)
    assert '--clean' in reigen('man', 'doctor').stdout.partition('OPTIONS')[2]
    for page in PAGES:
        assert reigen('man', '--roff', page).stdout.startswith(f'.TH "{page}"')


def test_a_manual_page_is_plain_text_where_there_is_no_terminal(reigen):
    page = reigen('man', 'stop').stdout
    assert page.startswith('reigen-stop(1)') and STOP in page, page
    assert not re.search(r'^\.|\\|\x1b', page, re.M), page
    assert max(map(len, page.splitlines())) <= 80


def on_terminal(command, **variables):
    done = subprocess.run(['script', '-qec', command, '/dev/null'], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, timeout=20, check=False,
                          env=environment(TERM='xterm', **variables))
    return done.returncode, done.stdout.decode().replace('\r\n', '\n')


def test_a_manual_page_is_shown_on_a_terminal(programs, tmp_path):
    need('script')
    man = f'{programs.reigen} man'
    code, page = on_terminal(f'{man} stop', PAGER='cat', MANPAGER='')
    assert code == 0 and re.search(r'^\x1b\[1mSYNOPSIS\x1b\[0m$', page, re.M), page
    plain = re.sub(r'\x1b\[\d+m', '', page)
    assert plain.startswith('reigen-stop(1)') and STOP in plain
    assert '\n       --all\n              End all' in plain
    assert not re.search(r'^\.|\\', plain, re.M), plain
    assert on_terminal(f'{man} reigen-stop', MANPAGER='sed s/^/pager:/')[1].startswith('pager:')
    # No pager at all, and one that is not there.
    bare = tmp_path / 'bin'
    bare.mkdir()
    for name in ('sh', 'cat'):
        (bare / name).symlink_to(shutil.which(name))
    for before, pager in ((f'PATH={bare}', ''), ('', '/no/such/pager')):
        code, shown = on_terminal(f'{before} {man} stop', PAGER=pager, MANPAGER='')
        assert code == 0 and 'SYNOPSIS' in shown and '.SH' not in shown, shown


@pytest.mark.parametrize('page', PAGES)
def test_manual_pages_are_read_without_complaint(reigen, page, tmp_path):
    need('man')
    path = tmp_path / 'page.1'
    path.write_text(reigen('man', '--roff', page).stdout)
    env = environment(MANWIDTH=80, PAGER='cat', MANPAGER='cat')
    done = subprocess.run(['man', '--warnings=all', '-l', '-E', 'UTF-8', str(path)],
                          capture_output=True, text=True, timeout=30, env=env)
    assert done.returncode == 0 and done.stderr == ''
    assert page in done.stdout
    assert not re.search(r'(^|\s)\.[A-Z]', done.stdout), 'a request stands in the text'


def complete_bash(reigen, tmp_path, *words):
    script = tmp_path / 'reigen.bash'
    script.write_text(reigen('completion', 'bash').stdout)
    quoted = ' '.join(f"'{w}'" for w in words)
    done = subprocess.run(['bash', '--norc', '-c', f'. {script}; COMP_WORDS=({quoted}); '
                           f'COMP_CWORD={len(words) - 1}; '
                           '"$(complete -p "$COMP_WORDS" | sed "s/.*-F \\([^ ]*\\) .*/\\1/")"; '
                           'printf "%s\\n" "${COMPREPLY[@]}"'],
                          capture_output=True, text=True, timeout=20, cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ''
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(reigen, tmp_path):
    need('bash')
    (tmp_path / 'train.py').write_text('')

    def complete(*words):
        return complete_bash(reigen, tmp_path, 'reigen', *words)

    assert complete('ru') == ['run', 'run-dock-asuser']
    assert complete('run', '--out') == ['--output-dir', '--output-filename']
    assert complete('run', '--bind-to', '') == ['none', 'core', 'socket', 'gpu']
    assert complete('run', '--help', 'open') == ['openpai'] and complete('help', 'al') == ['all']
    assert complete('run', '-np', '2', 'python', 'tr') == ['train.py']
    assert complete('run', '--', 'python', '--out') == []
    assert complete('completion', 'z') == ['zsh']
    assert complete('doctor', '--cl') == ['--clean'] and complete('run', '--cl') == []
    (tmp_path / 'links').mkdir()
    assert complete('install-scripts', '') == ['links']


def test_bash_completes_the_scripts_as_readline_splits_their_words(reigen, tmp_path):
    need('bash')
    (tmp_path / 'my job.sh').write_text('')
    for name in ('one', 'two'):
        (tmp_path / name).mkdir()

    def complete(*words):
        return complete_bash(reigen, tmp_path, *words)

    for start in (['srun_docker.sh'], ['reigen', 'srun-docker']):
        assert complete(*start, '--script') == ['--script=', '--script_help']
        assert complete(*start, '--script', '=', 'my') == ['my', 'job.sh']
        assert complete(*start, '--container-runtime', '=') == \
            'docker podman apptainer singularity enroot none'.split()
        assert complete(*start, '--datamnts', '=', 'one,t') == ['one,two']
    assert complete('create_mpisshconfig.sh', '--h') == ['--hosts=', '--help']
    assert complete('run_dock_asuser.sh', '--net', 'br') == ['bridge']
    assert complete('reigen', 'run-dock-asuser', '--keep') == ['--keepalive']


@pytest.mark.parametrize('shell', ['zsh', 'fish'])
def test_the_other_shells_accept_their_scripts(reigen, shell, tmp_path):
    need(shell)
    script = tmp_path / f'script.{shell}'
    script.write_text(reigen('completion', shell).stdout)
    done = subprocess.run([shell, '-n', str(script)], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and done.stderr == ''


def test_fish_completes_options(reigen, tmp_path):
    need('fish')
    script = tmp_path / 'reigen.fish'
    script.write_text(reigen('completion', 'fish').stdout)
    done = subprocess.run(['fish', '--no-config', '-c',
                           f'source {script}; complete -C "reigen run --start"'],
                          capture_output=True, text=True, timeout=20,
                          env=environment(HOME=tmp_path))
    assert '--start-timeout' in done.stdout
    for line, word in (('srun_docker.sh --sl', '--slots_per_node'),
                       ('reigen sshconfig --ho', '--hosts'),
                       ('reigen doctor --cl', '--clean'),
                       ('run_dock_asuser.sh --net=br', '--net=bridge')):
        ask = f'source {script}; complete -C "{line}"'
        done = subprocess.run(['fish', '--no-config', '-c', ask], capture_output=True, text=True,
                              timeout=20, env=environment(HOME=tmp_path))
        assert word in [found.split('\t')[0] for found in done.stdout.splitlines()], done


@pytest.fixture
def known(programs, tmp_path):
    """An environment with hosts that ssh knows, and with our reigen in PATH."""
    (tmp_path / '.ssh').mkdir()
    (tmp_path / '.ssh/config').write_text('Host alpha beta *.wild !gone\n  HostName 192.0.2.1\n')
    (tmp_path / '.ssh/known_hosts').write_text(
        '|1|hashed= ssh-ed25519 AAAA\ngamma,192.0.2.7 ssh-ed25519 AAAA\n'
        '[delta]:2222 ssh-ed25519 AAAA\n@cert-authority *.x ssh-rsa AAAA\n')
    (tmp_path / 'hf').write_text('# ours\nepsilon slots=4\nzeta:2\n')
    return environment(HOME=tmp_path, PATH=f'{programs.reigen.parent}:{os.environ["PATH"]}')


# What is typed, and the word that has to be among what a shell offers for its end.
TYPED = [('reigen run -H alp', 'alpha'), ('reigen run -H a:2,bet', 'beta'),
         ('reigen run --require rdma,gp', 'gpu'), ('reigen rsh delt', 'delta'),
         ('reigen run -np 2 -- mytool no', 'north'), ('reigen run -np 2 mytool no', 'north'),
         ('reigen stop --a', '--all'), ('reigen render mp', 'mpijob'),
         ('reigen render mpijob train --slots', '--slotsPerWorker'),
         ('reigen render mpijob train --mpiImplementation Int', 'Intel'),
         ('reigen run --affinity sp', 'spread'), ('reigen run --help kub', 'kubernetes'),
         ('horovodrun -np 2 -H gam', 'gamma')]


def test_hosts_are_those_that_ssh_knows(reigen, known, tmp_path):
    done = reigen('completion', '--hosts', tmp_path / 'hf', env=known)
    assert done.stdout.split() == ['localhost', 'epsilon', 'zeta', 'alpha', 'beta', 'gamma',
                                   '192.0.2.7', 'delta']
    assert 'lo' in reigen('completion', '--interfaces').stdout.split()


def test_bash_completes_hosts_and_the_commands_own_words(reigen, known, tmp_path):
    script = tmp_path / 'script'
    script.write_text(reigen('completion', 'bash').stdout)
    more = [('reigen run --hosts=del', 'delta'), ('reigen run --hostfile hf -H e', 'epsilon'),
            ('reigen run -H me@al', 'me@alpha'), ('reigen run -- ls h', 'hf'),
            ('reigen run -H a:2 -np 2 -- ls h', 'hf'), ('reigen horovodrun -H al', 'alpha')]
    lines = ['. /usr/share/bash-completion/bash_completion', f'. {script}',
             'complete -W "north south" mytool']
    for line, _ in TYPED + more:
        words = ' '.join(f"'{w}'" for w in re.findall(r'[:=]|[^ :=]+', line))
        lines.append(f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
                     f"COMPREPLY=(); COMP_LINE='{line}'; COMP_POINT={len(line)}; "
                     f"_{line.split()[0]}; "
                     'printf "%s " "${COMPREPLY[@]}"; echo')
    done = subprocess.run(['bash', '--norc', '-c', '\n'.join(lines)], capture_output=True,
                          text=True, timeout=60, cwd=tmp_path, env=known)
    for (line, word), offered in zip(TYPED + more, done.stdout.splitlines(), strict=True):
        assert word in re.split('[ ,]', offered.strip()), f'{line}: {offered} {done.stderr}'


def test_fish_completes_hosts_and_the_commands_own_words(reigen, known, tmp_path):
    need('fish')
    script = tmp_path / 'script'
    script.write_text(reigen('completion', 'fish').stdout)
    asks = '; echo END; '.join(f"complete -C '{line}'" for line, _ in TYPED)
    done = subprocess.run(['fish', '--no-config', '-c', f'source {script}; '
                           f'complete -c mytool -f -a "north south"; {asks}; echo END'],
                          capture_output=True, text=True, timeout=60, cwd=tmp_path, env=known)
    for (line, word), offered in zip(TYPED, done.stdout.split('END\n')):
        found = [re.split('[,]', o.split('\t')[0])[-1] for o in offered.splitlines()]
        assert word in found, f'{line}: {offered} {done.stderr}'


ZSH = r"""
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; fpath=($1 \$fpath); autoload -U compinit; compinit -u -D"
zpty -w z "compdef 'compadd north south' mytool; bindkey '^X' show; zle -N show"
zpty -w z "show() { print -r -- \$BUFFER >>$2; BUFFER=; }; echo REA''DY"
zpty -r z out '*READY*'
for ((n = 3; n <= $#; n++)); do
    zpty -w -n z "${@[n]}"$'\t\x18'
    until [[ $(wc -l <$2) -ge $((n - 2)) ]]; do zpty -r -t z out; sleep 0.02; done
done
zpty -d z
"""


def test_zsh_completes_hosts_and_the_commands_own_words(reigen, known, tmp_path):
    need('zsh')
    (tmp_path / 'functions').mkdir()
    (tmp_path / 'functions/_reigen').write_text(reigen('completion', 'zsh').stdout)
    (tmp_path / 'out').touch()
    subprocess.run(['zsh', '-f', '-c', ZSH, 'zsh', tmp_path / 'functions', tmp_path / 'out',
                    *(line for line, _ in TYPED)], timeout=60, cwd=tmp_path, env=known, check=True)
    for (line, word), typed in zip(TYPED, (tmp_path / 'out').read_text().splitlines(), strict=True):
        assert re.split('[ ,]', typed.rstrip(' ,'))[-1] == word, f'{line}: {typed}'


def test_the_docs_name_every_exit_code_key_and_event(reigen):
    codes = (ROOT / 'docs/exit-codes.md').read_text()
    for line in reigen('explain').stdout.splitlines()[:-1]:
        code, name = line.split()[:2]
        assert f'| {code} |' in codes and name in codes
    jobfile = (ROOT / 'docs/jobfile.md').read_text()
    page = reigen('man', '--roff', 'reigen-job').stdout
    keys = [line[3:].split(':')[0].replace('\\-', '-') for line in page.splitlines()
            if line.startswith('.B ') and ':' in line]
    assert len(keys) > 20
    for key in keys:
        assert f'`{key}`' in jobfile, key
