#!/usr/bin/env bash
# Makes sure that what is needed beside Go is installed. `build`: a C and C++ compiler, and pip, which brings the engine's
# extensions. `test`: also PostgreSQL 15 or newer (initdb, postgres) and psql, and Java 17 with Maven, which fetches and runs
# the Kafka broker: the tests start them. On Debian and its
# kin, as root, what is missing is installed. Elsewhere it says what to install, and fails.
set -euo pipefail
what=${1:-test}

if ! command -v go > /dev/null; then
	echo "services: Go 1.26 or newer is needed, and no go is in PATH: https://go.dev/dl" >&2
	exit 1
fi

# Commands, and the Debian packages that have them.
missing=()
packages=()
need() { # need <package> <command>
	if ! command -v "$2" > /dev/null; then
		missing+=("$2")
		packages+=("$1")
	fi
}

postgres_found() {
	local initdb
	for initdb in /usr/lib/postgresql/*/bin/initdb "$(command -v initdb || true)"; do
		if [ -x "$initdb" ] && [ -x "$(dirname "$(readlink -f "$initdb")")/postgres" ]; then
			return 0
		fi
	done
	return 1
}

look() {
	missing=()
	packages=()
	need gcc gcc
	need g++ g++
	need python3 python3
	if command -v python3 > /dev/null && ! python3 -m pip --version > /dev/null 2>&1; then
		missing+=("pip of python3")
		packages+=(python3-pip)
	fi
	if [ "$what" = build ]; then
		return
	fi
	need postgresql-client psql
	if ! postgres_found; then
		missing+=("initdb and postgres")
		packages+=(postgresql)
	fi
	need default-jre-headless java
	need maven mvn
}

look
if [ ${#missing[@]} -eq 0 ]; then
	exit 0
fi
if [ "$(id -u)" -eq 0 ] && command -v apt-get > /dev/null; then
	echo "installing ${packages[*]} (no database cluster is made or started)"
	export DEBIAN_FRONTEND=noninteractive
	# Tests start servers of their own: no cluster is made, and none is started.
	if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
		mkdir -p /etc/postgresql-common
		echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.conf
	fi
	log=$(mktemp)
	if ! { apt-get update -q && apt-get install -q -y --no-install-recommends -o Dpkg::Options::=--force-confold "${packages[@]}"; } > "$log" 2>&1; then
		tail -n 30 "$log" >&2
		echo "services: apt-get could not install ${packages[*]}" >&2
		exit 1
	fi
	rm -f "$log"
	look
	if [ ${#missing[@]} -eq 0 ]; then
		exit 0
	fi
fi
{
	printf 'services: needed for make %s, and not found:' "$what"
	printf ' %s;' "${missing[@]}"
	printf '\n  Debian, Ubuntu:  sudo apt-get install %s\n' "${packages[*]}"
	printf '  macOS:           xcode-select --install; brew install python postgresql@15 openjdk@17 maven\n'
	printf '  elsewhere:       gcc and g++, Python 3 with pip, PostgreSQL 15 or newer with initdb, postgres and psql, Java 17 or newer and Maven in PATH\n'
} >&2
exit 1
