"""A job submitted from outside: nothing of Paceline but a schema.

Usage: foreign_producer.py HOST:PORT JOB_ID [CELL]
"""

import io
import sys
from pathlib import Path

from confluent_kafka import Producer
from fastavro import parse_schema, schemaless_writer
from fastavro.schema import fingerprint, load_schema, to_parsing_canonical_form

if len(sys.argv) not in (3, 4) or not (sys.argv[3:] or ["0"])[0].isdecimal():
    print(__doc__, file=sys.stderr)
    sys.exit(2)
bootstrap, job_id, cell = [*sys.argv[1:], "0"][:3]
schema = load_schema(Path(__file__).parents[1] / "schemas" / "jobs" / "JobSubmitted.avsc")
command = ["sh", "-c", "echo from afar"]
empty = {field["name"]: b"" for field in schema["fields"] if field["type"] == "bytes"}  # fastavro wants these as bytes
job = {"job_id": job_id, "pool": "/maps/tiles", "instances": 2, "command": command, **empty}

value = io.BytesIO()
value.write(b"\xc3\x01" + bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO")))
schemaless_writer(value, parse_schema(schema), job)

producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
producer.produce("paceline.jobs", key=job_id, value=value.getvalue(), partition=int(cell))
sys.exit(producer.flush(10))
