"""The training gang of `examples/` on a real cell: devices go from the file of an agent to the environment of runs."""

import re
import sys
from pathlib import Path

from paceline.job_files import read_jobs
from tests.helpers import ROOT
from tests.helpers.real_cell import CellProcess

TRAINING = ROOT / "examples" / "training"


def test_workers_have_cards_of_one_link_group_each_and_add_up_their_gradients(tmp_path: Path) -> None:
    options = ("--devices", str(TRAINING / "devices.yaml"))
    cell = CellProcess(tmp_path / "cell", sim_hosts=0, agent=True, options=options)
    cell.start()
    try:
        cell.pool("/research")
        [file] = read_jobs([str(TRAINING / "train.yaml")])
        body = file.spec.model_dump(mode="json", exclude_defaults=True)
        body["command"] = [sys.executable, str(TRAINING / "worker.py")]
        answer = cell.request("POST", "/v1/jobs?wait=20s", body)
        assert answer.status_code == 201, answer.text
        cell.until(lambda: cell.state("train") == "SUCCEEDED")
        logs = [cell.get(f"/v1/jobs/train/tasks/{rank}/log").text for rank in range(2)]
        lines = [re.search(r"step 2: rank (\d) of 2 on cards ([\d,]+), sum ([\d.]+)", log) for log in logs]
        assert all(lines), logs
        cards = [{int(card) // 4 for card in line[2].split(",")} for line in lines if line]
        assert sorted(map(sorted, cards)) == [[0], [1]], "each worker is in a link group of its own"
        assert [line[3] for line in lines if line] == ["15.0", "15.0"]
    finally:
        cell.end()
