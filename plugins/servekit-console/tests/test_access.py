# SPDX-License-Identifier: Apache-2.0
"""Who may read pages, and who may change something."""

import pytest

from .conftest import OTHER_TOKEN, TOKEN, StandIn, client_of

PAGE = "/console/login"
HTML = {"Accept": "text/html"}
CHROMIUM = (
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;"
    "q=0.8,application/signed-exchange;v=b3;q=0.7"
)
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


def log_in(client, token=TOKEN, **headers):
    return client.post("/console/login", data={"token": token}, headers=headers)


def test_everybody_on_the_machine_reads_pages_of_a_loopback_listener(local):
    assert local.get("/console/").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Host": "evil.example"}, id="another name resolves to this address"),
        pytest.param({"Host": "evil.example:8080"}, id="the same with a port"),
        pytest.param({"X-Forwarded-For": "203.0.113.9"}, id="a proxy has clients elsewhere"),
        pytest.param({"Forwarded": "for=203.0.113.9"}, id="the same by the standard"),
    ],
)
def test_other_requests_to_loopback_need_the_token(local, headers):
    assert local.get("/console/", headers=headers).status_code == 401


def test_another_address_needs_the_token_even_on_loopback(local):
    answer = local.get("/console/", environ_overrides={"REMOTE_ADDR": "192.0.2.1"})

    assert answer.status_code == 401


def test_elsewhere_a_browser_is_led_to_the_login(remote):
    answer = remote.get("/console/?q=1", headers=HTML)

    assert (answer.status_code, answer.headers["Location"]) == (
        303,
        "/console/login?next=/console/?q%3D1",
    )


def test_elsewhere_a_program_is_told_what_it_needs(remote):
    assert remote.get("/console/").status_code == 401
    assert remote.get("/console/", headers=BEARER).status_code == 200


def test_a_token_begins_a_session_that_pages_of_other_sites_cannot_use(remote):
    answer = log_in(remote)
    cookie = answer.headers["Set-Cookie"]

    assert answer.status_code == 303
    assert "SameSite=Strict" in cookie
    assert "HttpOnly" in cookie
    assert "Path=/console/" in cookie
    assert TOKEN not in cookie
    assert remote.get("/console/").status_code == 200


def test_two_servers_of_a_host_do_not_end_the_sessions_of_each_other(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
    served = {port: client_of(StandIn(directory, ("0.0.0.0:1",))) for port, directory in
              (("8080", first), ("9090", second))}  # fmt: skip
    cookies = [log_in(client, Host=f"h.example:{port}").headers["Set-Cookie"].split("=")[0]
               for port, client in served.items()]  # fmt: skip

    assert cookies == ["servekit-console-8080", "servekit-console-9090"]


INPUTS = ["slow", "slow.json", "slow/r-1", "slow/r-1.json", "crashes", "crashes.json"]


@pytest.mark.parametrize("path", INPUTS)
def test_what_clients_send_is_shown_to_those_who_may_predict(tmp_path, path):
    server = StandIn(tmp_path)
    before = client_of(server).get(f"/console/{path}").status_code
    server.predictions_are_open = False
    client = client_of(server)

    assert before in (200, 404)
    assert client.get(f"/console/{path}").status_code == 401
    assert client.get(f"/console/{path}", headers=BEARER).status_code == before


@pytest.mark.parametrize("path", ["", "overview.json"])
def test_the_log_is_shown_to_those_who_may_predict(tmp_path, path):
    server = StandIn(tmp_path)
    assert "what it said" in client_of(server).get(f"/console/{path}").text
    server.predictions_are_open = False
    client = client_of(server)

    assert "what it said" not in client.get(f"/console/{path}").text
    assert "what it said" in client.get(f"/console/{path}", headers=BEARER).text


def test_a_browser_is_led_from_them_to_the_login_and_back(tmp_path):
    server = StandIn(tmp_path)
    server.predictions_are_open = False
    answer = client_of(server).get("/console/slow?model=m", headers=HTML)

    assert (answer.status_code, answer.headers["Location"]) == (
        303,
        "/console/login?next=/console/slow?model%3Dm",
    )


def test_a_browser_whose_session_has_ended_is_led_from_a_change_to_the_login(local):
    sent_from = {**HTML, "Referer": "http://localhost/console/models/m?a"}
    answer = local.post("/console/models/m/scale", data={"replicas": 1}, headers=sent_from)

    assert answer.status_code == 303
    assert answer.headers["Location"] == "/console/login?next=/console/models/m"
    assert local.post("/console/models/m/scale", data={"replicas": 1}).status_code == 401


def test_a_change_that_is_refused_is_told_to_a_browser_on_a_page(local):
    log_in(local)
    sent_from = {**HTML, "Referer": "http://localhost/console/models/m"}
    page = local.post("/console/models/m/scale", data={"replicas": "x"}, headers=sent_from)
    problem = local.post("/console/models/m/scale", data={"replicas": "x"})

    assert (page.status_code, problem.status_code) == (422, 422)
    assert page.headers["Content-Type"].startswith("text/html")
    assert "Nothing has changed" in page.text
    assert 'href="/console/models/m"' in page.text
    assert problem.json["status"] == 422


def test_logging_out_ends_the_session(remote):
    log_in(remote)
    remote.post("/console/logout")

    assert remote.get("/console/").status_code == 401


@pytest.mark.parametrize(("token", "status"), [("wrong", 401), ("", 401), (OTHER_TOKEN, 403)])
def test_another_token_begins_no_session(remote, token, status):
    answer = log_in(remote, token)

    assert answer.status_code == status
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_changes_nothing(local, headers):
    log_in(local)

    assert local.post("/console/logout", headers=headers).status_code == 403
    assert log_in(local, **headers).status_code == 403


def test_a_change_needs_the_token_on_loopback_too(local):
    assert local.post("/console/logout").status_code == 401
    assert local.post("/console/logout", headers=BEARER).status_code == 303


@pytest.mark.parametrize("cookie", ["", "00", "zz", "00" * 80])
def test_a_made_up_cookie_is_no_session(remote, cookie):
    remote.set_cookie("servekit-console", cookie, path="/console/")

    assert remote.get("/console/").status_code == 401


def test_the_sessions_of_one_front_end_are_those_of_another(remote, tmp_path):
    log_in(remote)
    other = client_of(StandIn(tmp_path, ("0.0.0.0:8080",)))
    cookie = remote.get_cookie("servekit-console", path="/console/").value
    other.set_cookie("servekit-console", cookie, path="/console/")

    assert other.get("/console/").status_code == 200


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example/", "/console/\\evil"])
def test_the_login_leads_nowhere_else(remote, path):
    answer = remote.post("/console/login", data={"token": TOKEN, "next": path})

    assert answer.headers["Location"] == "/console/"


def test_pages_load_and_run_nothing_from_elsewhere(local):
    page = local.get(PAGE)

    assert "default-src 'none'; script-src 'self'" in page.headers["Content-Security-Policy"]
    assert "<style" not in page.text
    assert "style=" not in page.text
    assert "http://" not in page.text


@pytest.mark.parametrize("accept", [CHROMIUM, FIREFOX], ids=["Chromium", "Firefox"])
def test_a_browser_is_led_to_the_login_and_told_of_a_missing_page_on_a_page(local, remote, accept):
    led = remote.get("/console/", headers={"Accept": accept})
    missing = local.get("/console/nothing", headers={"Accept": accept})

    assert (led.status_code, led.headers["Location"]) == (303, "/console/login?next=/console/")
    assert missing.status_code == 404
    assert missing.headers["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("accept", ["*/*", "application/json", ""])
def test_a_program_is_refused_as_json(remote, accept):
    answer = remote.get("/console/", headers={"Accept": accept})

    assert answer.status_code == 401
    assert answer.headers["Content-Type"].startswith("application/problem+json")
