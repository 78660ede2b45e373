"""A shadow whose worker ends and begins again, and its page."""

import threading

import pytest
from prometheus_client import REGISTRY
from starlette.testclient import TestClient

from paceline.client.errors import PacelineError, Unreachable
from paceline.history.build_protocol import Changed, Differs, Hello, Part, Reached, Stopped, Subject
from paceline.history.other_build import WorkerEnded
from paceline.shadow import follower
from paceline.shadow.follower import Shadow
from paceline.shadow.page import app

HELLO = Hello(1, "9.9.9", {})


class Told:
    """A worker that says what it is given, then raises."""

    def __init__(self, *messages):
        self._messages = messages

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def messages(self):
        for each in self._messages:
            if isinstance(each, Exception):
                raise each
            yield each


class AllParts:
    """Leaves out nothing."""

    def of_the_pass(self, differs):
        return differs.parts


def reached(machine, position, compared, alike, end=None):
    return Reached(machine, position, position, end or position, 1_700_000_000_000 + position, compared, alike, 0, 0)


def differs(machine, number, compared, alike, job="j", kind="GangsAdmitted", recorded=False, decided=True, fault=""):
    rows = [("≠", "job_ids", "(nothing)", '["<b>"]')]
    part = Part(kind, 0 if recorded else -1, recorded, decided, [Subject("/p", job, recorded, decided)], rows)
    parts = [] if fault else [part]
    return Differs(machine, number, number, 1_700_000_000_000 + 1000 * number, 1, 0, parts, compared, alike, 0, fault)


@pytest.fixture
def shadow(monkeypatch):
    monkeypatch.setattr(follower, "RESTART_S", 0.0)
    lines = []
    made = Shadow(7, "build", "Decided by <python>", {"sla": 10, "entitlement": 20}, lines.append)
    made.lines_said = lines
    return made


def run(shadow, *workers):
    """Follows by one worker after the other; returns where each began."""
    begun, left = [], list(workers)

    def start(positions):
        begun.append(dict(positions))
        return left.pop(0)

    shadow.run(start, AllParts(), threading.Event())
    return begun


def rounds(machine, alike):
    labels = {"cell": "7", "machine": machine, "by": "build", "alike": alike}
    return REGISTRY.get_sample_value("paceline_shadow_rounds_total", labels) or 0


def test_a_worker_that_was_killed_goes_on_where_it_was_and_each_round_counts_once(shadow):
    before = {alike: rounds("entitlement", alike) for alike in ("yes", "no")}
    begun = run(
        shadow,
        Told(HELLO, reached("sla", 12, 2, 2), differs("entitlement", 24, 5, 4), WorkerEnded("killed")),
        Told(HELLO, reached("sla", 12, 0, 0), reached("entitlement", 30, 5, 5), differs("entitlement", 31, 6, 5)),
    )
    assert begun == [{"sla": 10, "entitlement": 20}, {"sla": 12, "entitlement": 25}]
    body = shadow.body()
    assert {each["machine"]: (each["rounds"], each["differing"]) for each in body["machines"]} == {
        "sla": (2, 0),
        "entitlement": (11, 2),
    }
    assert (body["restarts"], body["rounds"], body["differing"]) == (1, 13, 2)
    [finding] = body["findings"]
    assert (finding["rounds"], finding["of_rounds"], finding["seconds"]) == (2, 7, 7.0)
    assert (finding["first"]["round"], finding["last"]["round"]) == (24, 31)
    assert rounds("entitlement", "yes") - before["yes"] == 9
    assert rounds("entitlement", "no") - before["no"] == 2
    assert shadow.lines_said == [
        "entitlement round 24 differs: GangsAdmitted not recorded",
        "killed It is started again.",
    ]


def test_who_ends_again_and_again_without_getting_on_is_given_up(shadow):
    workers = [Told(HELLO, reached("sla", 12, 2, 2), WorkerEnded("one"))]
    workers += [Told(WorkerEnded("more")) for _ in range(follower.TRIES_MAX)]
    with pytest.raises(WorkerEnded, match="more"):
        run(shadow, *workers)
    assert shadow.restarts == follower.TRIES_MAX


def test_a_log_that_is_away_later_is_waited_for_and_one_that_never_was_there_ends_it(shadow):
    assert len(run(shadow, Told(HELLO, reached("sla", 12, 2, 2), Unreachable("away")), Told(HELLO))) == 2
    with pytest.raises(Unreachable):
        run(Shadow(7, "build", "", {"sla": 0}, print), Told(Unreachable("away")))


def test_a_machine_that_cannot_be_followed_ends_it_with_its_round(shadow):
    with pytest.raises(PacelineError, match="sla can't be followed after round 4: it was changed"):
        run(shadow, Told(HELLO, Stopped("sla", 4, "it was changed")))


def test_it_is_ready_once_each_machine_is_near_the_end(shadow):
    assert shadow.health()[:2] == (False, False)
    run(shadow, Told(HELLO, reached("sla", 12, 0, 0), reached("entitlement", 20, 0, 0, end=5000)))
    assert shadow.health()[:2] == (True, False)
    run(shadow, Told(reached("entitlement", 4990, 0, 0, end=5000)))
    assert shadow.health() == (True, True, {"behind": {"sla": 0, "entitlement": 10}})


def test_a_build_that_fails_to_decide_is_a_finding_of_its_machine(shadow):
    run(shadow, Told(HELLO, differs("sla", 11, 1, 0, fault="deciding fails: ValueError('x')")))
    [finding] = shadow.body()["findings"]
    assert (finding["machine"], finding["kind"], finding["job_id"]) == ("sla", "fault", None)
    assert shadow.body()["differences"][0]["fault"] == "deciding fails: ValueError('x')"


def test_more_findings_than_are_kept_are_counted_as_one(shadow, monkeypatch):
    monkeypatch.setattr("paceline.history.findings.FINDINGS_MAX", 3)
    run(shadow, Told(HELLO, *(differs("entitlement", 20 + n, n + 1, 0, job=f"j{n}") for n in range(8))))
    found = {each["job_id"] or each["kind"]: each["rounds"] for each in shadow.body()["findings"]}
    assert found == {"j0": 1, "j1": 1, "j2": 1, "others": 5}


def page(shadow, client="127.0.0.1", host="127.0.0.1:7129"):
    return TestClient(app(shadow.health, shadow.body), f"http://{host}", client=(client, 1))


def test_the_page_shows_what_differs_and_takes_nothing_for_its_own_words(shadow):
    run(shadow, Told(HELLO, Changed(["/b share: 1 -> 4"]), differs("entitlement", 24, 5, 4, job="<i>j</i>")))
    text = page(shadow).get("/").text
    for words in (
        "1 of\n5 rounds differ",
        "/b share: 1 -&gt; 4",
        "&lt;i&gt;j",
        "Decided by &lt;python&gt;",
        "&lt;b&gt;",
    ):
        assert words in text, words
    assert "<i>" not in text
    assert page(shadow).get("/v1/shadow").json() == shadow.body()
    assert page(shadow).get("/readyz").status_code == 503


@pytest.mark.parametrize(
    ("client", "host"), [("10.0.0.7", "127.0.0.1:7129"), ("127.0.0.1", "evil.example"), ("::ffff", "x")]
)
def test_who_is_elsewhere_sees_metrics_and_no_jobs(shadow, client, host):
    run(shadow, Told(HELLO, differs("entitlement", 24, 5, 4, job="secret-job")))
    for path in ("/", "/v1/shadow"):
        answer = page(shadow, client, host).get(path)
        assert (answer.status_code, "secret-job" in answer.text) == (403, False)
    metrics = page(shadow, client, host).get("/metrics")
    assert metrics.status_code == 200
    assert "paceline_shadow_rounds_total" in metrics.text
    assert "secret-job" not in metrics.text
