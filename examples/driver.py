"""A driver: a run that adds tasks to its own job, by the token of its run. Its job has `run_token: true`.

Usage: driver.py NUMBER, with the address of the API in PACELINE_SERVER
"""

import os
import sys

from paceline.client.client import Client

if len(sys.argv) != 2 or not sys.argv[1].isdecimal():
    print(__doc__, file=sys.stderr)
    sys.exit(2)
job_id = os.environ["PACELINE_JOB"]
if os.environ["PACELINE_TASK"] == "0":
    # A client reads the token when it is made, and the token is renewed: make one for each step of a long run.
    client = Client(server=os.environ["PACELINE_SERVER"])
    spec = client.job(job_id)["spec"]
    client.update_job(job_id, {**spec, "instances": spec["instances"] + int(sys.argv[1])}, wait=20)
print(f"task {os.environ['PACELINE_TASK']} works")
