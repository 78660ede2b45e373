"""Devices and cores of hosts one by one: which are free, which a task takes (decision 109), and the strategies that
choose hosts by them (106). Pure.
"""
