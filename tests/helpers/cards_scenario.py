"""A scenario of a cell that has devices, pools of hosts, gangs and maintenance, for what shows a cell."""

CARDS = """
name: cards
end: 40m
cell: {topology: [zone, rack], resources: [{name: gpu_memory, unit: MiB}]}
host_pools:
  - {name: gpus, description: bought by research}
  - {name: stateless, elastic: [{source: shared, above: 60, below: 30, lasts: 5m}]}
hosts:
  - {name: card, count: 2, host_pool: gpus, resources: {cpu: 16}, attributes: {zone: z1, rack: r1}, devices: [
       {id: "0", kind: gpu, model: a100, memory: 40GiB, numa: 0, link_group: left},
       {id: "1", kind: gpu, model: a100, memory: 40GiB, numa: 0, link_group: left},
       {id: "2", kind: gpu, model: h100, memory: 80GiB, numa: 1, link_group: right},
       {id: "3", kind: gpu, model: h100, memory: 80GiB, numa: 1, link_group: right, healthy: false}],
     cores: {nodes: 2, cores: 4}}
  - {name: sum, resources: {cpu: 8, gpu: 2}, attributes: {zone: z1, rack: r1}, host_pool: gpus}
  - {name: web, resources: {cpu: 4}, host_pool: stateless, attributes: {zone: z1, rack: r2}}
  - {name: common, count: 3, resources: {cpu: 4}, attributes: {zone: z2, rack: r3}}
pools:
  - {path: /ml, host_pools: [gpus, shared], reservation: {cpu: 8, gpu: 8}}
  - {path: /ml/train, reservation: {cpu: 8, gpu: 8}}
  - {path: /web, reservation: {cpu: 4}}
jobs:
  - {job_id: gang, at: 1m, pool: /ml/train, instances: 2, gang: {min: 2}, within: rack, resources: {cpu: 1, gpu: 1},
     devices: {models: {gpu: a100}, within: link_group}, sim: {duration: 10h}}
  - {job_id: share, at: 1m, pool: /ml/train, resources: {gpu: 400m}, cores: 2, numa: one, sim: {duration: 10h}}
  - {job_id: wide, at: 2m, pool: /ml/train, instances: 8, gang: {min: 8}, near: rack, segments: 2,
     resources: {cpu: 1, gpu: 1}, sim: {duration: 10h}}
  - {job_id: any, at: 3m, pool: /ml/train, sim: {duration: 10h},
     any_of: [{resources: {gpu: 2}, devices: {models: {gpu: a100}}}, {resources: {cpu: 2}}]}
  - {job_id: site, at: 1m, pool: /web, kind: stateless, instances: 3, resources: {cpu: 1},
     sim: {duration: 10h, ready: 1s}}
events:
  - {at: 4m, device: {host: card-1, device: "1"}}
  - {at: 5m, rebalance: wide}
  - {at: 30m, campaign: {start: {maintenance_id: kernel, hosts: {ids: [card-2]}, work: {kind: manual}}}}
  - {at: 31m, taint: {host: sum-1, key: dedicated}}
"""
"""A gang on devices, one that waits for some, a share beside whole cores, alternatives, hosts that move by load."""
