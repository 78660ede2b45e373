"""The log on Kafka, by confluent-kafka."""
