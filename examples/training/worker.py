"""A worker of a training job: all ranks add up their gradients at rank 0, step by step, as torch.distributed would.

It finds its place in the gang and its cards in its environment, and needs neither torch nor a GPU.
"""

import json
import os
import socket
import time

STEPS = 3
rank, size = int(os.environ["PACELINE_RANK"]), int(os.environ["PACELINE_SIZE"])
master = os.environ["PACELINE_MASTER_HOST"], int(os.environ["PACELINE_MASTER_PORT"])
cards = os.environ["CUDA_VISIBLE_DEVICES"].split(",")


def step_at_master(gradients: list[float], others: list[socket.socket]) -> float:
    """The sum of what all ranks send, which all hear."""
    total = sum(gradients) + sum(json.loads(each.makefile().readline()) for each in others)
    for each in others:
        each.sendall(f"{json.dumps(total)}\n".encode())
    return total


def connected() -> list[socket.socket]:
    """Rank 0: a connection to each of the others; they: one to rank 0, who may start later."""
    if rank == 0:
        with socket.create_server(("", master[1])) as server:
            return [server.accept()[0] for _ in range(size - 1)]
    for _ in range(600):
        try:
            return [socket.create_connection(master, timeout=60)]
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"rank 0 isn't heard at {master}")


peers = connected()
for number in range(STEPS):
    mine = [float(rank + number) for _ in cards]
    if rank == 0:
        total = step_at_master(mine, peers)
    else:
        peers[0].sendall(f"{json.dumps(sum(mine))}\n".encode())
        total = json.loads(peers[0].makefile().readline())
    print(f"step {number}: rank {rank} of {size} on cards {','.join(cards)}, sum {total}", flush=True)
