#!/bin/sh
# Installs the clients that test/clients runs into the folder $1, with pip, npm and Maven, once per version of this file.
set -eu
dir=$1
stamp=$dir/$(cksum < "$0" | cut -d' ' -f1)
if [ -e "$stamp" ]; then exit 0; fi
mkdir -p "$dir/node" "$dir/java"
python3 -m venv "$dir/python"
"$dir/python/bin/pip" -q install 'psycopg[binary]==3.2.9' 'SQLAlchemy==2.0.41' 'adbc-driver-postgresql==1.6.0' 'pyarrow==20.0.0'
(cd "$dir/node" && npm --silent install --no-audit --no-fund pg@8.16.0 pg-cursor@2.15.0 pg-copy-streams@6.0.6)
mvn -q -B dependency:copy -Dartifact=org.postgresql:postgresql:42.7.5 -DoutputDirectory="$(cd "$dir/java" && pwd)"
touch "$stamp"
