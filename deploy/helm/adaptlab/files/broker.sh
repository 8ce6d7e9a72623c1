#!/bin/sh
# The broker of docker-compose.yml: a Valkey that knows the users of valkey_users.acl and nobody else.
#
#   broker.sh           start it
#   broker.sh health    ask it, as the API does, whether it works
#
# The passwords are in VALKEY_API_PASSWORD and VALKEY_WORKER_PASSWORD, or in the files that
# VALKEY_API_PASSWORD_FILE and VALKEY_WORKER_PASSWORD_FILE name. Valkey gets their SHA-256.
set -eu
umask 077

password() { # password NAME VALUE FILE
  if [ -n "$3" ]; then
    cat "$3"
  elif [ -n "$2" ]; then
    printf %s "$2"
  else
    echo "broker.sh: set $1 or $1_FILE" >&2
    return 1
  fi
}

of_api=$(password VALKEY_API_PASSWORD "${VALKEY_API_PASSWORD:-}" "${VALKEY_API_PASSWORD_FILE:-}")

if [ "${1:-}" = health ]; then
  REDISCLI_AUTH=$of_api VALKEYCLI_AUTH=$of_api exec valkey-cli --user adaptlab_api ping
fi

of_worker=$(password VALKEY_WORKER_PASSWORD \
  "${VALKEY_WORKER_PASSWORD:-}" "${VALKEY_WORKER_PASSWORD_FILE:-}")

digest() {
  printf %s "$1" | sha256sum | cut -d ' ' -f 1
}

# Nobody may do everything here: the line of that user is left out.
sed -e '/^user lab /d' -e "s/#{api}/#$(digest "$of_api")/" \
  -e "s/#{worker}/#$(digest "$of_worker")/" \
  "${VALKEY_USERS:-/etc/adaptlab/valkey_users.acl}" > users.acl

unset VALKEY_API_PASSWORD VALKEY_WORKER_PASSWORD
# The image's own first step, which becomes another user and starts the server.
exec docker-entrypoint.sh valkey-server --port "${VALKEY_PORT:-6379}" --save '' --appendonly yes \
  --aclfile users.acl
