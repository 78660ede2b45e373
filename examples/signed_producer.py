"""A job submitted by a producer that signs what it writes, so that the cell knows it by its key.

Usage: signed_producer.py HOST:PORT JOB_ID KEY.pem KEY_ID SUBJECT

KEY.pem is an Ed25519 private key. KEY_ID is what `paceline token create --subject SUBJECT --public-key FILE` has told.
"""

import sys
from pathlib import Path

from confluent_kafka import Producer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from events.codec import encode
from events.records.jobs import JobSubmitted
from events.records.parts import Actor
from events.signatures import sign

CELL = 0

if len(sys.argv) != 6:
    print(__doc__, file=sys.stderr)
    sys.exit(2)
bootstrap, job_id, path, key_id, subject = sys.argv[1:]
key = load_pem_private_key(Path(path).read_bytes(), password=None)
if not isinstance(key, Ed25519PrivateKey):
    sys.exit(f"{path} has no Ed25519 key: openssl genpkey -algorithm ed25519 -out {path}")
actor = Actor(subject, "token", credential=key_id)
job = JobSubmitted(job_id=job_id, pool="/maps/tiles", command=("sh", "-c", "echo signed"), actor=actor)

producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
producer.produce(job.topic, key=job_id, value=encode(sign(job, CELL, key)), partition=CELL)
sys.exit(producer.flush(10))
