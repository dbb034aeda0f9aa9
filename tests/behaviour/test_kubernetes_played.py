# SPDX-License-Identifier: Apache-2.0
"""reigen run --on kubernetes with a program in the place of kubectl, for what no cluster does when
a test wants it to: streams that are cut in the middle, an API server that is away, answers that
never come. tests/kubernetes has the same with a real one."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

from built import PROGRAMS, environment
from kubectl_played import AWAY, ENDS, KILLED, LIMIT, NO_MEMORY, PROXY, RUN, RUNS, THERE
from wait import soon, until



def test_a_log_that_is_cut_and_an_api_server_that_is_away_cost_no_line(played):
    done = played.run(
        get_pods=[RUNS + f'wait_for("cut"); fail({AWAY!r})', f'fail({AWAY!r})',
                  RUNS + 'mark("back"); wait_for("end")\n' + ENDS % 5 + 'time.sleep(100)'],
        logs=['for i in range(3): say(f"2026-01-01T00:00:0{i}.5Z line {i}\\n")\n'
              f'say("2026-01-01T00:00:03Z li"); mark("cut"); fail({AWAY!r})',
              f'fail({AWAY!r})',
              'wait_for("back"); assert "--since-time=2026-01-01T00:00:01Z" in words\n'
              'for i in range(1, 5): say(f"2026-01-01T00:00:0{i}.5Z line {i}\\n")\nmark("end")'])
    assert done.returncode == 5, done
    assert done.stdout == ''.join(f'line {i}\n' for i in range(5)), done
    assert done.stderr.count('does not answer') == 1 and 'answers again' in done.stderr, done


def test_a_watch_that_ends_by_itself_is_begun_again_without_a_word(played):
    done = played.run(get_pods=[RUNS, RUNS, RUNS + ENDS % 0 + 'time.sleep(100)'],
                      logs=['say("2026-01-01T00:00:00Z one\\n"); time.sleep(1.5)'])
    # A slow start is told, on a busy machine.
    said = [line for line in done.stderr.splitlines()
            if ' ready after ' not in line and ' host up after ' not in line]
    assert (done.returncode, done.stdout, said) == (0, 'one\n', []), done


def test_what_is_forbidden_once_the_job_runs_ends_the_looking_on_and_not_the_job(played):
    done = played.run(get_pods=[RUNS + 'time.sleep(100)'], logs=[
        'fail("Error from server (Forbidden): pods \\"x\\" is forbidden: User \\"u\\" cannot get '
        'resource \\"pods/log\\"")'])
    assert done.returncode == 77 and 'job job goes on, but cannot be followed' in done.stderr, done
    assert not [line for line in played.asked() if line.startswith('delete')]


def test_a_job_that_vanishes_while_nobody_could_look_is_not_waited_for(played):
    done = played.run(get_pods=[RUNS + f'fail({AWAY!r})', 'time.sleep(100)'],
                      logs=[f'fail({AWAY!r})', 'fail("error: pods \\"job-0-a\\" not found")'],
                      get_job=['fail("Error from server (NotFound): jobs.batch \\"job\\" '
                               'not found")'])
    assert done.returncode == 75 and 'the Job job was deleted' in done.stderr, done


def test_what_was_made_is_taken_back_when_the_rest_is_refused(played):
    done = played.run(create=['say("uid")', 'fail("Error from server (Forbidden): error when '
                              'creating \\"STDIN\\": secrets is forbidden: exceeded quota: q")'])
    assert done.returncode == 69 and 'exceeded quota: q; ask for less' in done.stderr, done
    assert any(line.startswith('delete job job') for line in played.asked())
    assert not any(line.startswith('patch') for line in played.asked())


# A libcurl without unix sockets: it has all functions, and no option is known to it.
CURL = ''.join(f'long curl_{name}(void) {{ return {48 if name == "easy_setopt" else 1}; }}\n'
               for name in (
                   'easy_init', 'easy_setopt', 'easy_getinfo', 'easy_cleanup', 'easy_strerror',
                   'multi_init', 'multi_setopt', 'multi_add_handle', 'multi_remove_handle',
                   'multi_socket_action', 'multi_info_read', 'multi_cleanup', 'slist_append',
                   'slist_free_all'))


@pytest.mark.parametrize('curl', [False, True])
def test_without_a_proxy_kubectl_makes_a_job_step_by_step(played, curl):
    """Where there is no libcurl, or one that knows no unix sockets."""
    for name in ('libcurl.so.4', 'libcurl-gnutls.so.4'):
        (played.folder / name).write_text('none')
    if curl:
        subprocess.run(['cc', '-shared', '-fPIC', '-x', 'c', '-', '-o',
                        played.folder / 'libcurl.so.4'], input=CURL, text=True, check=True)
    played.env['LD_LIBRARY_PATH'] = str(played.folder)
    done = played.run(create=['fail("Error from server (Forbidden): error when creating '
                              '\\"STDIN\\": jobs is forbidden: exceeded quota: q")'])
    assert done.returncode == 69 and 'exceeded quota: q; ask for less' in done.stderr, done
    assert [line.split()[0] for line in played.asked()] == ['create'], played.asked()


@pytest.fixture
def served(played):
    """The same with a kubectl whose `proxy` serves, as far as a job's making needs it."""
    def run(says='None', words=(), **plays):
        return played.run(*words, get_pods=[RUNS + ENDS % 0 + 'time.sleep(100)'], logs=['pass'],
                          proxy=[PROXY.format(says=says)], **plays)
    played.served = run
    yield played
    proxy, = (line for line in played.asked() if line.startswith('proxy'))
    assert not os.path.exists(os.path.dirname(proxy.split('=')[1]))


def test_one_kubectl_makes_a_job(served):
    done = served.served()
    assert (done.returncode, done.stdout) == (0, ''), done
    asked = served.asked()
    assert asked[0].split()[0] in ('proxy', 'config') and asked[1].split()[0] in ('proxy', 'config')
    assert [line for line in asked if line.startswith(('POST', 'PATCH', 'create', 'patch'))] == [
        'POST /apis/batch/v1/namespaces/space/jobs', *(
            f'POST /api/v1/namespaces/space/{kind}' for kind in ('services', 'configmaps',
                                                                 'secrets')),
        'PATCH /apis/batch/v1/namespaces/space/jobs/job'], asked
    assert [line.split()[0] for line in asked].count('config') == 1, asked
    job, *owned, patch = map(json.loads, (served.folder / 'bodies').read_text().splitlines())
    assert job['spec']['suspend'] is True and patch == {'spec': {'suspend': False}}
    assert all(each['metadata']['ownerReferences'][0]['uid'] == 'uid' for each in owned), owned
    note, = (path for path in (served.folder / 'state').rglob('job') if path.is_file())
    assert 'cluster space@ctx\n' in note.read_text()


def test_what_one_kubectl_has_made_is_taken_back_when_the_rest_is_refused(served):
    done = served.served('(403, dict(kind="Status", message="configmaps \\"job\\" is forbidden: '
                         'exceeded quota: q")) if "configmaps" in self.path else None')
    assert done.returncode == 69 and 'exceeded quota: q; ask for less' in done.stderr, done
    assert any(line.startswith('delete job job') for line in served.asked())
    assert not any(line.startswith(('PATCH', 'create', 'patch')) for line in served.asked())


def test_what_one_kubectl_cannot_send_is_sent_by_others_which_say_why_not(served):
    done = served.served('(500, "dial tcp 10.0.0.1:6443: connect: connection refused\\n")',
                         create=['say("uid")', f'fail({AWAY!r})'])
    assert done.returncode == 69 and 'does not answer: The connection to the server 10.0.0.1:6443' \
        in done.stderr, done
    words = [line.split()[0] for line in served.asked()]
    assert [words.count(word) for word in ('POST', 'create', 'delete', 'patch')] == [1, 2, 1, 0]


@pytest.mark.parametrize('says, said', [('os._exit(1)', 'kubectl proxy: '),
                                        ('(500, "EOF\\n")', 'EOF'), ('(502, "")', 'HTTP code 502')])
def test_a_job_whose_answer_one_kubectl_has_lost_is_taken_back(served, says, said):
    """It may have been made."""
    done = served.served(says, get_jobs=[THERE])
    assert done.returncode == 69 and f'API server does not answer: {said}' in done.stderr, done
    words = [line.split()[0] for line in served.asked()]
    assert (words.count('create'), words.count('delete')) == (0, 1), words


def test_a_proxy_ends_with_reigen_also_behind_a_script(played):
    """Whose own death its children do not notice, as where kubectl is a script around another."""
    (played.folder / 'kubectl').rename(played.folder / 'real')
    (played.folder / 'kubectl').write_text(f'#!/bin/sh\n{played.folder}/real "$@"\n')
    (played.folder / 'kubectl').chmod(0o755)
    hangs = 'open(folder + "/proxy-pid", "w").write(str(os.getpid())) and (mark("up"), ' \
            'time.sleep(1000))'
    child = start(played, proxy=[PROXY.format(says=hangs)], config_view=['say("space@ctx")'])
    wait_for(played, 'up')
    child.kill()
    child.communicate(timeout=LIMIT)
    proxy, = (line for line in played.asked() if line.startswith('proxy'))
    left = (os.path.dirname(proxy.split('=')[1]),
            f'/proc/{(played.folder / "proxy-pid").read_text()}')
    until(lambda: not any(map(os.path.exists, left)), 'nothing left', LIMIT)


def test_a_signal_while_a_job_is_submitted_waits_until_it_is(played):
    child = start(played, '--submit', proxy=[PROXY.format(says='mark("up") or time.sleep(0.5)')],
                  config_view=['say("space@ctx")'])
    wait_for(played, 'up')
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=LIMIT)
    assert (child.returncode, out) == (-signal.SIGINT, 'job\n'), err
    assert 'job job was submitted all the same; reigen stop job ends it\n' in err
    proxy, = (line for line in played.asked() if line.startswith('proxy'))
    assert not os.path.exists(os.path.dirname(proxy.split('=')[1]))


def test_the_key_stands_in_no_argument_and_on_no_disk(played):
    done = played.run(
        create=['say("uid")', 'import re\ntext = sys.stdin.read()\n'
                'open(folder + "/key", "w").write(re.search(r\'"key":"(\\w{64})"\', text)[1])'],
        get_pods=[RUNS + ENDS % 0 + 'time.sleep(100)'], logs=['pass'])
    assert done.returncode == 0, done
    key = (played.folder / 'key').read_text()
    assert key not in (played.folder / 'asked').read_text()
    for path in (played.folder / 'state').rglob('*'):
        assert path.is_dir() or key.encode() not in path.read_bytes()


def test_a_second_signal_leaves_a_job_that_does_not_end(played):
    plays = {'create': ['say("uid")'], 'get pods': [RUNS + 'mark("up"); time.sleep(100)'],
             'logs': ['time.sleep(100)'], 'delete': ['mark("deleting"); time.sleep(100)']}
    (played.folder / 'plays').write_text(json.dumps(plays))
    child = subprocess.Popen([*RUN, '--', 'true'], env=played.env, stdin=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
    for name in ('up', 'deleting'):
        wait_for(played, name)
        child.terminate()
    err = child.communicate(timeout=LIMIT)[1]
    assert child.returncode == 143 and 'reigen stop job' in err, err


def start(played, *words, stdout=subprocess.PIPE, **plays):
    (played.folder / 'plays').write_text(json.dumps(
        {'create': ['say("uid")'], 'config current-context': ['say("ctx\\n")'],
         'config view': ['say("space")'], **{n.replace('_', ' '): p for n, p in plays.items()}}))
    return subprocess.Popen([*RUN, *words, '--', 'true'], env=played.env, text=True,
                            stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE)


def wait_for(played, name):
    until((played.folder / name).exists, name, LIMIT)


def test_a_job_that_may_not_be_deleted_is_left_at_once_and_is_not_called_ended(played):
    child = start(played, get_pods=[RUNS + 'time.sleep(100)'], logs=['mark("up"); time.sleep(100)'],
                  delete=['fail("Error from server (Forbidden): jobs.batch \\"job\\" is forbidden: '
                          'User \\"u\\" cannot delete resource \\"jobs\\"")'],
                  get_jobs_pods=['say("{}")'])
    wait_for(played, 'up')
    child.terminate()
    err = child.communicate(timeout=LIMIT)[1]
    assert child.returncode == 143 and 'job job could not be ended (reigen stop job' in err, err
    note, = (path for path in (played.folder / 'state').rglob('job') if path.is_file())
    assert 'exit' not in note.read_text()


def test_a_job_that_is_started_again_and_cannot_be_is_told_why_and_bounded(played):
    began = time.monotonic()
    done = played.run(
        '--start-timeout', '2', get_pods=[
            RUNS + 'wait_for("read"); ' + ENDS % 75 +
            'wait_for("asked-job")\npod("ADDED", name="b", containerStatuses=container(waiting='
            '{"reason": "ContainerCreating"}))\ntime.sleep(100)'],
        get_job=['mark("asked-job"); say("{}")'], get_events=['time.sleep(100)'],
        logs=['mark("read")'])
    assert done.returncode == 124, done
    assert 'the job again: pod job-0-b takes the place of job-0-a' in done.stderr, done
    assert 'within 2 s (--start-timeout): job-0: its container does not start' in done.stderr, done
    assert any(line.startswith('delete job job') for line in played.asked())
    assert soon(began, LIMIT / 6)


def test_a_start_that_took_too_long_has_one_verdict(played):
    """The head's own is that it was told to stop, by us."""
    done = played.run(
        '-np', '2', '--start-timeout', '2', get_pods=[
            RUNS + 'pod(index=1, containerStatuses=container(waiting={"reason": "Slow"}))\n'
            'time.sleep(100)'],
        get_events=['time.sleep(100)'], delete=['mark("deleted"); time.sleep(1)'],
        logs=['say("2026-01-01T00:00:00Z a line\\n"); wait_for("deleted")\n'
              'say("2026-01-01T00:00:01Z reigen: exit code 75\\n"); time.sleep(100)'])
    assert (done.returncode, done.stdout) == (124, 'a line\n'), done
    assert 'within 2 s (--start-timeout): job-1: Slow' in done.stderr, done


def test_a_node_that_was_away_is_why_its_pod_was_killed(played):
    silent = ('pod(containerStatuses=container(running={}), conditions=['
              '{"type": "Ready", "status": "False"}, {"type": "ContainersReady", '
              '"status": "True"}])\n')
    over = {'status': {'conditions': [{'type': 'Failed', 'status': 'True', 'reason': 'r'}]}}
    done = played.run(get_pods=[RUNS + silent + ENDS % 137 + 'time.sleep(100)'],
                      get_job=[f'say({json.dumps(over)!r})'])
    assert done.returncode == 76, done
    assert 'job-0-a on node1: NodeLost: its node did not answer, and killed it (137)' in \
        done.stderr, done


@pytest.mark.parametrize('words', [(), ('--json',)])
@pytest.mark.parametrize('full', [False, True])
def test_a_reader_that_is_gone_ends_the_job_and_a_full_disk_does_not(played, words, full):
    """--json writes before the job is followed."""
    reader, writer = os.pipe()
    os.close(reader)
    with open('/dev/full', 'w') if full else os.fdopen(writer, 'w') as lost:
        child = start(played, *words, get_pods=[RUNS + 'time.sleep(100)'], stdout=lost,
                      logs=['say("2026-01-01T00:00:00Z a line\\n"); time.sleep(100)'])
        err = child.communicate(timeout=LIMIT)[1]
    assert child.returncode == 74, err
    said = 'No space left on device; job job goes on (reigen attach job shows what it writes' \
        if full else 'Broken pipe; ending job job\n'
    assert f'cannot write to standard output: {said}' in err
    assert any(line.startswith('delete job job') for line in played.asked()) != full


@pytest.mark.parametrize('how, code', [('Failed', 3), ('Complete', 0)])
def test_who_comes_after_the_end_sees_the_output_and_the_code(played, how, code):
    """The Job's end is known before its pods are listed."""
    job = {'metadata': {'labels': {'app.kubernetes.io/name': 'reigen'}}, 'spec': {'completions': 1},
           'status': {'conditions': [{'type': how, 'status': 'True', 'reason': 'r'}]}}
    (played.folder / 'plays').write_text(json.dumps({
        'get job': [f'say({json.dumps(job)!r})', f'say({json.dumps(job)!r}); mark("over")'],
        'get pods': ['wait_for("over"); time.sleep(1)\n' + ENDS % code + 'time.sleep(100)'],
        'logs': ['say("2026-01-01T00:00:00Z a line\\n")']}))
    done = subprocess.run([PROGRAMS.reigen, 'attach', '--namespace', 'space', 'job'],
                          env=played.env, text=True, capture_output=True, timeout=LIMIT,
                          check=False)
    assert (done.returncode, done.stdout) == (code, 'a line\n'), done


def test_a_kubectl_that_answers_and_ends_late_is_asked_again_all_the_same(played):
    job = {'metadata': {'labels': {'app.kubernetes.io/name': 'reigen'}}, 'spec': {'completions': 1},
           'status': {'conditions': [{'type': 'Complete', 'status': 'True', 'reason': 'r'}]}}
    (played.folder / 'plays').write_text(json.dumps({
        'get job': [f'say({json.dumps(job)!r})', f'say({json.dumps(job)!r}); time.sleep(2)',
                    'fail("Error from server (NotFound): jobs.batch \\"job\\" not found")'],
        'get pods': ['time.sleep(1000)']}))
    done = subprocess.run([PROGRAMS.reigen, 'attach', '--namespace', 'space', 'job'],
                          env=played.env, text=True, capture_output=True, timeout=LIMIT,
                          check=False)
    assert done.returncode == 69 and 'is not there any more' in done.stderr, done


def test_logs_of_a_replaced_head_come_in_the_order_of_its_pods(played):
    """Of which the newest has not begun. Kubernetes lists them by their names."""
    items = [{'metadata': {'name': f'job-0-{name}',
                           'creationTimestamp': f'2026-01-0{day}T00:00:00Z'}}
             for name, day in (('a', 3), ('b', 2), ('c', 1))]
    job = {'metadata': {'labels': {'app.kubernetes.io/name': 'reigen'}}, 'spec': {'completions': 1}}
    (played.folder / 'plays').write_text(json.dumps({
        'get job': [f'say({json.dumps(job)!r})'],
        'get pods': [f'say({json.dumps({"items": items})!r})'],
        'logs': ['name = next(word for word in words if "job-0-" in word)\n'
                 'if name.endswith("a"):\n'
                 '    fail("Error from server (BadRequest): container is waiting to start")\n'
                 'say(f"2026-01-01T00:00:00Z {name[-1]}\\n")']}))
    done = subprocess.run([PROGRAMS.reigen, 'logs', '--namespace', 'space', 'job'], env=played.env,
                          text=True, capture_output=True, timeout=LIMIT, check=False)
    assert (done.returncode, done.stdout) == (0, 'c\nb\n'), done


def test_an_agent_that_the_image_does_not_have_is_told_of_in_kubernetes_words(played):
    said = 'exec: "/reigen/agent/reigen-agent": no such file or directory'
    done = played.run('--agent-image', 'i', get_pods=[
        'pod(containerStatuses=container(terminated={"exitCode": 128, "reason": "StartError", '
        f'"message": {said!r}}}))\ntime.sleep(100)'])
    assert done.returncode == 125, done
    assert f'on node1: StartError: {said}' in done.stderr, done


def test_what_can_never_start_is_not_waited_for(played):
    event = {'reason': 'FailedCreate', 'involvedObject': {'name': 'job'},
             'message': 'Error creating: pods "job-0-x" is forbidden: exceeded quota: q, '
                        'requested: cpu=2, used: cpu=0, limited: cpu=1'}
    news = {'type': 'ADDED', 'object': event}
    done = played.run(get_pods=['time.sleep(100)'],
                      get_events=[f'say({json.dumps(news)!r}); time.sleep(100)'])
    assert done.returncode == 69, done
    assert 'job-0: FailedCreate: Error creating' in done.stderr, done
    assert 'limited: cpu=1; the quota is too small for all pods' in done.stderr, done


def test_a_job_that_is_over_is_not_left_before_its_log_is_read(played):
    over = {'status': {'conditions': [{'type': 'Complete', 'status': 'True'}]}}
    done = played.run(
        get_pods=[RUNS + 'wait_for("one")', 'time.sleep(100)'],
        get_job=[f'wait_for("one"); say({json.dumps(over)!r}); mark("over")'],
        logs=['say("2026-01-01T00:00:00Z one\\n"); mark("one"); wait_for("over"); time.sleep(1)\n'
              'say("2026-01-01T00:00:01Z two\\n"); mark("end")',
              'fail("error: pods \\"job-0-a\\" not found")'])
    assert (done.returncode, done.stdout) == (0, 'one\ntwo\n'), done


@pytest.mark.parametrize('play, said', [
    ('fail("error: unknown flag: --output-watch-events")', 'this kubectl is too old'),
    ('say("{" * (17 << 20)); time.sleep(100)', 'is larger than 16 MiB'),
    ('fail("a crash that nobody knows")', 'Kubernetes: a crash that nobody knows')])
def test_a_kubectl_that_cannot_look_on_is_given_up_and_the_job_is_not(played, play, said):
    done = played.run(get_pods=[play])
    assert done.returncode == 69 and said in done.stderr, done
    assert 'goes on, but cannot be followed (reigen stop job ends it)' in done.stderr, done
    assert not [line for line in played.asked() if line.startswith('delete')]


def test_a_well_ended_job_that_cannot_be_removed_is_named(played):
    done = played.run(get_pods=[RUNS + 'wait_for("read"); ' + ENDS % 0 + 'time.sleep(100)'],
                      logs=['mark("read")'],
                      delete=['fail("Error from server (Forbidden): jobs is forbidden")'])
    assert done.returncode == 0 and 'job job has ended well, but could not be removed' in \
        done.stderr, done


def test_a_job_of_which_nobody_knows_whether_it_was_made_is_taken_back_by_its_id(played):
    away = 'fail("Unable to connect to the server: unexpected EOF")'
    done = played.run(create=[away], get_jobs=[THERE])
    assert done.returncode == 69 and 'does not answer' in done.stderr, done
    asked = [line for line in played.asked() if line.startswith(('get jobs', 'delete'))]
    assert '--selector=reigen/job-id=' in asked[0] and asked[1].startswith('delete job job'), asked


def test_anothers_job_of_that_name_is_not_taken_back(played):
    done = played.run(create=['fail("Unable to connect to the server: unexpected EOF")'])
    assert done.returncode == 69 and 'does not answer' in done.stderr, done
    assert not any(line.startswith('delete') for line in played.asked())


def test_where_there_is_no_kubectl_it_is_asked_for(played):
    (played.folder / 'kubectl').unlink()
    played.env['PATH'] = str(played.folder)
    done = played.run()
    assert done.returncode == 69 and 'there is no kubectl in PATH here' in done.stderr, done


@pytest.mark.parametrize('words, said', [
    (('--cpu', '2x'), '2x: no quantity'), (('--cpu', '-1'), '-1: no quantity'),
    (('--memory', '8GiB'), '8GiB: no quantity'), (('--memory', ''), 'no quantity'),
    (('--resource', 'amd.com/gpu'), 'name and a quantity'),
    (('--resource', 'a=many'), '--resource a=many: "many" is no quantity'),
    (('--rdma', '=1'), "a resource's name"), (('--stdin', 'all'), 'no standard input'),
    (('--output-dir', 'out'), 'lost with the pods'),
    (('--gpus', 'some'), 'number of GPUs'), (('--node-selector', 'disk'), 'LABEL=VALUE'),
    (('--toleration', 'a=b:Never'), 'EFFECT being NoSchedule'),
    (('--toleration', '=b'), 'KEY[=VALUE]'), (('--namespace', 'Not_One'), 'Not_One'),
    (('--namespace', 'n' * 64), 'no namespace can have this name'),
    (('--service-account', 'A B'), 'no such names'), (('--image-pull-secret', '-a'), 'no such'),
    (('--scheduler', ''), 'no such names'), (('--priority-class', 'P'), 'no such names'),
    (('--queue', 'Q'), 'no such names'), (('--gang', 'all'), 'kubernetes, volcano or'),
    (('--ttl', 'soon'), 'soon'), (('--ttl', '-1'), '-1'), (('--port-range', '9-1'), '9-1'),
    (('--port-range', '1-99999'), '99999'), (('--port-range', '7000'), 'give more'),
    (('--shm-size', 'big'), 'big'), (('--metrics', 'numbers.prom'), 'write :PORT'),
    (('--metrics', 'here:9100'), 'write :PORT'), (('--metrics', ':0'), 'write :PORT'),
    (('--metrics', ':7461'), 'the pods call the head'),
    (('--volume', 'claim'), 'claim'), (('--volume', 'Data_Set:/data'), "no claim's name"),
    (('--volume', 'claim:/reigen/x'), 'not in /reigen'),
    (('--user', 'alice'), 'UID[:GID]'), (('--name', 'Night'), 'a letter'),
    (('--name', '1a'), 'a letter'), (('--name', 'n' * 53), 'at most 52'),
    (('--affinity', '/no/such/file'), '/no/such/file: give spread, pack, or a YAML file'),
    (('--pod-template', '/no/such/file'), '/no/such/file'), (('-H', 'a:1'), '--node-selector'),
    (('--max-restarts', '2'), 'when a rank ends with code 75'),
    (('--env', f'A={"x" * 120000}', '--env', f'B={"x" * 120000}', '--env', f'C={"x" * 120000}'),
     'a ConfigMap takes')])
def test_a_wrong_value_is_refused_before_anything_is_made(played, words, said):
    done = played.run(*words)
    assert done.returncode == 2 and said in done.stderr, done
    assert words[0].strip('-') in done.stderr, done
    assert not [line for line in played.asked() if line.startswith('create')]


@pytest.mark.parametrize('text, said', [
    ('spec: [', 'template.yaml'), ('- a\n', 'one mapping'), ('word', 'one mapping'),
    ('', 'one mapping'), ('kind: Deployment\nspec: {}', 'it is a Deployment'),
    ('containers: []', 'metadata and spec, and nothing else'), ('spec: 3', 'a mapping'),
    ('spec: {containers: 3}', 'a list'), ('spec: {containers: [3]}', 'mappings'),
    ('spec: {containers: [{command: [a]}]}', 'command of the ranks'),
    ('spec: {restartPolicy: Always}', 'restartPolicy: Always'),
    ('spec: {enableServiceLinks: false}', 'leave it out'),
    ('spec: {volumes: [{name: reigen-x}]}', 'reigen-x'), ('spec: {volumes: 3}', 'lists'),
    ('spec: {containers: [{volumeMounts: [{mountPath: /reigen}]}]}', '/reigen is Reigen'),
    ('spec: {containers: [{env: [{name: REIGEN_POD_PORT}]}]}', 'REIGEN_POD_PORT'),
    ('spec: {containers: [{resources: 3}]}', 'mappings'),
    ('spec: {containers: [{env: 3}]}', 'a list'), ('metadata: 3', 'a mapping')])
def test_a_wrong_template_is_refused_before_anything_is_made(played, text, said):
    path = played.folder / 'template.yaml'
    path.write_text(text)
    done = played.run('--pod-template', path)
    assert done.returncode == 2 and said in done.stderr, done
    assert all(line.startswith(('proxy', 'config view')) for line in played.asked())


def test_news_of_an_older_job_of_that_name_are_not_of_this_one(played):
    """Kubernetes keeps events for an hour."""
    news = {'type': 'ADDED', 'object': {
        'reason': 'FailedCreate', 'involvedObject': {'name': 'job', 'uid': 'old'},
        'message': 'pods "job-0-x" is forbidden: violates PodSecurity "restricted:latest"'}}
    done = played.run(
        get_pods=['wait_for("news"); time.sleep(3)\n' + RUNS + 'wait_for("read"); ' + ENDS % 0 +
                  'time.sleep(100)'],
        get_job=['say(\'{"metadata": {"uid": "new"}}\')'],
        get_events=[f'say({json.dumps(news)!r}); mark("news"); time.sleep(100)'],
        logs=['mark("read")'])
    assert done.returncode == 0 and 'PodSecurity' not in done.stderr, done


def test_a_cluster_is_asked_after_a_cut_and_not_for_ever_after(played):
    done = played.run(
        get_pods=[RUNS + 'wait_for("up")', RUNS + 'wait_for("asked-job"); time.sleep(4)\n' +
                  ENDS % 0 + 'wait_for("read"); time.sleep(100)'],
        get_job=['mark("asked-job"); say("{}")'],
        logs=['mark("up"); wait_for("asked-job"); time.sleep(4); mark("read")'])
    assert done.returncode == 0, done
    assert len([line for line in played.asked() if line.startswith('get job ')]) == 1, done


def test_the_log_of_a_job_that_is_removed_is_not_waited_for(played):
    done = played.run('--ttl', '1h', get_pods=[RUNS + 'wait_for("read"); ' + ENDS % 3 +
                                               'time.sleep(100)'], logs=['mark("read")'])
    assert done.returncode == 3, done
    (played.folder / 'plays').write_text(json.dumps(
        {'get pods': ['time.sleep(100)'],
         'get job': ['fail("Error from server (NotFound): jobs.batch \\"job\\" not found")']}))
    offered = subprocess.run([PROGRAMS.reigen, 'completion', '--jobs'], env=played.env, text=True,
                             capture_output=True, timeout=LIMIT, check=False)
    assert offered.stdout == 'job\n', offered
    shown = subprocess.run([PROGRAMS.reigen, 'logs', '-f', 'job'], env=played.env, text=True,
                           capture_output=True, timeout=LIMIT, check=False)
    assert shown.returncode == 69 and 'is not there any more' in shown.stderr, shown
    remark = 'the job again: pod job-0-b takes the place of job-0-a; it has lost job-1-a: Error: '
    over = {'spec': {'completions': 2},
            'status': {'conditions': [{'type': 'Failed', 'status': 'True', 'reason': 'r'}]}}
    (played.folder / 'plays').write_text(json.dumps(
        {'get pods': [KILLED % 1 + ENDS % 76 + 'pod("ADDED", name="b", containerStatuses='
                      'container(running={}))\n' + (KILLED % 0).replace('index=0', 'name="b"') +
                      'mark("ended"); time.sleep(100)'],
         'get job': ['say(\'{"spec": {"completions": 2}}\')',
                     f'say({json.dumps(over)!r} if os.path.exists(folder + "/ended") else "{{}}")'],
         'logs': ['pass']}))
    for path in played.folder.glob('get *.*'):
        path.unlink()
    shown = subprocess.run([PROGRAMS.reigen, 'logs', '-f', 'job'], env=played.env, text=True,
                           capture_output=True, timeout=LIMIT, check=False)
    assert shown.returncode == 0 and remark in shown.stderr, shown
    assert 'Kubernetes has lost pod job-' in shown.stderr, shown


def failed(reason):
    return json.dumps({'status': {'conditions': [{'type': 'Failed', 'status': 'True',
                                                  'reason': reason}]}})


def test_a_pod_that_is_killed_as_a_whole_is_lost_and_the_job_goes_on(played):
    done = played.run(
        get_pods=[RUNS + 'wait_for("read")\n' + KILLED % 0 + 'wait_for("asked-job")\n'
                  'pod("ADDED", name="b", containerStatuses=container(running={}))\n'
                  'wait_for("again")\npod(name="b", containerStatuses=container('
                  'terminated={"exitCode": 0}))\ntime.sleep(100)'],
        get_job=['mark("asked-job"); say("{}")'], logs=['mark("read")', 'mark("again")'])
    assert done.returncode == 0, done
    assert 'job-0-b takes the place of job-0-a, which it has lost: Error: its container was ' \
        'killed as a whole' in done.stderr, done


def test_a_new_heads_log_is_read_once_though_the_old_one_was_to_be_read_again(played):
    """The old one's log has ended, its pod has not, and its successor comes at that time."""
    done = played.run(
        get_pods=[RUNS + 'wait_for("read"); time.sleep(0.5)\n'
                  'pod("ADDED", name="b", containerStatuses=container(running={}))\n'
                  'wait_for("again"); time.sleep(2)\npod(name="b", containerStatuses=container('
                  'terminated={"exitCode": 0}))\nmark("end"); time.sleep(100)'],
        get_job=['say("{}")'],
        logs=['if "job-0-a" in words:\n    mark("read")\nelse:\n    mark("again")\n'
              '    say("2026-01-01T00:00:00Z a line\\n"); wait_for("end")'])
    assert (done.returncode, done.stdout) == (0, 'a line\n'), done
    read = [line for line in played.asked() if line.startswith('logs job-0-b ')]
    assert len(read) == 1, read


def test_a_worker_that_is_lost_once_too_often_is_named_with_its_devices(played):
    sick = ('[{"name": "reigen", "state": {"running": {}}, "allocatedResourcesStatus": '
            '[{"name": "x/gpu", "resources": [{"resourceID": "7", "health": "Unhealthy"}]}]}]')
    done = played.run(
        '-np', '2', get_pods=[RUNS + f'pod(index=1, containerStatuses={sick})\n'
                              'wait_for("read")\n' + ENDS % 76 + KILLED % 1 + 'time.sleep(100)'],
        get_job=[f'say({failed("BackoffLimitExceeded")!r})'], logs=['mark("read")'])
    assert done.returncode == 76, done
    assert 'Kubernetes has lost pod job-1-a on node1: Error: its container' in done.stderr, done
    assert 'Kubernetes says of pod job-1-a on node1: x/gpu 7 is Unhealthy' in done.stderr, done


def test_pods_that_are_up_are_counted_and_why_the_last_one_cannot_be_is_told(played):
    """Its Service was deleted: the others run, and what they have reached nobody outside knows."""
    cause = 'JOB_SERVICE_HOST is not set'
    fault = ('pod(index=1, name="%s", containerStatuses=container(terminated={"exitCode": %d, '
             f'"message": json.dumps({{"fault": True, "cause": "{cause}"}})}}))\n')
    with played.start(
            '-np', '2', get_pods=[RUNS + 'pod(index=1, containerStatuses=container(running={}))\n'
                                  'wait_for("read")\n' + fault % ('a', 75) + 'wait_for("told")\n' +
                                  fault % ('b', 69) + ENDS % 75 + 'time.sleep(100)'],
            get_job=[f'say({failed("PodFailurePolicy")!r})'], logs=['mark("read")']) as child:
        try:
            told = []
            while not re.fullmatch(rf'reigen: 1 of 2 hosts up after \d+ s; job-1 pending '
                                   rf'\({cause}\)\n', told[-1] if told else ''):
                told.append(child.stderr.readline())
                assert told[-1], told
            (played.folder / 'told').touch()
            _, err = child.communicate(timeout=LIMIT)
        finally:
            child.kill()
    assert f'reigen: pod job-1-a on node1 has ended: {cause}; Kubernetes waits 10 s before it ' \
        'makes another one\n' in told, told
    assert child.returncode == 69 and f'pod job-1-b on node1: {cause}' in err, err


def test_a_pod_without_memory_is_not_tried_again(played):
    """The Job counts it as lost, as it knows no reasons."""
    done = played.run(
        '-np', '2', get_pods=[RUNS + 'pod(index=1, containerStatuses=container(running={}))\n'
                              'wait_for("read")\n' + ENDS % 76 + NO_MEMORY % 1 + 'time.sleep(100)'],
        patch=['pass', 'open(folder + "/last", "w").write(sys.stdin.read())\nmark("patched")'],
        get_job=[f'say({failed("r")!r} if os.path.exists(folder + "/patched") else "{{}}")'],
        logs=['mark("read")'])
    assert done.returncode == 137, done
    assert json.loads((played.folder / 'last').read_text()) == {'spec': {'backoffLimit': 0}}
    assert 'Kubernetes ended pod job-1-a on node1: OOMKilled: the pod has used more memory' in \
        done.stderr, done


def test_the_heads_word_is_the_code_where_the_job_must_not_see_it(played):
    told = ('pod(containerStatuses=container(terminated={"exitCode": 1, "reason": "Error", '
            '"message": json.dumps({"exit_code": 137})}))\ntime.sleep(100)')
    done = played.run(get_pods=[RUNS + 'wait_for("read")\n' + told], logs=['mark("read")'])
    assert done.returncode == 137 and 'Kubernetes' not in done.stderr, done


def test_a_pod_that_knows_of_more_starts_than_its_new_head_has_the_last_word(played):
    said = json.dumps({'exit_code': 76, 'fault': True, 'cause': 'it was started 4 times'})
    done = played.run(
        '-np', '2', get_pods=[RUNS + 'wait_for("read")\npod(index=1, containerStatuses=container('
                              f'terminated={{"exitCode": 1, "message": {said!r}}}))\n' +
                              ENDS % 75 + 'time.sleep(100)'],
        get_job=[f'say({failed("PodFailurePolicy")!r})'], logs=['mark("read")'])
    assert done.returncode == 76, done
    assert 'reigen: said by pod job-1-a on node1: it was started 4 times\n' in done.stderr, done


def test_a_container_that_cannot_be_started_is_told_at_once(played):
    done = played.run(get_pods=[
        'pod(containerStatuses=container(terminated={"exitCode": 128, "reason": "StartError", '
        '"message": "exec: /reigen-agent: no such file"}))\ntime.sleep(100)'])
    assert done.returncode == 125, done
    assert 'Kubernetes could not start pod job-0-a on node1: StartError: exec: /reigen-agent: no ' \
        'such file; do --agent-image and the securityContext fit' in done.stderr, done


def test_a_kubectl_that_hangs_is_not_waited_for(played):
    began = time.monotonic()
    done = played.run('--start-timeout', '2', create=['time.sleep(1000)'],
                      get_jobs=[f'fail({AWAY!r})'])
    assert done.returncode == 69 and soon(began, LIMIT / 3), done
    assert 'a part of job job may be left there, which kubectl delete job job removes: ' \
        'kubectl has not ended after 10 s, and was killed' in done.stderr, done


def test_a_secret_that_kubernetes_cannot_pass_on_is_refused(played):
    played.env['TOKEN'] = 'a\udcff'
    done = played.run('--share-env', 'TOKEN')
    assert done.returncode == 2 and '--share-env TOKEN: the value of TOKEN is not UTF-8' in \
        done.stderr, done
    assert not (played.folder / 'asked').exists()


def test_packages_are_packed_once_and_no_copy_is_used_that_is_damaged_or_anybodys(tmp_path):
    def part(**env):
        words = [word for word in RUN if word != '--no-inject-runtime']
        done = subprocess.run([*words, '--dry-run', '--', 'true'], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LIMIT, check=False,
                              env={**environment(), **{k: str(v) for k, v in env.items()}})
        assert done.returncode == 0, done.stderr
        packed, = (line for line in done.stdout.splitlines() if line.startswith('  part: '))
        return packed

    cache = tmp_path / 'cache'
    kept = cache / 'reigen/packages-packed'
    first = part(XDG_CACHE_HOME=cache)
    text, made = kept.read_bytes(), kept.stat()
    assert made.st_mode & 0o777 == 0o600 and [p.name for p in kept.parent.iterdir()] == [kept.name]
    assert part(XDG_CACHE_HOME=cache) == first and kept.stat().st_ino == made.st_ino
    for damaged in (text[:-1], text[:-1] + bytes([text[-1] ^ 1]), text[:40], b'', b'x' + text[1:]):
        kept.write_bytes(damaged)
        assert part(XDG_CACHE_HOME=cache) == first
        assert kept.read_bytes() == text
    kept.write_bytes(text[:-1])
    kept.parent.chmod(0o777)
    assert part(XDG_CACHE_HOME=cache) == first and kept.read_bytes() == text[:-1]
    assert part(XDG_CACHE_HOME='', HOME=tmp_path / 'none') == first
    assert not (tmp_path / 'none').exists()


@pytest.mark.parametrize('text, said', [
    ('spec: {containers: [{imgae: i}]}', 'no image, but imgae; did you mean image?'),
    ('spec: {containers: [{name: train, image: a}, {name: log, image: b}]}',
     'of several containers (train, log) none is called reigen'),
    ('spec: {containers: [{name: reigen}, {name: log, image: b}]}', 'call the ranks\' so'),
    ('spec: {}', "the ranks' container has no image; name it there")])
def test_a_template_without_an_image_is_told_what_it_has(played, text, said):
    path = played.folder / 'template.yaml'
    path.write_text(text)
    (played.folder / 'plays').write_text('{}')
    done = subprocess.run(
        [PROGRAMS.reigen, 'run', '--on', 'kubernetes', '-np', '1', '--no-inject-runtime',
         '--pod-template', path, '--', 'true'], env=played.env, capture_output=True, text=True,
        timeout=LIMIT, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and said in done.stderr, done


def test_the_end_of_a_long_reason_is_kept(played):
    """There stands why: the words in front of it say three times which image it was."""
    message = f'failed to pull "{"r" * 600}/ü": dial tcp: lookup r on 10.0.0.10:53: i/o timeout'
    waiting = json.dumps({'waiting': {'reason': 'ErrImagePull', 'message': message}})
    done = played.run('--start-timeout', '1', get_pods=[
        f'pod(containerStatuses=container(**json.loads({waiting!r})))\ntime.sleep(100)'])
    assert 'job-0: ErrImagePull: failed to pull "rrr' in done.stderr, done
    assert 'rrr...rrr' in done.stderr, done
    assert '/ü": dial tcp: lookup r on 10.0.0.10:53: i/o timeout' in done.stderr, done
