# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs whose hosts, lists and ranks do what nobody wants of them."""
import os
import re
import signal

from processes import assert_gone
from test_elastic import assert_each_step_once, job, script  # noqa: F401 (fixtures)
from wait import until


def parent(pid):
    """The agent of a rank."""
    with open(f'/proc/{pid}/stat', encoding='ascii') as file:
        return int(file.read().rsplit(')', 1)[1].split()[1])


def sizes(it):
    return {size for _, size in it.steps()}


def test_slots_below_the_living_ranks_end_those_of_the_highest_places(job, script):  # noqa: F811
    it = job(f'-np 4 --min-np 1 --host-discovery-script {script("a:4")}')
    it.wait('step 3 size 4')
    script('a:1')
    it.wait('step .* size 1$', count=3)
    assert int(it.wait(r'train 0 of 1 at (\d+)').group(1)) > 3, 'rank 0 has the state'
    script('a:3')
    it.wait('step .* size 3', count=3)
    it.stop()
    assert it.end() == 0, it.text()
    assert 'aside' not in it.text()
    assert len(re.findall(r'place \d+ pid', it.text())) == 6, 'the first one lives on'
    assert_each_step_once(it)


def test_a_host_named_twice_and_in_any_order_changes_nothing(job, script):  # noqa: F811
    it = job(f'-np 2 --min-np 1 --host-discovery-script {script("a:1" + chr(10) + "b:1")}')
    it.wait('step 3 size 2')
    for text in 'b:1\na:1', 'a:1\nb:1\na:1', '\n\nb:1\n# a word\na:1\n', 'b\na':
        asked = len(it.steps())
        script(text)
        until(lambda n=asked: len(it.steps()) > n + 3, 'more steps', 30)
    it.stop()
    assert it.end() == 0, it.text()
    assert sizes(it) == {2} and 'aside' not in it.text(), it.text()
    assert_each_step_once(it)


def test_a_script_that_changes_its_mind_each_time_costs_no_step(job, tmp_path):  # noqa: F811
    """Every second answer has host b, and is old before its ranks have begun."""
    ask = tmp_path / 'discover'
    ask.write_text(f'#!/bin/sh\necho a:1\nif [ -e {tmp_path}/odd ]\n'
                   f'then rm {tmp_path}/odd; else touch {tmp_path}/odd; echo b:1; fi\n'
                   f'echo >>{tmp_path}/asked\n')
    ask.chmod(0o755)
    it = job(f'-np 1 --min-np 1 --host-discovery-script {ask}')
    it.wait('step 3 size')
    until(lambda: len((tmp_path / 'asked').read_text()) > 30, 'thirty answers', 60)
    it.stop()
    assert it.end() == 0, it.text()
    assert_each_step_once(it)
    assert 'aside' not in it.text(), it.text()


def test_ranks_that_all_fail_end_the_job_with_the_first(job):  # noqa: F811
    it = job('-np 2 --min-np 1 -H a:1,b:1')
    it.wait('step 3 size 2')
    for place in 0, 1:
        os.kill(it.pid(place), signal.SIGKILL)
    assert it.end() == 137, it.text()
    assert it.text().count(' is set aside for the rest of the job: ') == 2, it.text()


def test_hosts_that_are_all_lost_at_once_are_named(job):  # noqa: F811
    it = job('-np 2 --min-np 1 -H a:1,b:1')
    it.wait('step 3 size 2')
    for agent in [parent(it.pid(place)) for place in (0, 1)]:
        os.kill(agent, signal.SIGKILL)
    assert it.end() == 76, it.text()
    for place, host in enumerate('ab'):
        assert f'host {host} is set aside for the rest of the job: rank {place} on {host}: lost ' \
            'with its host (its agent (process ' in it.text()


def test_a_rank_that_ends_well_and_early_ends_nobody(job):  # noqa: F811
    it = job('-np 3 --min-np 1 -H a:1,b:1,c:1', fail=True)
    it.wait('step 3 size 3')
    (it.folder / 'fails').write_text('0')
    (it.folder / 'fails').rename(it.folder / 'fail-2')  # it is read as soon as it is there
    it.wait('step .* size 2', count=3)
    it.stop()
    assert it.end() == 0, it.text()
    assert 'aside' not in it.text(), it.text()
    assert_each_step_once(it)


def test_a_launcher_that_is_killed_takes_all_with_it(job):  # noqa: F811
    it = job('-np 2 --min-np 1 -H a:1,b:1')
    it.wait('step 3 size 2')
    it.child.kill()
    it.child.wait(10)
    assert_gone(str(it.folder))
