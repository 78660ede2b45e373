"""The runtime of machines: the driver, the fold, stores, snapshots, replay, hosting. No machine imports it."""
