"""`paceline demo`: the main job."""

import click

from paceline.cli.commands.common import examples


@click.command(epilog=examples("paceline demo", "paceline demo --kafka localhost:9092"))
@click.option("--kafka", default="", metavar="HOST:PORT", help="Keep the log on Kafka; missing topics are created.")
def demo(kafka: str) -> int:
    """Run an end-to-end demo: start a cell in a temporary folder, run the jobs of examples/, verify the log.

    Exits with 1 if anything isn't as it should be.
    """
    from paceline.cli.demo import run_demo

    return run_demo(kafka)
