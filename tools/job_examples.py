"""An example of each field of a job, as YAML, for docs/jobs.md; a test reads each into a spec."""

EXAMPLES: dict[str, str] = {
    "job_id": "nightly-17",
    "pool": "/maps/tiles",
    "kind": "stateless",
    "instances": "12",
    "sim": "{duration: 5s, exit_code: 3, fail_runs: 1, fail_run: 0, ready: 2s, ignores_stop: true, "
    "health: {bad_at: 1m, runs: 2}}; or {durations: [1s, 9s]}",
    "image": "registry.example/app:1.2",
    "command": "[python3, train.py]",
    "env": "{MODE: fast}",
    "cores": "8",
    "resources": "{cpu: 500m, memory: 2GiB, disk: 10GiB, gpu: 1}; or {gpu: 400m, gpu_memory: 10GiB}",
    "devices": "{models: {gpu: [a100, h100]}, within: link_group}",
    "numa": "one",
    "any_of": "[{resources: {gpu: 2}, devices: {models: {gpu: h100}}}, {resources: {gpu: 4}}]",
    "ports": "[http, {name: metrics, port: 9100}]",
    "volumes": "[data]",
    "run_token": "true",
    "secrets": "[db, {name: tls, version: 3}]",
    "open_files": "4096",
    "isolation": "cgroup",
    "network": "none",
    "root": "writable",
    "user": "1000:1000",
    "device_files": "[/dev/fuse]",
    "cpu_limit": "1.5",
    "processes": "200",
    "output": "{head: 64KiB, tail: 1MiB}",
    "priority": "10",
    "preemptible": "false",
    "revocable": "true",
    "gang": "{min: 4}",
    "controller": "{on_end: wait}",
    "on_preempt": "fail",
    "retries": "{max: 3, system: 5}",
    "max_runtime": "2h",
    "max_running": "4",
    "start_deadline": "5m",
    "constraints": "[{attribute: arch, values: [x86_64]}, {any: [{attribute: gpu, operator: exists}, "
    "{all: [{attribute: zone, operator: not_in, values: [b]}]}], weight: 10}]",
    "tolerations": "[maintenance, disk=slow, {taint: repair, tolerate: 5m}]",
    "strategy": "spread",
    "host_limit": "2",
    "exclusive": "true",
    "affinity": "[{label: app, value: cache, within: rack, weight: 10}]",
    "anti_affinity": "[{label: app, value: web}]",
    "spread": "{over: rack, skew: 1}; or {over: rack, most: 4}; or {over: rack, targets: {r1: 60}, hard: true}",
    "within": "row",
    "near": "rack",
    "segments": "8",
    "sla": "{max_unavailable: 1}; or {max_unavailable: 10%, min_available: 3, min_healthy_time: 30s, "
    "max_disruptions_per_hour: 20%, group: shop, "
    "windows: [{schedule: 0 2 * * 1-5, duration: 4h, time_zone: Europe/Berlin}]}; or "
    "{max_unavailable: 0, replace: before, surge: 2, replace_wait: 5m}",
    "health": "{http: {port: http, path: /health}, delay: 5s, interval: 10s, timeout: 2s, failures: 3, successes: 1}; "
    "or {tcp: {port: http}}; or {command: [test, -e, ready]}",
    "update": "{batch: 2, max_failures: 1, max_attempts: 2, roll_back: true, healthy: 30s, canary: 1, "
    "promote_after: 10m, start_paused: false, blocked_after: 1h, progress_deadline: 5m, prefetch: true, "
    "creation: true}",
    "stop_signal": "INT",
    "stop_grace": "30s",
    "on_silence": "{action: stop_after, after: 5m}",
    "description": "Tiles of the night",
    "labels": "{app: web}",
    "owner": "ann",
    "overrides": "[{instances: 0-3, command: [leader], env: {ROLE: leader}, resources: {memory: 4GiB}}]",
}
ALONE = "; or "
"""Between values of which a job has one."""
