"""Job and pool files: everything wrong is said at once, by line and column, before anything is written."""

import io
import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.yaml_documents import Fault, parse
from paceline import job_files
from paceline.client.errors import Faults
from paceline.job_files import read_jobs, read_pools
from tests.helpers.drawn import examples

GOOD = "pool: /maps/tiles\ncommand: [sh, -c, ls]\n"


def faults(tmp_path, text: str, read=read_jobs) -> list[str]:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(Faults) as caught:
        read([str(path)])
    return [line.removeprefix(f"{tmp_path}/") for line in caught.value.lines]


def one(tmp_path, text: str):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    [found] = read_jobs([str(path)])
    return found


def test_everything_wrong_in_a_file_is_said_at_once_with_its_place(tmp_path):
    text = """\
pool: maps
comand: [sh]
instances: many
resources:
  cpu: 500m
  memroy: 1GiB
  disk: 10
---
pool: /maps/tiles
command: [sh]
pool: /maps/routes
gang:
  min: 3
"""
    assert faults(tmp_path, text) == [
        "job.yaml:1:1: /pool: must be a path such as /maps/tiles: 1 to 8 names, each of 1 to 64 letters, digits, dots, "
        "dashes and underscores, which begins with a letter or digit",
        "job.yaml:2:1: /comand: is not a known field; did you mean command?",
        "job.yaml:3:1: /instances: must be a valid integer",
        "job.yaml:6:3: /resources/memroy: is not a known field; did you mean memory?",
        'job.yaml:7:3: /resources/disk: must be a size with a unit, such as "64MiB" or "2GiB"; '
        "10 has no unit, write 10MiB or 10GiB",
        "job.yaml:11:1: /pool: duplicate key; first at line 9",
        "job.yaml:13:3: /gang/min: is 3, the job has 1 instances",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pol: /a\ncommand: [x]\n", ["1:1: /pol: is not a known field; did you mean pool?"]),
        ("pool: /a\ncomand: [x]\n", ["2:1: /comand: is not a known field; did you mean command?"]),
        (
            'pool: /a\ncomand: [x]\ncommand: [""]\n',
            ["2:1: /comand: is not a known field; did you mean command?", "3:1: /command: must name a program"],
        ),
        (
            "pool: /a\ncommand: [x]\njob_id: Web Shop\n",
            [
                "3:1: /job_id: must be 1 to 128 of a-z, 0-9, dot, dash and underscore, and begin with a letter or "
                "digit; write web-shop"
            ],
        ),
    ],
)
def test_a_typo_is_told_once_and_how_it_is_written(tmp_path, text, said):
    assert faults(tmp_path, text) == [f"job.yaml:{line}" for line in said]


@pytest.mark.parametrize(
    ("size", "hint"),
    [
        ("1GB", "; 1GB isn't known, write 1GiB or 954MiB"),
        ("1.5g", "; 1.5g isn't known, write 1.5GiB"),
        ("512Mi", "; 512Mi isn't known, write 512MiB"),
        ("512", "; 512 has no unit, write 512MiB or 512GiB"),
        ("64KB", ""),
        ("much", ""),
    ],
)
def test_a_size_in_another_unit_is_told_how_it_is_written(tmp_path, size, hint):
    [line] = faults(tmp_path, f"{GOOD}resources: {{memory: {size}}}\n")
    assert line.partition('"2GiB"')[2] == hint


def test_a_list_holds_several_jobs(tmp_path):
    (tmp_path / "jobs.json").write_text('[{"job_id": "a", "pool": "/m", "command": ["x"]}, {"pool": "/m"}]')
    with pytest.raises(Faults, match=r"jobs.json:1:51: /command: must name a program"):
        read_jobs([str(tmp_path / "jobs.json")])
    (tmp_path / "jobs.json").write_text('[{"job_id": "a", "pool": "/m", "command": [",]"]}]')
    assert [job.job_id for job in read_jobs([str(tmp_path / "jobs.json")])] == ["a"]


def test_json_ends_with_no_comma(tmp_path):
    (tmp_path / "job.json").write_text('{"pool": "/m",\n "command": ["x,]",],\n}')
    with pytest.raises(Faults) as caught:
        read_jobs([str(tmp_path / "job.json")])
    assert [line.partition("job.json:")[2] for line in caught.value.lines] == [
        "2:19: JSON takes no comma after the last item",
        "2:21: JSON takes no comma after the last item",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pool: [\n", "job.yaml:2:1: expected the node content, but found '<stream end>'"),
        ("- a\n", "job.yaml:1:3: must be a mapping of fields"),
        ("just text\n", "job.yaml:1:1: must be a mapping of fields"),
        ("a: !!python/object:os.system x\n", "job.yaml:1:4: the tag tag:yaml.org,2002:python/object:os.system"),
        ("? [a]\n: b\n", "job.yaml:1:3: the name of a field must be text"),
        ("a: &x [*x]\n", "job.yaml:1:4: holds itself by an alias"),
        ("a: &x {<<: *x}\n", "job.yaml:1:8: holds itself by an alias"),
        ("<<: [{a: 1}, 2]\n", "job.yaml:1:1: << takes a mapping, or a list of them"),
        ("", "there is no job in it"),
        ("---\n---\n", "there is no job in it"),
    ],
)
def test_what_is_no_job_is_said_with_its_place(tmp_path, text, said):
    [found] = [line for line in faults(tmp_path, text) if said in line]
    assert found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pool: " + "[" * 100_000, "is nested more than 50 levels deep"),
        ("".join(" " * each + "a:\n" for each in range(1000)), "is nested more than 50 levels deep"),
        ('{"a":' * 5000, "is nested more than 50 levels deep"),
        ("- x\n" * 200_000, "has more than 50,000 names and values"),
    ],
    ids=["lists", "mappings", "json", "long"],
)
def test_what_is_too_deep_or_too_much_is_said_before_all_of_it_is_read(tmp_path, text, said):
    (found,) = faults(tmp_path, text)
    assert said in found


def test_a_file_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(job_files, "FILE_BYTES_MAX", 1 << 20)
    with pytest.raises(Faults, match="/dev/zero: is over 1 MiB"):
        read_jobs(["/dev/zero"])


def test_a_bomb_of_aliases_is_refused(tmp_path):
    levels = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9))
    assert any("has more than" in line for line in faults(tmp_path, f"a0: &a0 [x]\n{levels}\n"))
    levels = "\n".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 9))
    assert any("has more than" in line for line in faults(tmp_path, f"a0: &a0 {{x: 1}}\n{levels}\n"))


def test_a_mapping_takes_over_fields_of_another_and_its_own_replace_them(tmp_path):
    path = tmp_path / "pools.yaml"
    path.write_text("- &first {path: /a, share: 2, closed: true}\n- {share: 3, <<: *first, path: /b}\n")
    first, second = read_pools([str(path)])
    assert second.body == first.body | {"share": 3}


def test_yaml_is_that_of_1_2(tmp_path):
    text = GOOD + "env: {A: yes, B: 'no', C: 1:30, D: 2001-01-01, E: off}\npriority: 010\ninstances: 0x10\n"
    spec = one(tmp_path, text).spec
    assert spec.env == {"A": "yes", "B": "no", "C": "1:30", "D": "2001-01-01", "E": "off"}
    assert (spec.priority, spec.instances) == (10, 16)


def test_json_is_read_too(tmp_path):
    assert one(tmp_path, '{"pool": "/maps", "command": ["sh", "-c", "echo \\u00e9"]}').spec.command[2] == "echo é"


def test_a_file_holds_many_jobs_and_a_folder_many_files(tmp_path):
    (tmp_path / "b.yaml").write_text(f"{GOOD}---\n{GOOD}")
    (tmp_path / "a.json").write_text('{"pool": "/maps", "command": ["true"], "job_id": "first"}')
    (tmp_path / "notes.txt").write_text("no job")
    ids = [job.job_id for job in read_jobs([str(tmp_path)])]
    assert ids[0] == "first"
    assert all(each.startswith("b-") for each in ids[1:])
    assert len(set(ids)) == 3


def test_a_list_in_json_is_as_many_jobs_and_its_faults_have_their_places(tmp_path):
    first, second = (
        '{"pool": "/p", "command": ["x"], "job_id": "a"}',
        '{"pool": "/p",\n   "commnd": ["x"], "job_id": "a"}',
    )
    text = f"[\n  {first},\n  {second}, 7\n]\n"
    path = tmp_path / "jobs.json"
    path.write_text(text.replace(", 7", "").replace("commnd", "command").replace('"a"}\n', '"b"}\n'))
    assert [each.job_id for each in read_jobs([str(path)])] == ["a", "b"]
    assert faults(tmp_path, text) == [
        "job.yaml:4:4: /commnd: is not a known field; did you mean command?",
        f"job.yaml:4:21: /job_id: is the id of another job, at {tmp_path}/job.yaml:2",
        "job.yaml:4:37: must be a mapping of fields",
    ]


@pytest.mark.parametrize("text", ['{"pool": "/p", "command": ["x"],}', '[{"pool": "/p", "command": ["x"]},]'])
def test_a_comma_too_many_in_json_does_no_harm(tmp_path, text):
    assert one(tmp_path, text).body["pool"] == "/p"


@pytest.mark.parametrize(
    "text", ['{"pool": "/p", "pool": "/q", "command": ["x"]}', '[{"pool": "/p"}', '{"pool": NaN}', "{} {}"]
)
def test_what_json_forbids_is_told_by_its_place(tmp_path, text):
    assert any(":1:" in line for line in faults(tmp_path, text))


def test_standard_input_is_a_file(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    [job] = read_jobs(["-"])
    assert job.job_id.startswith("job-")
    assert job.body == {"pool": "/maps/tiles", "command": ["sh", "-c", "ls"], "job_id": job.job_id}


def test_the_same_id_twice_is_refused(tmp_path):
    said = faults(tmp_path, f"{GOOD}job_id: x\n---\n{GOOD}job_id: x\n")
    assert said == [f"job.yaml:7:1: /job_id: is the id of another job, at {tmp_path}/job.yaml:1"]


def test_a_file_that_is_not_there_and_one_that_is_no_text(tmp_path):
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(Faults) as caught:
        read_jobs([str(tmp_path / "none.yaml"), str(tmp_path / "bad.yaml")])
    assert [line.removeprefix(f"{tmp_path}/") for line in caught.value.lines] == [
        "none.yaml: No such file or directory",
        "bad.yaml: is not UTF-8 text: invalid start byte at byte 0",
    ]


def test_pools_come_parents_first_from_lists_and_documents(tmp_path):
    path = tmp_path / "pools.yaml"
    path.write_text("- path: /maps/tiles\n  reservation: {cpu: 1}\n- path: /maps\n---\npath: /art\nshare: 3\n")
    pools = read_pools([str(path)])
    assert [pool.path for pool in pools] == ["/art", "/maps", "/maps/tiles"]
    assert pools[2].body == {"reservation": {"cpu": 1}}


def test_wrong_pools_are_said_with_their_place(tmp_path):
    text = "- path: /maps\n  limt: {cpu: 1}\n- path: nowhere\n- path: /a\n- path: /a\n- 5\n- limit: {cpu: x}\n"
    assert faults(tmp_path, text, read_pools) == [
        "job.yaml:2:3: /limt: is not a known field; did you mean limit?",
        "job.yaml:3:3: /path: must be the path of a pool, such as /maps/tiles",
        f"job.yaml:5:3: /path: is the path of another pool, at {tmp_path}/job.yaml:4",
        "job.yaml:6:3: must be a mapping of fields",
        "job.yaml:7:3: /path: must be the path of a pool, such as /maps/tiles",
        'job.yaml:7:11: /limit/cpu: must be a number of units or of thousandths, such as 2 or "500m"',
    ]


@examples(150)
@given(st.text(max_size=200) | st.binary(max_size=100).map(lambda data: data.decode("latin-1")))
def test_any_text_is_a_job_or_a_list_of_problems(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "x.yaml"
    path.write_text(text)
    with suppress(Faults):
        assert read_jobs([str(path)])


texts = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@examples(200)
@given(st.dictionaries(texts, values, min_size=1, max_size=5), st.sampled_from((None, 2)))
def test_what_json_says_is_read_as_it_is_meant(value, indent):
    said: list[Fault] = []
    [document] = parse("x", json.dumps(value, indent=indent), said.append)
    assert (document.value, said) == (value, [])


def test_half_a_character_is_refused(tmp_path):
    assert faults(tmp_path, '{"pool": "\\ud83d"}') == ["job.yaml:1:10: is no text: half a character stands there"]


def test_who_forgets_the_quotes_is_told(tmp_path):
    assert faults(tmp_path, "pool: /maps\ncommand: [sh, -c, true]\nenv: {A: 1}\n") == [
        "job.yaml:2:19: /command/2: must be a valid string; put it in quotes",
        "job.yaml:3:7: /env/A: must be a valid string; put it in quotes",
    ]


def test_objects_that_follow_each_other_are_jobs_as_those_of_a_list_are(tmp_path: Path) -> None:
    path = tmp_path / "jobs.json"
    path.write_text("".join(f'{{"job_id": "{each}", "pool": "/a", "command": ["true"]}}\n' for each in "ab"))
    assert [(each.job_id, each.place()) for each in read_jobs([str(path)])] == [("a", f"{path}:1"), ("b", f"{path}:2")]


def test_of_many_mistakes_the_first_are_told_and_how_many_there_are(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text("- {pool: /a, comand: [a], job_id: x, command: [a]}\n" * 25)
    with pytest.raises(Faults) as told:
        read_jobs([str(path)])
    assert len(told.value.lines) == 21
    assert "more mistakes" in told.value.lines[-1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{path: /maps, share: 2}", "looks like a pool: define it by `paceline pool apply`"),
        ("{pool: /a, command: [a], resources: {memory: 9999999999PiB}}", "is too large: the largest unit is TiB"),
    ],
)
def test_what_is_meant_otherwise_is_told(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(Faults, match=said):
        read_jobs([str(path)])
