#!/bin/sh
# Waits until the broker that `make run` has started answers, and prints what to try.
# It runs nothing of that itself. PORT and QUEEN_BIND_ADDR are those of the broker.

host=${QUEEN_BIND_ADDR:-127.0.0.1}
case $host in
0.0.0.0 | :: | '[::]') host=127.0.0.1 ;;
'['*) ;;
*:*) host="[$host]" ;;
esac
url="http://$host:${PORT:-6632}"

# healthy succeeds once /health answers 200. With neither curl nor wget there is no way
# to ask, and the commands are printed at once.
healthy() {
	if command -v curl >/dev/null 2>&1; then
		curl -fs -o /dev/null --max-time 2 "$url/health"
	elif command -v wget >/dev/null 2>&1; then
		wget -q -T 2 -t 1 -O /dev/null "$url/health" 2>/dev/null
	fi
}

# A data directory with much in its journal takes a while to recover. After some 30
# seconds the commands are printed all the same.
tries=0
until healthy; do
	tries=$((tries + 1))
	if [ "$tries" -ge 150 ]; then
		printf '\n%s does not answer yet; its log says why.\n' "$url/health"
		break
	fi
	sleep 0.2 2>/dev/null || sleep 1
done

cat <<END

Skep listens on $url and keeps everything in ${SKEP_DATA_DIR:-./data}.
Three commands to try, from another terminal:

1. Push a message. The answer means that it is on disk.

   curl -d '{"items":[{"queue":"hello","partition":"user-1","payload":{"text":"hi"}}]}' $url/api/v1/push

2. Take it, and acknowledge it in the same step.

   curl '$url/api/v1/pop/queue/hello?autoAck=true'

3. Wait up to 60 seconds for the next one. Meanwhile push again from a third terminal.

   curl '$url/api/v1/pop/queue/hello?autoAck=true&wait=true&timeout=60000'

Without autoAck a pop leases messages. They come again when the lease ends, unless they
are acknowledged with the ids that the pop has answered: docs/http-api.md shows how.
Ctrl-C stops the broker.

END
