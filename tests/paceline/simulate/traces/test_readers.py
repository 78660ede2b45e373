"""Traces: each format is read by its rules, run on a cluster, and comes to what plain arithmetic says."""

import gzip
import json
import shlex
from collections import Counter
from itertools import islice

import pytest

from bench.simulate import in_order
from paceline.cli.main import run
from paceline.client.errors import PacelineError
from paceline.simulate.session import RunOptions
from paceline.simulate.traces import TraceOptions, grid, readers, session
from tests.helpers import ROOT

TRACES = ROOT / "bench" / "traces"
SWF = """\
; MaxProcs: 10
; comments begin so
  1  100  5  60  4 -1 -1  4   90 -1 1 1 1 -1 -1 -1 -1 -1
  2  100  5  60 -1 -1 -1  8   30 -1 1 1 1 -1 -1 -1 -1 -1
  3  110  5   0  4 -1 -1  4   90 -1 1 1 1 -1 -1 -1 -1 -1
  4  110  5  60 11 -1 -1 11   90 -1 1 1 1 -1 -1 -1 -1 -1
  5  110  5  60  4 -1 -1  4   -1 -1 1 1 1 -1 -1 -1 -1 -1
  6  130  5  10  1 -1 -1 -1   90 -1 1 1 1 -1 -1 -1 -1 -1
"""


def told(capsys, *words: object) -> dict:
    assert run(["simulate", "--json", *map(str, words)]) == 0
    return json.loads(capsys.readouterr().out)


def write(tmp_path, text: str):
    path = tmp_path / "trace.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_swf_by_its_rules(tmp_path):
    path = write(tmp_path, SWF)
    assert readers.swf_processors(path) == 10
    jobs = list(readers.rigid(readers.swf(path, 10), left_out := Counter()))
    assert [(at_ms, job.job_id, job.instances, job.gang_min, job.simulated.duration_ms) for at_ms, job in jobs] == [
        (0, "job-1", 4, 4, 60_000),
        (0, "job-2", 8, 8, 30_000),
        (30_000, "job-6", 1, 0, 10_000),
    ]
    assert left_out == {"ask for more than the cluster has": 1, "have no run time or no limit": 2}


def test_swf_runs_as_arithmetic_says(tmp_path, capsys):
    found = told(capsys, "--trace", write(tmp_path, SWF), "--format", "swf", "--out", tmp_path / "out")
    rows = (tmp_path / "out" / "jobs.csv").read_text().splitlines()
    waits = {row.split(",")[0]: row.split(",")[10] for row in rows}
    assert waits == {"job_id": "wait_s", "job-1": "0.0", "job-2": "60.0", "job-6": waits["job-6"]}
    assert found["jobs"] == {"SUCCEEDED": 3}
    assert found["tasks"] == 13
    assert found["refused"] == []


ALIBABA = ",submit_time,duration,cpu,memory,job_id,task_id,instances_num,disk\n"


@pytest.mark.parametrize(
    ("form", "text", "where"),
    [
        ("swf", SWF + "7 x\n", "trace.gz:9: is no line of the Standard Workload Format"),
        ("philly", "job_id,submit_s,duration_s,num_gpus,vc\n0,0,5,9x,a\n", "trace.gz:2: "),
        ("philly", "job_id,submit_s,duration_s,num_gpus,vc\n0,0,5,9,a\n", "9 GPUs don't make 2 equal parts"),
        ("philly", "job_id,submit_s,duration_s,num_gpus,vc\n0,0,5,0,a\n", "0 GPUs don't make 0 equal parts"),
        ("philly", "job_id,submit_s,duration_s,num_gpus,vc\n0,0,5\n", "trace.gz:2: has too few columns"),
        ("philly", "job_id,submit_s\n0,0\n", "trace.gz:1: lacks the columns vc, num_gpus, duration_s: is --format"),
        ("swf", "job_id,submit_s\n0,0\n", "lacks the columns run_s, procs, req_s"),
        ("alibaba-batch", ALIBABA + "0,1,2,x,0,1,1,1,0\n", "trace.gz:2: "),
        ("alibaba-batch", ALIBABA + "0\n", "trace.gz:2: has too few columns"),
        ("alibaba-batch", ",submit_time\n0,1,2\n", "trace.gz:1: lacks the columns duration, cpu, memory, job_id"),
        ("alibaba-batch", "", "trace.gz:1: lacks the columns submit_time"),
        ("swf", "; MaxProcs: 4\n", "trace.gz: has no job that this cluster can run"),
        (
            "philly",
            "job_id,submit_s,duration_s,num_gpus,vc\n0,9,5,1,a\n1,2,5,1,a\n",
            "trace.gz: job-1 came 7 s before the one above it: sort the trace by time",
        ),
    ],
)
def test_a_line_that_cant_be_read_is_named(tmp_path, capsys, form, text, where):
    words = ["simulate", "--trace", str(write(tmp_path, text)), "--format", form, "--hosts", "10"]
    assert run(words) == 1
    assert where in capsys.readouterr().err


@pytest.mark.parametrize("form", ["swf", "philly", "alibaba-batch", "openb"])
def test_a_file_that_cant_be_read_is_named_with_what_is_wrong(tmp_path, capsys, form):
    def said(name: str, data: bytes) -> str:
        (tmp_path / name).write_bytes(data)
        more = ["--machines", str(tmp_path / name)] if form == "openb" else ["--hosts", "10"]
        assert run(["simulate", "--trace", str(tmp_path / name), "--format", form, *more]) == 1
        return capsys.readouterr().err

    columns = (*{*readers.PHILLY, *readers.ALIBABA}, "sn", "cpu_milli", "memory_mib", "gpu", "model")
    rows = "; a comment\n" if form == "swf" else ",".join(columns) + "\n" + ("1" + ",1" * 20 + "\n") * 20_000
    whole = gzip.compress(rows.encode())
    assert f"{tmp_path / 'cut.gz'}: is cut off or broken: " in said("cut.gz", whole[:-20])
    assert f"{tmp_path / 'plain.gz'}: Not a gzipped file" in said("plain.gz", b"job_id\n")
    assert f"{tmp_path / 'packed'}: is not UTF-8 text; if it is packed" in said("packed", whole)


MACHINES = "0\tbig\t2\t8\t1\t16777216\n1\tsmall\t3\t4\t1\t4194304\n"
GRID = """\
1 1000 0 60 2 1 9 2 90 1073741824 1 1 1 1 -1 1 1 1 {1,1} q_2h 1:ppn=2:x86_64:nfs4
2 1010 0 99 8 1 9 8 90 2147483648 1 1 1 1 -1 1 1 1 {1} q_2h 2:ppn=4:cl_small
3 1020 0 60 3 1 9 3 90 3145729 1 1 1 1 -1 1 1 1 {1} q_2h 1:ppn=1+1:ppn=2
4 1020 0 60 2 1 9 2 90 0 1 1 1 1 -1 1 1 1 {1} q_2h 1:ppn=2:^small2.grid.cz:^cl_big#excl
5 1020 0 60 2 1 9 2 90 0 1 1 1 1 -1 1 1 1 {1} q_2h 1:ppn=2:nodecpus8
6 1020 0 60 9 1 9 9 90 0 1 1 1 1 -1 1 1 1 {1} q_2h 1:ppn=9
7 1020 0 60 4 1 9 4 90 8589934592 1 1 1 1 -1 1 1 1 {1} q_2h 1:ppn=4:cl_small
8 1020 0 -1 4 1 9 4 90 0 1 1 1 1 -1 1 1 1 {1} q_2h 1:ppn=4
"""


def test_swf_with_a_file_of_machines_asks_for_shares_of_hosts(tmp_path, capsys):
    trace, machines = write(tmp_path, GRID), tmp_path / "machines"
    machines.write_text(MACHINES)
    jobs = list(readers.rigid(grid.jobs(trace, grid.hosts(machines)), Counter()))
    asked = [(at_ms, job.instances, job.resources["cpu"], job.resources["memory"], job.gang_min) for at_ms, job in jobs]
    assert asked == [
        (0, 1, 2000, 1024, 0),
        (10_000, 2, 4000, 2048, 2),
        (20_000, 3, 1000, 2, 3),
        (20_000, 1, 4000, 0, 0),
        (20_000, 1, 2000, 0, 0),
    ]
    assert [[(each.attribute, each.operator, each.values) for each in job.constraints] for _, job in jobs] == [
        [],
        [("cluster", "in", ("small",))],
        [],
        [("hostname", "not_in", ("small2",)), ("cluster", "not_in", ("big",))],
        [("cpus", "in", ("8",))],
    ]
    words = ["--trace", str(trace), "--format", "swf", "--machines", str(machines)]
    found = told(capsys, *words)
    assert (found["jobs"], found["tasks"], found["refused"]) == ({"SUCCEEDED": 5}, 8, [])
    assert run(["simulate", *words, "--hosts", "3"]) == 2
    assert "not with --machines" in capsys.readouterr().err
    for text, said in ((SWF, "is no line of 21 fields"), ("; only\n1 2\n", "trace.gz:2: is no line of 21 fields")):
        assert run(["simulate", *words[:1], str(write(tmp_path, text)), *words[2:]]) == 1
        assert said in capsys.readouterr().err
    for text, said in (
        ("", "machines: names no machines"),
        ("0\tbig\t0\t8\t1\t1\n", "machines:1: is no line of machines: 0 hosts"),
    ):
        machines.write_text(text)
        assert run(["simulate", *words]) == 1
        assert said in capsys.readouterr().err
    machines.write_text("0\tbig\t2\n")
    assert run(["simulate", *words]) == 1
    assert "machines:1: is no line of machines" in capsys.readouterr().err


def test_the_size_of_a_machine_is_its_processors_before_its_nodes(tmp_path):
    sizes = [
        ("; MaxNodes: 144\n; MaxProcs: 1152\n1 0\n; MaxProcs: 1\n", 1152),
        ("; Computer: IBM\n;MaxNodes: 144\n", 144),
        ("; MaxProcs: some\n1 0\n", None),
    ]
    for text, processors in sizes:
        assert readers.swf_processors(write(tmp_path, text)) == processors


def test_a_job_that_comes_twice_is_not_waited_for(tmp_path, capsys):
    twice = write(tmp_path, "job_id,submit_s,duration_s,num_gpus,vc\n0,0,5,1,a\n0,1,5,1,a\n")
    found = told(capsys, "--trace", twice, "--format", "philly", "--hosts", 1)
    assert (found["jobs"], found["rejected"], found["virtual_s"]) == ({"SUCCEEDED": 1}, 1, 5)
    assert found["refused"] == ["job job-0: REPEATED: it was submitted before"]


def test_what_is_used_is_counted_between_samples_too(tmp_path, monkeypatch):
    monkeypatch.setattr("paceline.simulate.report.series.SAMPLES_MAX", 6)
    jobs = [(number, 3 * number, 1 + number % 7, 1 + number % 3) for number in range(100)]
    lines = "".join(f"{number} {at} -1 {run_s} {procs} -1 -1 {procs} 99\n" for number, at, run_s, procs in jobs)
    observers = session(TraceOptions(write(tmp_path, lines), "swf", 10), RunOptions())
    observers.run.run_to_end()
    observers.finish()
    assert len(observers.series.samples) < 10
    held_s = sum(run_s * procs for _, _, run_s, procs in jobs)
    used = observers.body()["figures"]["mean_cpu_used_percent"]
    assert used == pytest.approx(100 * held_s / (10 * observers.run.now_ms / 1000))


def test_an_order_of_arrival_must_be_one_of_the_pods(tmp_path):
    pods = write(tmp_path, "cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,1,1,1000\n")
    order = tmp_path / "order.json"
    for text, said in (
        ("{", "holds no orders of arrival"),
        ('{"seeds": {"1": {}}}', "holds no orders of arrival"),
        ('{"seeds": {"1": {"arrival": [0]}}}', "has no seed 42, only 1"),
        ('{"seeds": {"42": {"arrival": [1]}}}', "orders pods that aren't among the 1 of the trace"),
    ):
        order.write_text(text)
        with pytest.raises(PacelineError, match=said):
            list(readers.openb(pods, order, 42))


def test_what_a_trace_lacks_is_asked_for(tmp_path):
    with pytest.raises(PacelineError, match="say it with --hosts"):
        session(TraceOptions(write(tmp_path, "job_id,\n"), "swf"), RunOptions())
    with pytest.raises(PacelineError, match="--machines"):
        session(TraceOptions(write(tmp_path, ""), "openb"), RunOptions())
    with pytest.raises(PacelineError, match="No such file"):
        session(TraceOptions(tmp_path / "none.csv", "philly"), RunOptions())


def test_the_log_of_a_trace_takes_no_more_room_the_longer_it_is(monkeypatch):
    monkeypatch.setattr("paceline.simulate.world.run.DROP_RECORDS", 1)
    observers = session(TraceOptions(TRACES / "kth_sp2_jobs.csv.gz", "swf", 100, 80), RunOptions())
    observers.run.run_to_end()
    log, total = observers.run.cell.log, observers.run.cell.log.appended
    assert total > 700
    topics = ("jobs", "tasks", "lifecycle", "entitlement", "placement")
    bounds = [log.bounds(f"paceline.{topic}") for topic in topics]
    assert sum(end - start for start, end in bounds) < 400 < sum(end for _, end in bounds)
    assert not observers.log_summary.open


def test_jobs_that_ended_are_forgotten(monkeypatch):
    monkeypatch.setattr("paceline.simulate.traces.FORGET_JOBS", 25)
    observers = session(TraceOptions(TRACES / "kth_sp2_jobs.csv.gz", "swf", 100, 60), RunOptions())
    observers.run.run_to_end()
    assert observers.log_summary.refusals == []
    assert len(observers.run.cell.lifecycle.jobs) <= 40


def test_the_first_jobs_of_kth_wait_as_long_as_plain_arithmetic_says():
    observers = session(TraceOptions(TRACES / "kth_sp2_jobs.csv.gz", "swf", 100, 120), RunOptions())
    observers.run.run_to_end()
    rows = readers.swf(TRACES / "kth_sp2_jobs.csv.gz", 100)
    jobs = [(at_ms / 1000, job) for at_ms, job in islice(readers.rigid(rows, Counter()), 120)]
    plain = in_order([(at, job.simulated.duration_ms / 1000, job.instances) for at, job in jobs], 100)
    assert sorted(observers.jobs.wait_s) == sorted(plain)
    assert max(plain) > 9000


def test_the_raw_log_and_the_table_made_of_it_are_the_same_jobs():
    raw = list(readers.rigid(readers.swf(TRACES / "kth_sp2_head.swf.gz", 100), Counter()))
    table = readers.rigid(readers.swf(TRACES / "kth_sp2_jobs.csv.gz", 100), Counter())
    fields = [(at, job.job_id, job.instances, job.simulated) for (at, job), _ in zip(table, raw, strict=False)]
    assert [(at, job.job_id, job.instances, job.simulated) for at, job in raw] == fields


def test_pools_and_gangs_of_philly(capsys):
    path = TRACES / "philly_head.csv.gz"
    jobs = [job for _, job in readers.philly(path)]
    gangs = [job for job in jobs if job.gang_min]
    assert all(job.gang_min == job.instances and job.resources["gpu"] == 8000 for job in gangs)
    found = told(capsys, "--trace", path, "--format", "philly", "--hosts", 3, "--jobs", 25)
    assert sum(found["jobs"].values()) == 25
    assert set(found["pools"]) <= {f"/{name}" for name in readers.philly_pools(path)}
    assert found["figures"]["mean_wait_s"] > 0, "three hosts are few"


def test_a_job_that_fits_nowhere_ends_no_run(tmp_path, capsys):
    path = write(tmp_path, "job_id,submit_s,duration_s,num_gpus,vc\n0,0,5,16,a\n1,3,5,1,a\n")
    found = told(capsys, "--trace", path, "--format", "philly", "--hosts", 1)
    assert found["jobs"] == {"PENDING": 1, "SUCCEEDED": 1}
    assert found["virtual_s"] == 8


def test_instances_of_alibaba_are_tasks(capsys):
    path = TRACES / "alibaba_batch_head.csv.gz"
    jobs = list(readers.alibaba_batch(path))
    assert [at for at, _ in jobs] == sorted(at for at, _ in jobs)
    found = told(capsys, "--trace", path, "--format", "alibaba-batch", "--jobs", 60)
    assert found["tasks"] == sum(job.instances for _, job in jobs[:60])
    assert found["jobs"] == {"SUCCEEDED": 60}


def test_pods_of_openb_are_placed_at_once_or_dropped(tmp_path, capsys):
    pods, hosts = TRACES / "openb_pods_head.csv.gz", TRACES / "openb_hosts_part.csv"
    arrivals = tmp_path / "arrivals.json"
    arrivals.write_text(json.dumps({"seeds": {"42": {"arrival": [3, 3, 7, *range(100, 150)]}}}))
    assert [pod.resources["cpu"] for pod in readers.openb(pods, arrivals, 42)][:2] == [
        list(readers.openb(pods, None, 0))[3].resources["cpu"]
    ] * 2
    few = tmp_path / "hosts.csv"
    few.write_text("".join(hosts.read_text().splitlines(keepends=True)[:6]))
    words = ("--trace", pods, "--format", "openb", "--machines", few, "--arrivals", arrivals)
    found = told(capsys, *words)
    assert found["jobs"]["RUNNING"] + found["jobs"]["KILLED"] == 53
    assert found["jobs"]["KILLED"] > 0, "five hosts are few"
    refused = write(tmp_path, "cpu_milli,memory_mib,num_gpu,gpu_milli\n0,0,0,0\n1000,99999999,0,0\n")
    found = told(capsys, "--trace", refused, "--format", "openb", "--machines", few)
    assert (found["jobs"], found["rejected"]) == ({"KILLED": 1}, 1)
    for asked in (
        TraceOptions(refused, "openb", machines=few),
        TraceOptions(pods, "openb", machines=few, arrivals=arrivals),
    ):
        assert run([*shlex.split(session(asked, RunOptions()).rerun_command)[1:], "--jobs", "1"]) == 0
    assert run(["simulate", *map(str, words), "--seed", "9"]) == 1
    assert "has no seed 9, only 42" in capsys.readouterr().err
