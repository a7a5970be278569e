#!/bin/sh
# deb calls this with "remove" or "upgrade", rpm with the number of versions that stay.
set -e

case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now skep.service
	fi
	;;
esac
