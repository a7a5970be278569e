#!/bin/sh
# Checks what make package has made, and what the Dockerfile makes, on a machine that has
# neither systemd running nor docker.
#
#   packaging/check.sh dist/skep_1.2.3_amd64.deb
#
# The files of the package, and those of the image, are laid into a directory of their own
# each. There skep serves, as another user and, run by root, with nothing but these files to
# be seen: it is asked for its health, gets messages, gives them back, and is stopped. The
# commands of the build stage are run as they stand in the Dockerfile, on what git has.
set -eu

deb=$1
chroot=$(command -v chroot || true)
work=$(mktemp -d)
server=
finish() {
	[ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
	rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM
chmod 755 "$work"

fail() {
	echo "package-check: $*" >&2
	[ ! -f "$work/log" ] || cat "$work/log" >&2
	exit 1
}

# inside ROOT COMMAND… runs a command of skep with nothing of this machine: no files, no
# variables but those in $variables, not as root.
inside() {
	root=$1
	shift
	if [ "$(id -u)" = 0 ]; then
		# shellcheck disable=SC2086
		exec env -i $variables "$chroot" --userspec=65532:65532 "$root" /usr/bin/skep "$@"
	fi
	# shellcheck disable=SC2086
	exec env -i $variables SKEP_DATA_DIR="$root/var/lib/skep" "$root/usr/bin/skep" "$@"
}

# serves ROOT NAME
serves() {
	root=$1
	[ "$(id -u)" != 0 ] || chown 65532:65532 "$root/var/lib/skep"
	if (inside "$root" health --timeout 1s) >"$work/log" 2>&1; then
		fail "$2: healthy before it serves"
	fi
	(inside "$root" serve) >"$work/log" 2>&1 &
	server=$!
	tries=0
	until (inside "$root" health) >"$work/health" 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 200 ] || fail "$2: does not get healthy: $(cat "$work/health")"
		kill -0 "$server" 2>/dev/null || fail "$2: has ended"
		sleep 0.1
	done
	grep -q "\"version\":\"$version\"" "$work/health" || fail "$2: /health of another version than $version: $(cat "$work/health")"
	printf '{"n":1}\n{"n":2}\n' | (inside "$root" push --queue check --url "http://127.0.0.1:$port") 2>"$work/said" ||
		fail "$2: push: $(cat "$work/said")"
	got=$( (inside "$root" consume --queue check --group check --limit 2 --url "http://127.0.0.1:$port") 2>"$work/said") ||
		fail "$2: consume: $(cat "$work/said")"
	[ "$(echo "$got" | wc -l)" = 2 ] || fail "$2: consumed $got"
	kill -TERM "$server"
	wait "$server" || fail "$2: exit status $? of a stop"
	server=
	(inside "$root" verify "$(data "$root")") >"$work/said" 2>&1 || fail "$2: verify: $(cat "$work/said")"
	echo "package-check: $2 serves, answers and stops: $(tail -1 "$work/said")"
}

# data ROOT is the data directory, as inside ROOT it is called.
data() {
	if [ "$(id -u)" = 0 ]; then echo /var/lib/skep; else echo "$1/var/lib/skep"; fi
}

port=$((20000 + $$ % 10000))
version=$(bin/skep version | sed 's/^skep \([^,]*\),.*/\1/')

# The package. Its unit is what gives it these variables.
mkdir "$work/deb"
dpkg-deb -x "$deb" "$work/deb"
for file in usr/bin/skep usr/lib/systemd/system/skep.service usr/lib/sysusers.d/skep.conf etc/skep/skep.env usr/share/doc/skep/copyright; do
	[ -f "$work/deb/$file" ] || fail "the package lacks $file"
done
dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./conffiles | grep -qx /etc/skep/skep.env || fail "skep.env is no conffile"
for script in postinst prerm postrm; do
	dpkg-deb --ctrl-tarfile "$deb" | tar -xO "./$script" | sh -n || fail "$script is no shell script"
done
# %S of the unit; settings that stand in skep.env without a #; a port that is free here.
variables=$(sed -n 's/^Environment=//p' "$work/deb/usr/lib/systemd/system/skep.service" | sed 's,%S,/var/lib,')
variables="$variables $(grep '^[A-Z]' "$work/deb/etc/skep/skep.env" || true) PORT=$port"
serves "$work/deb" "the package"

if command -v systemd-analyze >/dev/null; then
	sed "s,/usr/bin/skep,$work/deb/usr/bin/skep," "$work/deb/usr/lib/systemd/system/skep.service" >"$work/skep.service"
	systemd-analyze verify "$work/skep.service" || fail "the unit"
	systemd-analyze security --offline=true --threshold=20 "$work/skep.service" >"$work/said" 2>&1 ||
		fail "the unit is exposed: $(tail -1 "$work/said")"
	tail -1 "$work/said"
fi

[ "$(id -u)" = 0 ] || {
	echo "package-check: the image is left out: its build stage needs root" >&2
	exit 0
}
# The image: RUN lines of the build stage, in a copy of what git has, with /out elsewhere.
mkdir "$work/src" "$work/out"
git archive HEAD | tar -x -C "$work/src"
awk '/^FROM/ { stage++ } stage == 1 && sub(/^RUN /, "")' Dockerfile | sed "s,/out,$work/out,g" >"$work/build.sh"
[ "$(wc -l <"$work/build.sh")" -ge 3 ] || fail "the Dockerfile has no build stage"
(cd "$work/src" && VERSION=$version COMMIT=image sh -eu "$work/build.sh") >"$work/log" 2>&1 || fail "the build stage of the Dockerfile"
variables=$(awk '/^FROM/ { stage++ } stage == 2 && sub(/^ENV /, "")' Dockerfile | tr '\n' ' ')
port=$((port + 1))
variables="$variables PORT=$port"
serves "$work/out" "the image"
