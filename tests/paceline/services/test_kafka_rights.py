"""The rights of processes on Kafka follow what the processes are."""

from events.topics import EVERY, MACHINES, rounds_of
from paceline.services.kafka_rights import RIGHTS, commands, grants
from paceline.services.processes import IN_KAFKA
from processors.cell_machines import machines


def test_each_kind_of_process_that_meets_the_others_in_kafka_has_a_user() -> None:
    assert [*RIGHTS][: len(IN_KAFKA)] == sorted(IN_KAFKA, key=[*RIGHTS].index)


def test_machines_read_their_inputs_and_write_their_own_rounds() -> None:
    for name, make in machines().items():
        machine = make()
        own = rounds_of(name)
        assert RIGHTS[name].read == {*machine.facts, *map(rounds_of, machine.peers), own}
        assert RIGHTS[name].write == {own}


def test_rounds_of_a_machine_are_written_by_its_processes_alone() -> None:
    for machine in MACHINES:
        assert {kind for kind, rights in RIGHTS.items() if rounds_of(machine) in rights.write} == {machine, "up"}


def test_each_command_names_its_user_and_what_it_allows() -> None:
    [topics, group] = commands(grants(["consumer"], "x-"), "broker:9092", "admin.properties")
    where = "kafka-acls.sh --bootstrap-server broker:9092 --command-config admin.properties --add"
    decisions = "".join(f" --topic {topic.name}" for topic in EVERY if topic.name in RIGHTS["consumer"].read)
    literal = "--operation Read --resource-pattern-type literal"
    assert topics == f"{where} --allow-principal User:x-consumer {literal}{decisions}"
    assert group == f"{where} --allow-principal User:x-consumer {literal} --group x-consumer"


def test_a_group_of_each_data_folder_is_allowed_by_its_prefix() -> None:
    [group] = [grant for grant in grants(["projector"]) if grant.type == "group" and grant.pattern == "prefixed"]
    assert (group.names, group.operations) == (("paceline.projector.",), ("Read",))
