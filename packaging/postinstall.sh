#!/bin/sh
# Runs after an installation or an upgrade, of deb and rpm.
set -e

if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers skep.conf
elif ! getent passwd skep >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir /var/lib/skep --shell /usr/sbin/nologin skep
fi
[ -d /var/lib/skep ] || mkdir -m 0750 /var/lib/skep
chown skep:skep /var/lib/skep

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart skep.service # does nothing unless it runs
fi
