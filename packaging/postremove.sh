#!/bin/sh
# The messages stay, whatever is removed: a package that is purged by mistake must not take
# them along. The user stays as well, since they are its files.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
case "$1" in
purge | 0)
	if [ -d /var/lib/skep ]; then
		echo "skep: the messages in /var/lib/skep are kept; delete them by hand" >&2
	fi
	;;
esac
