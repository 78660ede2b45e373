"""The parts of a cell as processes of their own, which meet only in Kafka.

Processors and the projector are faust Apps of one form (`app`): a group of Kafka gives them cells (`cells`), each cell
has a thread that steps its part. The gateway and the API serve HTTP; the fan-out is a faust App of the ordinary form.
"""
