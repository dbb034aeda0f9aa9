# SPDX-License-Identifier: Apache-2.0
"""The way to OpenPAI's server: who asks, where it is, redirects, proxies, certificates."""
import pytest

from pai_played import (NOBODYS, TOKEN, V2_JOB, Played, ask, certificate, detail, error,
                        run_client)
from test_pai_client import (AWAY, DENIED, FINE, FOREIGN, JOB, POST, UNTRUSTED, UNUSABLE, page,
                             v1, v2)

__all__ = ['v1', 'v2']


# --- who asks -------------------------------------------------------------------------------------

ALICE = {'REIGEN_PAI_TOKEN': None, 'REIGEN_PAI_USER': 'alice', 'REIGEN_PAI_PASSWORD': 'se"cret'}


def by_token(token):
    """A job, for whoever has this token."""
    def answer(handler):
        if handler.headers.get('Authorization') == 'Bearer ' + token:
            handler.say(detail())
        else:
            handler.say({'code': 'UnauthorizedUserError', 'message': 'm'}, 401)
    return answer


def test_a_password_logs_in(v2):
    v2.play('POST /api/v1/token', lambda h: h.say({'user': 'alice', 'token': 'new'}))
    v2.play('GET ' + JOB, by_token('new'))
    told = ask(v2, 'look', 'train', env=ALICE)
    assert told['why'] == FINE and v2.count('POST /api/v1/token') == 1, told
    assert v2.last('POST /api/v1/token')['body'] == '{"username":"alice","password":"se\\"cret"}'


def test_an_expired_token_and_a_password_log_in_once_more(v2):
    v2.play('POST /api/v1/token', lambda h: h.say({'user': 'alice', 'token': 'new'}))
    v2.play('GET ' + JOB, by_token('new'))
    told = ask(v2, 'look', 'train', env={**ALICE, 'REIGEN_PAI_TOKEN': TOKEN})
    assert told['why'] == FINE and v2.count('POST /api/v1/token') == 1, told
    # Not again and again.
    v2.play('GET ' + JOB, by_token('another'))
    told = ask(v2, 'look', 'train', env={**ALICE, 'REIGEN_PAI_TOKEN': TOKEN})
    assert told['why'] == DENIED and v2.count('POST /api/v1/token') == 2, told


def test_a_job_is_submitted_by_who_logs_in_again(v2):
    v2.play('POST /api/v1/token', lambda h: h.say({'user': 'alice', 'token': 'new'}))
    v2.play('GET ' + JOB, error(401, 'UnauthorizedUserError'), error(404, 'NoJobError'))
    v2.play(POST, lambda h: h.say({'message': 'ok'}, 202))
    told = ask(v2, 'submit', 'train', '2', text=V2_JOB, env={**ALICE, 'REIGEN_PAI_TOKEN': TOKEN})
    assert told['why'] == FINE and v2.count(POST) == 1, told


def test_an_expired_token_alone_is_told(v2):
    v2.play('GET ' + JOB, by_token('new'))
    told = ask(v2, 'look', 'train')
    assert told['why'] == DENIED and told['exit_code'] == 77 and 'expired' in told['error'], told


@pytest.mark.parametrize('answer, why', (
    (error(400, 'IncorrectPasswordError'), DENIED), (error(400, 'NoUserError'), DENIED),
    (page, FOREIGN), (error(404, 'NoApiError'), FOREIGN),
    (lambda h: h.say({'user': 'alice'}), FOREIGN)))
def test_a_login_that_fails(v2, answer, why):
    v2.play('POST /api/v1/token', answer)
    told = ask(v2, 'look', 'train', env=ALICE)
    assert told['why'] == why and told['exit_code'] in (69, 77), told
    assert 'se"cret' not in str(told)


def test_nobody_asks(v2):
    told = ask(v2, 'look', 'train', env={'REIGEN_PAI_TOKEN': None})
    assert told['why'] == UNUSABLE and 'REIGEN_PAI_TOKEN_FILE' in told['error'], told
    told = ask(v2, 'look', 'train', env={'REIGEN_PAI_TOKEN': 'opaque'})
    assert told['why'] == UNUSABLE, told


def test_files_of_secrets_are_nobody_elses(v2, tmp_path):
    token, password = tmp_path / 'token', tmp_path / 'password'
    v2.play('GET ' + JOB, by_token('from.a.file'))
    v2.play('POST /api/v1/token', lambda h: h.say({'token': 'from.a.file'}))
    token.write_text('from.a.file\n')
    password.write_text('secret\n')
    files = {'REIGEN_PAI_TOKEN': None, 'REIGEN_PAI_USER': 'alice'}
    for env in ({'REIGEN_PAI_TOKEN_FILE': token}, {'REIGEN_PAI_PASSWORD_FILE': password}):
        for path in (token, password):
            path.chmod(0o600)
        assert ask(v2, 'look', 'train', env={**files, **env})['why'] == FINE
        for path in (token, password):
            path.chmod(0o640)
        done, _ = run_client('look', 'train', env={'REIGEN_PAI_SERVER': v2.url,
                                                   'REIGEN_PAI_USER': 'alice', **env})
        assert done.returncode == 77 and 'chmod 600' in done.stderr, done


@pytest.mark.parametrize('env, code, said', (
    ({}, 2, 'REIGEN_PAI_SERVER'),
    ({'REIGEN_PAI_SERVER': 'ftp://a'}, 2, 'https://'),
    ({'REIGEN_PAI_SERVER': 'https://u:hidden@a'}, 2, 'a user or a password in it'),
    ({'REIGEN_PAI_SERVER': 'https:///x'}, 2, 'no address'),
    ({'REIGEN_PAI_SERVER': 'https://a/?x'}, 2, 'no address'),
    ({'REIGEN_PAI_SERVER': 'https://a', 'REIGEN_PAI_VERSION': '3'}, 2, 'REIGEN_PAI_VERSION'),
    ({'REIGEN_PAI_SERVER': 'https://a', 'REIGEN_PAI_TOKEN': 'a\nb'}, 2, 'no token has'),
    ({'REIGEN_PAI_SERVER': 'https://a', 'REIGEN_PAI_PASSWORD': 'x'}, 2, 'REIGEN_PAI_USER'),
    ({'REIGEN_PAI_SERVER': 'https://a', 'REIGEN_PAI_CA': '/nowhere'}, 2, '/nowhere'),
    ({'REIGEN_PAI_SERVER': 'https://a', 'REIGEN_PAI_TOKEN_FILE': '/nowhere'}, 2, '/nowhere'),
    ({'REIGEN_PAI_SERVER': 'https://a', 'REIGEN_PAI_TOKEN_FILE': '/'}, 2, 'no file'),
))
def test_what_cannot_be_meant(env, code, said):
    done, _ = run_client('find', env=env)
    assert done.returncode == code and said in done.stderr and 'hidden' not in done.stderr, done


# --- where it is ----------------------------------------------------------------------------------

def test_it_is_behind_the_web_portal(v2):
    v2.play('GET ' + NOBODYS, lambda h: h.say('<html>', 404, 'text/html'))
    v2.play('GET /rest-server' + NOBODYS, error(401, 'UnauthorizedUserError'))
    v2.play('GET /rest-server' + JOB, lambda h: h.say(detail()))
    told = ask(v2, 'look', 'train')
    assert told['why'] == FINE and told['url'] == v2.url + '/rest-server', told
    told = ask(v2, 'look', 'train', env={'REIGEN_PAI_SERVER': v2.url + '/rest-server/',
                                         'REIGEN_PAI_VERSION': 2})
    assert told['why'] == FINE and told['url'] == v2.url + '/rest-server', told


def test_it_is_no_openpai(v2):
    v2.play('GET ' + NOBODYS, page)
    v2.play('GET /rest-server' + NOBODYS, page)
    told = ask(v2, 'look', 'train')
    assert told['why'] == FOREIGN and 'a page in HTML' in told['error'], told


def test_a_version_that_does_not_show_is_asked(v2):
    v2.play('GET ' + NOBODYS, error(404, 'NoJobError'))
    v2.play('GET /api/v2/info', lambda h: h.say({'launcherType': 'k8s'}))
    v2.play('GET ' + JOB, lambda h: h.say(detail()))
    assert ask(v2, 'look', 'train')['version'] == 2
    v2.play('GET /api/v2/info', lambda h: h.say({'launcherType': 'yarn'}))
    v2.play('GET /api/v1/user/alice/jobs/train', lambda h: h.say(detail()))
    assert ask(v2, 'look', 'train')['version'] == 1


# --- redirects ------------------------------------------------------------------------------------

def moves(to, status=302):
    return lambda handler: handler.say('', status, Location=to + handler.path)


def test_a_redirect_to_the_same_server_keeps_the_token(v2):
    v2.play('GET ' + JOB, lambda h: h.say('', 301, Location='/moved'))
    v2.play('GET /moved', by_token(TOKEN))
    assert ask(v2, 'look', 'train')['why'] == FINE


def test_a_redirect_to_another_server_loses_the_token(v2, v1):
    v2.play('GET ' + JOB, moves(v1.url))
    v1.play('GET ' + JOB, by_token(TOKEN))
    assert ask(v2, 'look', 'train')['why'] == DENIED
    assert 'Authorization' not in v1.last('GET ' + JOB)['headers']


def test_what_is_sent_goes_to_no_other_server(v2, v1):
    v2.play(POST, moves(v1.url, 307))
    told = ask(v2, 'submit', 'train', '2', text=V2_JOB)
    assert told['why'] == FOREIGN and 'another host' in told['error'], told
    assert not v1.asked
    v2.play('POST /api/v1/token', moves(v1.url, 308))
    assert ask(v2, 'look', 'train', env=ALICE)['why'] == FOREIGN
    assert not v1.asked


def test_redirects_end(v2):
    v2.play('GET ' + JOB, moves(''))
    told = ask(v2, 'look', 'train')
    assert told['why'] == FOREIGN and 'too often' in told['error'], told
    assert v2.count('GET ' + JOB) == 6


def test_from_http_to_https_and_never_back(v2, tmp_path):
    signed = certificate(tmp_path)
    tls = Played(2, signed)
    try:
        for path in (NOBODYS, JOB):
            v2.play('GET ' + path, moves(tls.url))
        v2.play(POST, moves(tls.url, 301))
        tls.play('GET ' + JOB, by_token(TOKEN))
        trusted = {'REIGEN_PAI_CA': signed}
        assert ask(v2, 'look', 'train', env=trusted)['why'] == FINE
        tls.play('GET ' + JOB, error(404, 'NoJobError'))
        tls.play(POST, lambda h: h.say({'message': 'ok'}, 202))
        assert ask(v2, 'submit', 'train', '2', text=V2_JOB, env=trusted)['why'] == FINE
        assert tls.last(POST)['body'] == V2_JOB
        tls.play('GET ' + JOB, moves(v2.url))
        told = ask(tls, 'look', 'train', env=trusted)
        assert told['why'] == FOREIGN and 'from https to http' in told['error'], told
    finally:
        tls.close()


# --- certificates and proxies ---------------------------------------------------------------------

def test_an_unknown_certificate_is_not_trusted(tmp_path):
    signed, other = certificate(tmp_path), certificate(tmp_path, 'other')
    tls = Played(2, signed)
    try:
        tls.play('GET ' + JOB, lambda h: h.say(detail()))
        for env in ({}, {'REIGEN_PAI_CA': other}):
            told = ask(tls, 'look', 'train', env=env)
            assert told['why'] == UNTRUSTED and told['exit_code'] == 77, told
            assert 'REIGEN_PAI_CA' in told['error'] and not tls.asked
        for name in ('REIGEN_PAI_CA', 'SSL_CERT_FILE'):
            assert ask(tls, 'look', 'train', env={name: signed})['why'] == FINE
    finally:
        tls.close()


def test_proxies_of_the_environment(v2, v1):
    """v1 plays the proxy: it gets to see whole addresses."""
    v1.play('GET ' + NOBODYS, error(401, 'UnauthorizedUserError'))
    v1.play('GET ' + JOB, lambda h: h.say(detail()))
    proxy = {'http_proxy': v1.url, 'REIGEN_PAI_SERVER': 'http://pai.invalid'}
    assert ask(v2, 'look', 'train', env=proxy)['why'] == FINE
    assert v1.last('GET ' + JOB)['target'] == 'http://pai.invalid' + JOB
    v2.play('GET ' + JOB, lambda h: h.say(detail()))
    asked = len(v1.asked)
    assert ask(v2, 'look', 'train',
               env={'http_proxy': v1.url, 'no_proxy': 'localhost'})['why'] == FINE
    assert len(v1.asked) == asked and v2.count('GET ' + JOB) == 1
    _, told = run_client('wait', 'train', '1000', env={
        'REIGEN_PAI_SERVER': 'http://pai.invalid', 'REIGEN_PAI_TOKEN': TOKEN,
        'http_proxy': 'http://localhost:1'})
    assert told[0]['why'] == AWAY, told
