"""Marked secrets are put wherever a cell or its commands take one, and none comes out anywhere."""

import base64
import os
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from events.log.kafka.kafka_log import KafkaLog
from events.log.lookup import records
from events.topics import EVERY
from tests.helpers.asking import ask
from tests.helpers.broker import Broker
from tests.helpers.site import Site, empty

PLACES = ("token", "wrong", "umlaut-ä", "cookie", "query", "option", "file", "proxy", "secret", "body")
"""Where a canary is shown."""


def canary(place: str) -> str:
    """A secret that says where it was shown."""
    return f"canary-{place}-{base64.b32encode(os.urandom(15)).decode()}"


def forms(text: str) -> list[bytes]:
    """How a secret may stand in what is written: as it is, in percent signs, in base64 at any place."""
    raw = text.encode()
    in_base64 = [base64.b64encode(b"\0" * pad + raw)[4:-4] for pad in range(3)]
    return [raw, quote(text).encode(), text.encode("latin-1"), text.encode("unicode_escape"), *in_base64]


class Aviary:
    """A cell of processes that all say as much as they can, with what has come out of it so far."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.folder = folder
        self.canaries = {place: canary(place) for place in PLACES}
        self.heard: dict[str, bytes] = {}
        """What was answered or printed, by what was asked."""
        self.site = Site(
            folder / "site",
            empty(broker, 1),
            sim_hosts=0,
            PACELINE_TOKEN=self.canaries["token"],
            PACELINE_LOGS__LEVEL="debug",
            PACELINE_SERVICE__SECRETS=str(folder / "secrets"),
            HTTP_PROXY=f"http://someone:{self.canaries['proxy']}@127.0.0.1:9",
            NO_PROXY="127.0.0.1",
        )

    def ask(self, method: str, path: str, **more: Any) -> httpx2.Response:
        """Asks the API, and keeps the answer with its headers."""
        answer = ask(f"http://{self.site.address('api')}{path}", method, **more)
        head = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        self.heard[f"{method} {path} {more} -> {answer.status_code}"] = head.encode() + answer.content
        return answer

    def run(self, *words: str, given: str = "", **environment: str) -> int:
        """Runs a command, and keeps what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "paceline", *words],
            input=given.encode(),
            capture_output=True,
            env={**os.environ, "PACELINE_DATA": str(self.folder / "own"), **environment},
            check=False,
            timeout=120,
        )
        self.heard[f"{' '.join(words)} -> {done.returncode}"] = done.stdout + done.stderr
        return done.returncode

    def found(self) -> list[tuple[str, str]]:
        """The canaries that came out: where each was shown, and where it stands."""
        texts = dict(self.heard)
        for path in self.folder.rglob("*"):
            if path.is_file() and path.stat().st_mode & 0o077:
                texts[str(path.relative_to(self.folder))] = path.read_bytes()
        with closing(KafkaLog(self.site.bootstrap)) as log:
            for topic in EVERY:
                for record in records(log, topic.name, *log.bounds(topic.name)):
                    texts[f"{topic.name}:{record.offset}"] = record.key + record.value
        for link in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                texts[str(link)] = link.read_bytes()
            except OSError:  # it has ended
                continue
        return [
            (place, where)
            for place, secret in self.canaries.items()
            for where, text in texts.items()
            if any(form in text for form in forms(secret))
        ]


def requests(aviary: Aviary) -> set[int]:
    """Shows canaries in requests that are refused in many ways; returns how they were answered."""
    of = aviary.canaries
    right, job = {"Authorization": f"Bearer {of['token']}"}, {"pool": "/p", "instances": 1}
    as_json = {**right, "Content-Type": "application/json"}
    answers = [
        aviary.ask("GET", path, headers=right) for path in ("/v1/cell", "/v1/operations", "/metrics", "/v1/nothing")
    ]
    for path in ("/v1/jobs", "/v1/jobs/none", "/metrics", "/jobs", "/sign-in"):
        for shown in (of["wrong"], of["umlaut-ä"]):
            answers.append(aviary.ask("GET", path, headers={"Authorization": f"Bearer {shown}".encode()}))
        answers.append(aviary.ask("GET", path, headers={"Cookie": f"session={of['cookie']}; paceline={of['cookie']}"}))
        answers.append(aviary.ask("GET", f"{path}?token={of['query']}&access_token={of['query']}"))
    answers.append(aviary.ask("GET", "/v1/jobs", headers={"Authorization": f"Basic {of['wrong']}"}))
    secret = {"value": of["body"]}
    answers.append(aviary.ask("PUT", "/v1/secrets/ab/..", json=secret, headers=right))
    answers.append(aviary.ask("PUT", "/v1/secrets/x", json={**secret, "more": of["body"]}, headers=right))
    answers.append(
        aviary.ask("PUT", "/v1/secrets/x", content=b'{"value": "' + of["body"].encode() * 60_000, headers=as_json)
    )
    answers.append(aviary.ask("POST", "/v1/jobs", content=b'{"pool": "' + of["body"].encode(), headers=as_json))
    answers.append(aviary.ask("POST", "/v1/jobs", json=job, headers={"Authorization": f"Bearer {of['wrong']}"}))
    return {each.status_code for each in answers}


def invited(aviary: Aviary) -> None:
    """Makes a join token, and shows it where it is no use."""
    url, right = f"http://{aviary.site.address('api')}", {"Authorization": f"Bearer {aviary.canaries['token']}"}
    told = ask(f"{url}/v1/host-invitations", "POST", json={"host_id": "h17"}, headers=right)
    assert told.status_code == 201, told.text
    aviary.canaries["join"] = told.json()["token"]
    own = {"Authorization": f"Bearer {aviary.canaries['join']}"}
    for address in (aviary.site.address("api"), aviary.site.address("gateway.0")):
        answer = ask(f"http://{address}/v1/agents/h17/certificates", "POST", content=b"no request", headers=own)
        aviary.heard[f"join at {address}"] = answer.content
        assert answer.status_code >= 400


def commands(aviary: Aviary) -> None:
    """Shows canaries in commands, right and wrong ones."""
    of, server = aviary.canaries, ("--server", aviary.site.address("api"))
    right = {"PACELINE_TOKEN": of["token"]}
    proxied = {"HTTP_PROXY": f"http://someone:{of['proxy']}@127.0.0.1:9", "NO_PROXY": ""}
    file = aviary.folder / "wrong-token"
    file.write_text(of["file"])
    file.chmod(0o600)
    assert aviary.run("secret", "put", "db", *server, given=of["secret"], **right) == 0
    assert aviary.run("secret", "put", "no/name", *server, given=of["secret"], **right)
    assert aviary.run("secret", "put", "db", *server, "--token", of["option"], given=of["secret"])
    assert aviary.run("--debug", "pool", "remove", "/none", *server, PACELINE_TOKEN=of["wrong"])
    assert aviary.run("--debug", "pool", "remove", "/none", *server, PACELINE_TOKEN=of["umlaut-ä"])
    assert aviary.run("--debug", "pool", "remove", "/none", "--server", "127.0.0.1:9", **right)
    aviary.run("--debug", "job", "list", *server, **right, **proxied)
    bundle = aviary.folder / "bundle.tar.gz"
    assert aviary.run("debug", "bundle", str(bundle), *server, **right, **proxied) == 0
    with tarfile.open(bundle) as archive:
        for member in archive.getmembers():
            if (opened := archive.extractfile(member)) is not None:
                aviary.heard[f"bundle: {member.name}"] = opened.read()


def test_no_secret_comes_out_of_any_part_at_its_most_talkative(broker: Broker, tmp_path: Path) -> None:
    aviary = Aviary(broker, tmp_path)
    site = aviary.site
    try:
        site.begin("agent.0")
        right = {"Authorization": f"Bearer {aviary.canaries['token']}"}
        pool = aviary.ask("PUT", "/v1/pools/p?wait=20s", json={"reservation": {}, "cell": 0}, headers=right)
        assert pool.status_code == 201, pool.text
        assert {200, 400, 401, 404, 413, 422} <= requests(aviary)
        commands(aviary)
        invited(aviary)
        script = "cat $PACELINE_SECRET_DB $PACELINE_TOKEN_FILE; echo; exec sleep 600"
        job = {"job_id": "one", "pool": "/p", "kind": "stateless", "command": ["sh", "-c", script], "secrets": ["db"]}
        job |= {"run_token": True, "resources": {"cpu": "100m"}}
        answer = aviary.ask("POST", "/v1/jobs", json=job, headers=right)
        assert answer.status_code < 300, answer.text
        output = "/v1/jobs/one/tasks/0/log?run=1"
        site.until(lambda: "*****\n" in aviary.ask("GET", output, headers=right).text, "the job to print its secrets")
        [kept] = [each for root in ("/run", "/dev/shm") for each in Path(root).glob("paceline-*/one.0.1/.run-token")]
        aviary.canaries["run"] = kept.read_text()
        own = {"Authorization": f"Bearer {aviary.canaries['run']}"}
        assert aviary.ask("GET", "/v1/jobs/one", headers=own).status_code == 200
        assert aviary.ask("POST", "/v1/jobs/one/stops", json={}, headers=own).status_code == 403
        wrong = {"Authorization": f"{own['Authorization'][:-4]}AAAA"}
        assert aviary.ask("GET", "/v1/jobs/one", headers=wrong).status_code == 401
        for path in ("/v1/jobs/one", "/v1/jobs/one/history", "/jobs/one", "/secrets"):
            aviary.ask("GET", path, headers=right)
        assert aviary.found() == []
    finally:
        site.processes.stop_all()
    assert aviary.found() == []
    (tmp_path / "planted.log").write_text(f"Bearer {aviary.canaries['wrong']}")
    assert aviary.found() == [("wrong", "planted.log")], "a canary that gets out is found"


def test_a_secret_in_any_of_its_forms_would_be_found(tmp_path: Path) -> None:
    secret = canary("umlaut-ä")
    for written in (secret, quote(secret), ascii(secret), base64.b64encode(f"Bearer {secret}".encode()).decode()):
        assert any(form in f"a line with {written} in it".encode() for form in forms(secret)), written
