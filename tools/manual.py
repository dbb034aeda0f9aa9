# SPDX-License-Identifier: Apache-2.0
"""The man pages, in man(7): the tables that src/cmd/tables.c prints, and the words between them.

src/cmd/help/manual.c shows a page where there is no man; it knows the requests that stand here
and no others.
"""
import re
from typing import Any, Dict, List, Optional

Tables = Dict[str, Any]

#: Of this version; a page has to have a date.
DATE = '2026-11-21'
LINE_LENGTH = 79

#: Of commands whose page is no other table's: more sentences, options, examples, and other pages.
#: What a command does, and the options of those that people use most, its row in the table says.
COMMANDS: Dict[str, Dict[str, Any]] = {
    'doctor': {
        'about': 'Each finding has a remedy. The exit code is 0 when nothing failed, 1 when '
                 'something did; other codes are those of reigen run.',
        'examples': 'reigen doctor\n'
                    'reigen doctor -H node1,node2 --require gpu,shm=8g\n'
                    'reigen doctor -H node1,node2 --image pytorch --planes',
        'see': ('reigen-run', 'reigen-explain')},
    'plan': {
        'about': 'Nothing is made. On Kubernetes the API server is shown all that reigen run would '
                 'make, and says whether it would take it. The pods are compared with the quotas '
                 'of the namespace and with what is free on the nodes; what cannot be looked at, '
                 'for lack of a right, is named. The exit code is 0 when the job would start now, '
                 'and 75 when it would have to wait. Otherwise it is the code that reigen run '
                 'would end with: 2 or 69 when something must change first, 77 when you lack a '
                 'right.',
        'examples': 'reigen plan --on kubernetes -np 8 --gpus 1 --image pytorch -- python train.py',
        'see': ('reigen-run', 'reigen-doctor')},
    'head': {
        'about': 'It writes what reigen run writes, ends with the same exit code and obeys the '
                 "same signals. The job runs in the current directory, with this command's "
                 'environment. The file is for the same version of Reigen.',
        'options': {'--plan FILE': 'What reigen run --write-plan FILE has written.'},
        'examples': 'reigen run --write-plan job.plan -np 4 -- python train.py\n'
                    'reigen head --plan job.plan',
        'see': ('reigen-run',)},
    'rsh': {
        'about': "It takes ssh's arguments, so that mpirun and pdsh can use it in ssh's place, and "
                 "needs neither keys nor an sshd. The exit code is the command's, or 255.",
        'options': {'-l, -p, -i, -o, -F, -T, -n, -x, ...':
                    "ssh's options. They are read and have no meaning: the agents' links are there "
                    'already.'},
        'examples': 'reigen rsh node2 hostname',
        'see': ('reigen-run',)},
    'jobs': {
        'about': 'JOB is the name that reigen stop takes; its beginning is enough.',
        'examples': 'reigen jobs\nreigen jobs --all --json',
        'see': ('reigen-status', 'reigen-logs', 'reigen-stop')},
    'stop': {
        'about': 'The ranks get SIGTERM and, after the grace time, SIGKILL, on all hosts.',
        'examples': 'reigen stop r-20260131\nreigen stop --all\n'
                    'reigen stop --namespace train night',
        'see': ('reigen-jobs',)},
    'drain': {
        'about': 'JOB is the name that reigen stop takes, and HOST one that reigen status shows. '
                 'No step is lost when the program uses hvd.elastic.run: its ranks on the other '
                 'hosts go on, and hosts that are not in use take over. Other programs are started '
                 'again without the host. Ctrl-C ends the command, and the host is drained all the '
                 'same. The exit code is 0 when the host is free, 2 when there is no such job or '
                 'host or the job is not elastic, and 69 when fewer than --min-np ranks would be '
                 'left, without --force.',
        'options': {'--deadline TIME': 'End ranks that are still on the host after TIME, such as '
                                       '30 or 2m. They get SIGTERM and, after the grace time, '
                                       'SIGKILL; the others go on from the last commit.',
                    '--force': 'Drain the host even if fewer than --min-np ranks would be left. '
                               'All ranks save their work, if they have asked to be told. Where a '
                               'discovery script or a cooldown may bring another host, they then '
                               'wait for it; else the job ends with code 75.'},
        'examples': 'reigen drain r-20260131 node7\nreigen drain --deadline 100 r-20260131 node7',
        'see': ('reigen-status', 'reigen-stop')},
    'logs': {
        'examples': 'reigen logs -f 1234\nreigen logs --rank 3 r-20260131',
        'see': ('reigen-jobs', 'reigen-status', 'reigen-stop')},
    'attach': {
        'about': 'On Kubernetes it shows how the pods start, takes cut connections up again, and '
                 'needs no note of the job on this computer when --namespace or --context says '
                 'where it is. Of other jobs it shows what reigen logs -f shows.',
        'examples': 'reigen attach night\nreigen attach --namespace train --tail 100 night',
        'see': ('reigen-jobs', 'reigen-logs', 'reigen-status', 'reigen-stop')},
    'status': {
        'about': 'A job that has ended is known for as long as reigen jobs --all lists it. The '
                 'command itself ends with 0 wherever the job is known.',
        'examples': 'reigen status 1234\nreigen status --namespace train night',
        'see': ('reigen-jobs', 'reigen-logs', 'reigen-explain')},
    'top': {
        'about': 'A job\'s numbers come from its launcher. It runs on this computer, with ranks '
                 'here, on hosts of ssh or in an allocation of Slurm; or Slurm (--submit) or '
                 'Kubernetes runs it, and JOB is asked there, by a step of the job or by kubectl '
                 'exec. '
                 'Keys: q quits; the arrows, Page Up, Page Down, Home and End choose a row; Enter '
                 'opens a job, a host or a rank, and Esc goes back; s sorts by the waiting that is '
                 'caused, by processors, memory, steps or rank; f shows hosts in the place of '
                 'ranks, or ranks again. Hosts stand for their ranks, too, where these do not fit. '
                 'When the job ends, how it did and the last numbers stay on the terminal.',
        'examples': 'reigen top\nreigen top -n 1 r-20260131 | sort -k7 -n\n'
                    'reigen top --json -n 60 r-20260131 > minute.json',
        'see': ('reigen-status', 'reigen-jobs', 'reigen-logs')},
    'report': {
        'about': 'DIR is what reigen run --record has written; with a job of reigen jobs --all '
                 'that was recorded, its folder is found by itself. Where Slurm (--submit) or '
                 'Kubernetes runs its launcher and the folder is not here, the record is copied to '
                 'JOB.record by the way that reigen top takes; that takes a job that runs. '
                 'A record is as good as it is long: of a job that runs, or whose launcher was '
                 'killed, the page says where it ends. The exit code is 0, whatever became of '
                 'the job; 2 where there is no record, no such job, or JOB.record holds '
                 'something else; 69 where that job was not recorded or its record is not '
                 'reached; 74 or 77 where the page or the copy cannot be written.',
        'examples': 'reigen run --record night -np 8 -- python train.py\n'
                    'reigen report night\n'
                    'reigen report -o before-after.html last-night night',
        'see': ('reigen-run', 'reigen-top', 'reigen-jobs')},
    'render': {
        'about': 'It asks no cluster, and makes nothing there. Whatever is wrong with a value is '
                 'said before anything is printed.',
        'options': {
            '--describe': 'Say what the parameters of FORMAT are, with types and defaults.',
            '-o, --output FILE': 'Write to FILE. The default is standard output.',
            '--PARAMETER VALUE': 'One of those that --describe lists. --PARAMETER=VALUE is fine, '
                                 'too, and the value null is the same as none.'},
        'examples': 'reigen render\n'
                    'reigen render kubeflow-openmpi --describe\n'
                    'reigen render kubeflow-openmpi openmpi --image IMAGE --secret SECRET | '
                    'kubectl apply -f -\n'
                    'reigen render mpijob train -np 8 --gpus 4 --image IMAGE -- reigen run -- '
                    'python train.py',
        'see': ('reigen-run',)},
    'pai': {
        'about': 'It asks no server. check ends with 0 where there are warnings only, and with 2 '
                 'where there are errors. convert repairs what it can, ends with 2 where the job '
                 'would mean something else, and writes the file alone to standard output.',
        'options': {
            '--json': 'With check: print one JSON object with all that was found.',
            '--to v1|v2': 'With convert: API v1 (JSON) or protocol v2 (YAML). The version that the '
                          'file has is fine, too: then the file is only repaired.',
            '-o, --output FILE': 'With convert: write to FILE. The default is standard output.',
            '--keep-sleep': 'With convert: leave a sleep before a command as it is. By default '
                            'something that waits for the other tasks takes its place: the ssh '
                            "plugin's sshbarrier where the job has it, else a loop of a POSIX "
                            'shell.',
            '--image-has-reigen': 'With convert: the image has reigen in PATH, so that '
                                  'reigen wait-workers takes the place of the sleep.',
            '--agent-url URL#sha256=HEX': 'With convert: wait-workers of reigen-agent takes the '
                                          'place of the sleep. The command fetches the agent first '
                                          'and compares its digest.',
            '--agent-path PATH': 'With convert: the same, where the agent is at PATH in the '
                                 'containers, as on a storage.'},
        'examples': 'reigen pai check job.json\n'
                    'reigen pai convert --to v2 -o job.yaml job.json\n'
                    'reigen pai convert --to v1 --image-has-reigen -o repaired.json job.json',
        'see': ('reigen-run',)},
    'wait-workers': {
        'about': 'It takes the place of a sleep in front of mpirun. On the head it ends with 0 as '
                 'soon as every worker is ready, and with 124 after --start-timeout, naming who is '
                 'not and why. On a worker it says that the worker is ready, does the jobs that '
                 'reigen run on the head has for it, and ends with 0 when the process on the head '
                 'that has started wait-workers there does, such as its script. Without ssh, '
                 'workers are known by a secret: REIGEN_KEY, or the file that REIGEN_KEY_FILE '
                 'names, the same on all hosts, with 16 characters or more. reigen-agent '
                 'wait-workers does the same with nothing else of Reigen, but looks up no names.',
        'options': {
            '--ssh': 'A worker is ready when ssh HOST true works. This is the default where ssh is '
                     'in PATH and, in OpenPAI, all tasks have a port for it.',
            '--no-ssh': 'A worker is ready when it has called: it runs reigen wait-workers, too.',
            '--hosts HOSTS': 'The workers, as -H of reigen run takes them. In OpenPAI: all tasks.',
            '--hostfile FILE': 'A file that names them, as of reigen run.',
            '--head HOST[:PORT]': 'This host is a worker, and calls that one. In OpenPAI a task '
                                  'knows that by itself.',
            '--name NAME': 'What this worker is called among those that the head waits for. The '
                           "default is the host's name.",
            '--port PORT': "The head's port, the same on all hosts. The default is 7461, or in "
                           "OpenPAI the head's port reigen or http; there REIGEN_POD_PORT in all "
                           'tasks names another one.',
            '--start-timeout SECONDS': 'How long to wait. The default is 300.',
            '-q, --quiet': 'Say nothing but errors.'},
        'examples': 'reigen wait-workers && mpirun -hosts master-0,worker-0 -n 2 python train.py\n'
                    'REIGEN_KEY_FILE=key reigen wait-workers --no-ssh --hosts a,b\n'
                    'REIGEN_KEY_FILE=key reigen wait-workers --no-ssh --head c --name a',
        'see': ('reigen-run', 'reigen-pai')},
    'config': {
        'about': 'The file has sections [defaults] and [profile NAME], with lines OPTION = VALUE: '
                 'the names of the options of reigen run, and what would stand behind them there. '
                 'An option that may be repeated has a line for each value. Lines that begin with '
                 '# are comments. The command line wins over a job file, that over variables of '
                 'the environment, those over the profile, and that over the defaults. reigen '
                 'run, plan, doctor and bench read it; horovodrun, torchrun and srun-docker do '
                 'not. A file that others can write, or that belongs to somebody else, is '
                 'refused. The exit code is 2 where something in it is wrong.',
        'options': {
            '--profile NAME': 'With this profile. The default is REIGEN_PROFILE, else none.',
            '--all': 'Show the options of which nothing is said, too.',
            '--json': 'Print one JSON object.',
            'REIGEN_CONFIG': 'The variable names another file; where it is empty, none is read. '
                             'Without it $XDG_CONFIG_HOME stands for ~/.config.'},
        'examples': 'reigen config\nreigen config --profile cluster-a\nreigen config --all --json',
        'see': ('reigen-run', 'reigen-job')},
    'man': {
        'about': 'On a terminal the page is shown with MANPAGER, PAGER, less or more, whichever '
                 'there is first. Elsewhere it is printed as plain text. PAGE may leave out '
                 '"reigen-".',
        'options': {'--roff': "Print the page's source, for man -l - and for files."},
        'examples': 'reigen man run\nreigen man run | grep -A3 timeout\n'
                    'reigen man --roff reigen-job > reigen-job.5',
        'see': ('reigen-help',)},
    'completion': {
        'about': 'make install and pip put these scripts where the shells look for them.',
        'options': {
            'bash, zsh, fish': 'The script for this shell.',
            '--hosts': "The hosts that the scripts offer: those of ssh's configuration, of "
                       'known_hosts, and of the job that this runs in.',
            '--jobs': 'Your jobs.',
            '--profiles': 'The profiles of your configuration.',
            '--interfaces': "This computer's network interfaces."},
        'examples': 'eval "$(reigen completion bash)"\n'
                    'reigen completion zsh > ~/.zfunc/_reigen\n'
                    'reigen completion fish > ~/.config/fish/completions/reigen.fish'},
    'sshd': {
        'about': 'A real sshd with keys of its own, which are made where they are missing. Hosts '
                 'that share or copy the directory of the keys trust each other.',
        'options': {'-p PORT': 'Listen there. The default is 12345.',
                    '--dir DIR': 'Keep the keys in DIR. The default is ~/.ssh.',
                    '-D': 'Stay in the foreground.',
                    '--as-sshd': 'Stand in the place of /usr/sbin/sshd, as in an image: without '
                                 'a port, or with 22, start it with the keys and settings of the '
                                 'system.',
                    'OPTION': 'Any other of sshd (8), which gets it. With -C, -f, -c, -h, -i, -T '
                              'and -t it is started with the keys and settings of the system.'},
        'examples': 'reigen sshd -p 12345',
        'see': ('reigen-sshconfig',)},
    'install-scripts': {
        'about': 'The links lead to this reigen, and are made again where they lead to one that is '
                 'gone. Nothing else of that name is touched.',
        'examples': 'reigen install-scripts ~/.local/bin',
        'see': ('reigen-srun-docker', 'reigen-run-dock-asuser', 'reigen-sshconfig')},
    'version': {'examples': 'reigen version'},
    'help': {'examples': 'reigen help run\nreigen help run slurm\nreigen help all',
             'see': ('reigen-man',)},
}

#: What the pages of commands with a table of their own lead to, but for those that replace scripts.
SEE = {'bench': ('reigen-run', 'reigen-doctor', 'reigen-simulate'),
       'torchrun': ('reigen-run', 'horovodrun'),
       'simulate': ('reigen-bench',)}


def put(words: str) -> str:
    """Lines as they are: backslashes and leading dots and quotes have a meaning in troff, and
    dashes are to stay dashes."""
    return re.sub(r"(?m)^(?=[.'])", r'\\&', words.replace('\\', '\\e').replace('-', '\\-'))


def fill(words: str) -> str:
    """Running text, in lines of the length that readers of the source expect."""
    lines: List[str] = []
    for word in map(put, words.split()):
        if lines and len((lines[-1] + ' ' + word).encode()) <= LINE_LENGTH:
            lines[-1] += ' ' + word
        else:
            lines.append(word)
    return '\n'.join(lines) + '\n'


class Page:
    """One page, as its text grows."""

    def __init__(self, tables: Tables, name: str, section: int = 1) -> None:
        self.tables = tables
        self.text = (f'.TH "{name}" "{section}" "{DATE}" "Reigen {tables["version"]}" "Reigen"\n'
                     '.SH NAME\n')
        self.name = name

    def name_line(self, summary: str) -> None:
        self.text += f'{put(self.name)} \\- {put(summary)}\n'

    def synopsis(self, bold: str, rest: str) -> None:
        self.text += f'.SH SYNOPSIS\n.B {bold}\n{rest}\n'

    def section(self, title: str, words: str = '') -> None:
        self.text += f'.SH {title}\n' + (fill(words) if words else '')

    def paragraph(self, words: str) -> None:
        self.text += '.PP\n' + fill(words)

    def entry(self, left: str, right: str) -> None:
        self.text += f'.TP\n.B {put(left)}\n{fill(right)}'

    def examples(self, lines: str, title: str = 'EXAMPLES') -> None:
        self.section(title)
        self.text += f'.nf\n{put(lines)}\n.fi\n'

    def options(self, kind: str, hidden: Any = lambda option: False) -> None:
        """All options of a table, below the headings of their groups."""
        self.section('OPTIONS')
        for title in self.tables[f'{kind}_groups']:
            self.text += f'.SS "{title}"\n'
            for option in self.tables[f'{kind}s']:
                if option['group'] == title and not hidden(option):
                    self.entry(option['left'], option['help'])

    def exit_codes(self, title: str, remedies: bool = False) -> None:
        self.section(title)
        for code in self.tables['exits']:
            number = '128+n' if code['code'] == 128 else code['code']
            self.entry(f'{number} ({code["name"]})', code['meaning'])
            if remedies:
                self.text += '.br\n' + fill(code['remedy'])

    def see(self, *pages: str) -> None:
        """Pages of section 1, but for the job file's."""
        self.section('SEE ALSO')
        self.text += ',\n'.join(f'.BR {put(page)} ({5 if page == "reigen-job" else 1})'
                                for page in pages) + '\n'


def brief(tables: Tables, name: str) -> str:
    """What a command does, in a few words."""
    return str(next(c['brief'] for c in tables['commands'] if c['name'] == name))


def page_reigen(tables: Tables) -> str:
    page = Page(tables, 'reigen')
    page.name_line('run data-parallel training')
    page.synopsis('reigen', '.I COMMAND\n[ARGUMENT...]')
    page.section('DESCRIPTION',
                 'Reigen runs N copies of one script on the processors you have, and owns their '
                 'life: it starts them, carries their input and output, names the one that fails '
                 'first, and leaves nothing behind.')
    page.section('COMMANDS')
    for command in tables['commands']:
        page.entry(f'reigen {command["name"]} {command["args"]}'.rstrip(), command['summary'])
    page.section('ENVIRONMENT')
    page.entry('NO_COLOR', 'When set and not empty, reigen uses no colours.')
    page.see('reigen-run', 'reigen-explain', 'reigen-job', 'horovodrun', *script_pages(tables),
             *(f'reigen-{name}' for name in COMMANDS))
    return page.text


def page_run(tables: Tables) -> str:
    page = Page(tables, 'reigen-run')
    page.name_line(brief(tables, 'run'))
    page.synopsis('reigen run', '[OPTION...] [\\-\\-] COMMAND [ARGUMENT...]')
    page.section('DESCRIPTION',
                 'Runs copies of COMMAND, called ranks. The job ends when all have ended; when one '
                 'fails, the others get SIGTERM and, after the grace time, SIGKILL, and reigen '
                 'names the rank that failed first.')
    page.paragraph("Options have one dash or two, and their value after a space or '='. Names are "
                   'not abbreviated. Options end at -- or at the first argument that is none. '
                   'Flags of torchrun, mpirun, mpiexec, srun, accelerate and deepspeed are '
                   'understood, too; docs/launchers.md lists them.')
    page.paragraph('SIGINT and SIGTERM reach every rank; a second one ends the job at once. '
                   'SIGTSTP stops the ranks and reigen, SIGCONT resumes both. SIGHUP, SIGUSR1, '
                   'SIGUSR2 and SIGWINCH are handed on.')
    page.options('option')
    page.section('OUTPUT',
                 'With more than one rank, lines are shown whole and begin with [rank]; what '
                 'follows a line longer than 64 KiB begins with [rank]+. One rank alone is shown '
                 'as it is.')
    page.exit_codes('EXIT STATUS')
    page.examples('reigen run -np 4 -- python train.py\n'
                  'reigen run -np 2 --output-dir logs --timeout 2h -- ./train')
    page.see('reigen-explain', 'reigen-job')
    return page.text


def page_explain(tables: Tables) -> str:
    page = Page(tables, 'reigen-explain')
    page.name_line(brief(tables, 'explain'))
    page.synopsis('reigen explain', '[CODE]')
    page.section('DESCRIPTION', 'Prints what an exit code of reigen run means, and what to do. '
                                'Without CODE it prints the table.')
    page.exit_codes('EXIT CODES', remedies=True)
    page.see('reigen-run')
    return page.text


def page_job(tables: Tables) -> str:
    #: By enum rg_option_file; None: such an option stands in no file.
    kinds = (None, '', 'true or false', 'one or a list', 'a list, or a mapping NAME: VALUE',
             'one, a list, or a mapping HOST: SLOTS')
    page = Page(tables, 'reigen-job', 5)
    page.name_line('the job file of reigen run')
    page.section('DESCRIPTION',
                 'A YAML file with one mapping, read by reigen run --config. Its keys are the '
                 'names of the options of reigen-run(1), and their values mean the same; options '
                 'on the command line override it. Unknown keys, repeated keys and wrong values '
                 'are errors, shown with file, line and column. Aliases and tags are not allowed.')
    page.section('KEYS')
    for key in tables['keys']:
        page.entry(f'{key["name"]}: {key["arg"]}', key['help'])
    for option in tables['options']:
        kind = kinds[option['file']]
        if kind is not None:
            value = option['arg'] or ''
            page.entry(f'{option["key"]}: ' + (f'{value} ({kind})' if value and kind
                                               else value + kind), option['help'])
    page.examples('command: [python, train.py, --epochs, "4"]\nnp: 4\nenv:\n  OMP_NUM_THREADS: 1\n'
                  '  LANG:\nshare-env: [API_TOKEN]\noutput-dir: logs\ntimeout: 2h', 'EXAMPLE')
    page.see('reigen-run')
    return page.text


def file_only(flag: Dict[str, Any]) -> bool:
    """A key of horovodrun's configuration file that is no flag."""
    return bool(flag['key']) and '.' not in flag['key']


def page_horovodrun(tables: Tables) -> str:
    page = Page(tables, 'horovodrun')
    page.name_line(brief(tables, 'horovodrun'))
    page.synopsis('horovodrun', '\\-np N [FLAG...] COMMAND [ARGUMENT...]')
    page.section('DESCRIPTION',
                 'Runs copies of COMMAND, called ranks, as reigen run does, for command lines '
                 "written for Horovod's command of this name. reigen horovodrun is the same. Each "
                 "line of a rank's output begins with [rank]<stdout>: or [rank]<stderr>:")
    page.paragraph("Flags have one dash or two, and their value after a space or '='. A long name "
                   'may be shortened as long as one flag has that beginning. The command begins at '
                   'the first argument that is no flag, or after --.')
    page.options('flag', file_only)
    page.section('CONFIGURATION FILE',
                 'The YAML file of --config-file is a mapping of sections: params, autotune, '
                 'timeline, stall_check, library_options and logging. Unknown keys and wrong '
                 'values are errors, shown with line and column. section.key:')
    for flag in filter(lambda flag: flag['key'], tables['flags']):
        page.entry(f'{flag["key"]}: {flag["value"] or "true or false"}',
                   flag['help'] if file_only(flag) else f'As {flag["names"][0]}.')
    page.exit_codes('EXIT STATUS')
    page.examples('horovodrun -np 4 python train.py\n'
                  'horovodrun -np 4 -H localhost:4 --output-filename logs python train.py')
    page.see('reigen-run', 'reigen-explain')
    return page.text


def script_pages(tables: Tables, named: bool = False) -> List[str]:
    """Of the commands with a table of their own; named: of those that stand in for scripts."""
    return [f'reigen-{command["name"]}' for command in tables['commands']
            if command['script'] and (command['script']['name'] or not named)]


def page_script(tables: Tables, command: Dict[str, Any]) -> str:
    script = command['script']
    page = Page(tables, f'reigen-{command["name"]}')
    also_named = f', {script["name"]}' if script['name'] else ''
    page.text += (fill(page.name + also_named) + f'\\- {put(script["summary"])}\n'
                  f'.SH SYNOPSIS\n.B {script["under"]}reigen\n.B {command["name"]}\n'
                  f'{put(script["usage"])}\n')
    if also_named:
        page.text += (f'.br\n.B {script["under"]}{script["name"]}\n'
                      f'{put(script["usage"])}\n')
    page.section('DESCRIPTION', script['about'])
    page.section('OPTIONS')
    for option in script['options']:
        page.entry(option['left'], option['help'])
    page.section('EXIT STATUS', script['status'])
    page.examples(script['examples'].rstrip('\n'))
    others = SEE.get(command['name']) or [other for other in script_pages(tables, named=True)
                                          if other != page.name]
    page.see('reigen', 'reigen-explain', *others)
    return page.text


def page_command(tables: Tables, command: Dict[str, Any]) -> str:
    """The page of a command that has no tables but its line."""
    words = COMMANDS[command['name']]
    page = Page(tables, f'reigen-{command["name"]}')
    page.name_line(command['brief'])
    page.synopsis(f'reigen {command["name"]}', put(command['args']))
    page.section('DESCRIPTION', command['summary'])
    if 'about' in words:
        page.paragraph(words['about'])
    options = {**words.get('options', {}), **command['options'], **command['shared']}
    if options:
        page.section('OPTIONS')
    for left, right in options.items():
        page.entry(left, right)
    page.examples(words['examples'])
    page.see('reigen', *words.get('see', ()))
    return page.text


def page(tables: Tables, name: str) -> str:
    """The page of this name; a KeyError where there is none."""
    own = {'reigen': page_reigen, 'reigen-run': page_run, 'reigen-explain': page_explain,
           'reigen-job': page_job, 'horovodrun': page_horovodrun}
    if name in own:
        return own[name](tables)
    command = {f'reigen-{c["name"]}': c for c in tables['commands']}[name]
    return page_script(tables, command) if command['script'] else page_command(tables, command)


def also(tables: Tables, name: str) -> Optional[str]:
    """The script's name that means this page, too."""
    return next((c['script']['name'] for c in tables['commands']
                 if c['script'] and f'reigen-{c["name"]}' == name), None)
