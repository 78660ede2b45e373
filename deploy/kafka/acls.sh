#!/bin/sh
# Allows the user of each kind of process what it needs on Kafka, and nothing else (docs/security.md, "On Kafka"):
#
#     deploy/kafka/acls.sh BROKER:9092 ADMIN.properties [PREFIX]
#
# ADMIN.properties: the client settings of a user who may change ACLs. The users are named by PREFIX (paceline-) and
# their kind, as in paceline-lifecycle; make them first. Needs `paceline` and Kafka's kafka-acls.sh in the PATH.
set -eu
commands=$(paceline log acls --kafka "$1" --command-config "$2" --user-prefix "${3:-paceline-}")
echo "$commands" | sh -e
