# SPDX-License-Identifier: Apache-2.0
"""A real server with a slow model, one that crashes, and two versions of one."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

import httpx
import pytest

from .console_page import SERVICE, TOKEN, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
WAIT_S = 180.0


def write_model(directory, version):
    directory.mkdir()
    text = f'name = "sleepy"\nversion = "{version}"\nservice = "service:Sleepy"\n'
    (directory / "model.toml").write_text(f'{text}[worker.env]\nSECRET = "hush-hush"\n')
    (directory / "service.py").write_text(SERVICE)
    return directory


@pytest.fixture
def served(serve_model, tmp_path, monkeypatch):
    monkeypatch.setenv("SERVEKIT_MANAGE_TOKEN", TOKEN)
    return serve_model(write_model(tmp_path / "one", "1.0"))


@pytest.fixture
def console(served):
    with httpx.Client(base_url=f"{served.url}/console/", timeout=WAIT_S) as client:
        yield client


class Links(HTMLParser):
    """Collects the text and the target of each link."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found += [value for name, value in attributes if (tag, name) == ("a", "href")]


def follow(console, links, start):
    """Return the page of the first of *links* that begins with *start*."""
    return console.get(next(link for link in links if link.startswith(start))[len("/console/") :])


def test_two_clicks_lead_from_a_slow_model_to_the_part_that_was_slow(served, console):
    served.predict(3)
    wait_for(lambda: console.get("slow.json").json()["requests"], "trace")
    overview = Links(console.get("").text).found
    first = follow(console, overview, "/console/slow?model=sleepy")
    second = follow(console, Links(first.text).found, "/console/slow/")

    assert "mostly" in second.text
    assert console.get("slow.json").json()["requests"][0]["main"]["name"] == "predict"
    assert httpx.get(f"{second.url}.json").json()["duration_s"] >= 3
    assert console.get("slow.json?model=other").json()["requests"] == []
    assert console.get("slow/unknown").status_code == 404


def whole(response):
    """Return the newest crash, once the front-end has said which requests the worker held."""
    return next((each for each in response.json()["crashes"] if each["replays"]), None)


def test_a_crash_is_shown_with_the_requests_that_the_worker_held(served, console):
    answer = served.predict(-1.0)
    crash = wait_for(lambda: whole(console.get("crashes.json")), "crash")
    page = console.get("crashes").text

    assert crash["signal"] == "SIGSEGV"
    assert answer.headers["X-Request-Id"] in crash["request_ids"]
    assert "SIGSEGV" in page
    assert answer.headers["X-Request-Id"] in page


def test_one_copy_of_a_crash_is_a_test_that_fails(serve_model, tmp_path, monkeypatch):
    monkeypatch.setenv("SERVEKIT_MANAGE_TOKEN", TOKEN)
    served = serve_model(write_model(tmp_path / "one", "1.0"), keep_bodies="1KiB")
    served.predict(-1.0)
    crashes, bearer = f"{served.url}/console/crashes.json", {"Authorization": f"Bearer {TOKEN}"}
    wait_for(lambda: whole(httpx.get(crashes)), "crash")
    hidden = httpx.get(crashes).json()["crashes"][0]["replays"][0]
    copied = httpx.get(crashes, headers=bearer).json()["crashes"][0]["replays"][0]
    (tmp_path / "test_crash.py").write_text(copied["pytest"])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_crash.py"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240)

    assert "-1.0" not in hidden["curl"]
    assert "-1.0" in copied["curl"]
    assert served.url in copied["curl"]
    assert found.returncode == 1, found.stdout
    assert "1 failed" in found.stdout


def test_the_page_of_a_model_says_where_its_settings_come_from(console):
    document = console.get("models/sleepy.json").json()
    rows = {row["name"]: row["source"] for row in document["versions"][0]["settings"]}

    assert document["summary"]["state"] == "ready"
    assert rows["batching.max_batch_size"] == "default"
    assert "model.toml" not in document["environment"]
    assert console.get("models/sleepy").status_code == 200
    assert console.get("models/unknown").status_code == 404
    assert console.get("models/sleepy/series.json").json().keys() >= {"times", "p99_s"}


def test_variables_of_the_environment_are_shown_to_those_with_the_token_alone(console):
    bearer = {"Authorization": f"Bearer {TOKEN}"}

    for path in ("models/sleepy.json", "models/sleepy"):
        assert "hush-hush" not in console.get(path).text
        assert "hush-hush" in console.get(path, headers=bearer).text


def test_operators_scale_swap_and_roll_back(console, tmp_path):
    path = "models/sleepy/scale"
    assert console.post(path, data={"replicas": "2"}).status_code == 401
    console.post("login", data={"token": TOKEN})

    def replicas():
        return len(console.get("models/sleepy.json").json()["summary"]["replicas"])

    def version():
        return console.get("models/sleepy.json").json()["summary"]["version"]

    assert console.post(path, data={"replicas": "2"}).status_code == 303
    wait_for(lambda: replicas() == 2 and state_of(console) == "done", "second replica")
    source = write_model(tmp_path / "two", "2.0")
    form = {"source": str(source), "watch_s": "0.1"}
    assert console.post("models/sleepy/swap", data=form).status_code == 303
    wait_for(lambda: version() == "2.0", "swap")
    assert "Roll back" in console.get("models/sleepy").text
    wait_for(lambda: state_of(console) == "done", "end of the swap")
    assert console.post("models/sleepy/rollback").status_code == 303
    wait_for(lambda: version() == "1.0", "rollback")


def state_of(console):
    return console.get("models/sleepy.json").json()["operations"][0]["state"]


@pytest.mark.parametrize(
    ("kind", "form", "complaint"),
    [
        ("scale", {"replicas": "x"}, "replicas: Expected int"),
        ("scale", {}, "Object missing required field replicas"),
        ("swap", {}, "give a source"),
        ("scale", {"replicas": "5000"}, "replicas: Expected int &lt;= 1024"),
    ],
)
def test_a_form_that_is_not_valid_changes_nothing(console, kind, form, complaint):
    console.post("login", data={"token": TOKEN})
    answer = console.post(f"models/sleepy/{kind}", data=form, headers={"Accept": "text/html"})

    assert answer.status_code == 422
    assert complaint in answer.text
    assert json.loads(console.get("models/sleepy.json").text)["operations"] == []


@pytest.mark.parametrize("path", ["models/old", "slow/gone", "nowhere", "nowhere/at/all"])
def test_a_stale_link_leads_to_a_page_for_people_and_to_a_problem_for_programs(console, path):
    page = console.get(path, headers={"Accept": "text/html,*/*;q=0.8"})
    problem = console.get(path)

    assert (page.status_code, problem.status_code) == (404, 404)
    assert page.headers["content-type"].startswith("text/html")
    assert "<h1>" in page.text
    assert 'href="/console/"' in page.text
    assert problem.json()["status"] == 404


def test_requests_that_a_full_queue_refuses_are_shown(serve_model, tmp_path):
    served = serve_model(write_model(tmp_path / "one", "1.0"), queue=1)

    def status():
        return served.predict(0.01).status

    def shown():
        return httpx.get(f"{served.url}/console/overview.json").json()["total"]["refused_per_s"]

    with ThreadPoolExecutor(12) as users, served.paused_worker():
        asked = [users.submit(status) for _ in range(12)]
        wait_for(lambda: any(each.done() for each in asked), "full queue")
        wait_for(lambda: status() == 429 and shown() > 0, "refused request")

    assert {each.result() for each in asked} == {200, 429}
